package loopback

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
)

// NATS runs a NATS server with JetStream, on a free port and in a folder of its own unless
// change, which may be nil, sets others.
func NATS(t testing.TB, change func(*server.Options)) *server.Server {
	t.Helper()
	s, stop, err := natsserver.Start(t.TempDir(), change)
	require.NoError(t, err)
	t.Cleanup(stop)
	return s
}

// JetStream returns a JetStream client of a server, connected with options.
func JetStream(t testing.TB, s *server.Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL(), options...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}
