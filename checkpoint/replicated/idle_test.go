package replicated_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestIdleClusterIsQuiet counts the messages to and from the server of an owner that only renews
// its lease, and two followers. Their user has no more than the documented rights.
func TestIdleClusterIsQuiet(t *testing.T) {
	t.Parallel()
	s, stop, err := natsserver.Start(t.TempDir(), func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: replicatedtest.Permissions(one.Name)}}
		o.NoAuthUser = "u"
	})
	require.NoError(t, err)
	t.Cleanup(stop)
	owned, _ := openGeneration(t, openJetStream(t, connect(t, s.ClientURL()), one))
	l := take(t, owned, 0, options(t.Context(), "a"))
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	for range cap(ended) {
		log, snapshots := openGeneration(t, openJetStream(t, connect(t, s.ClientURL()), one))
		f := replicated.NewFollower(log, &memory{}, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1), Snapshots: snapshots})
		go func() { ended <- f.Run(ctx) }()
		require.NoError(t, f.CatchUp(t.Context(), l.Offset()))
	}
	messages := func() int64 {
		v := require.Value(s.Varz(&server.VarzOptions{}))(t)
		return v.InMsgs + v.OutMsgs
	}
	const seconds = 12
	before := messages()
	for range seconds / 2 {
		appendRecord(t, l, "")
		time.Sleep(2 * time.Second)
	}
	n := float64(messages()-before) / seconds
	assert.True(t, n <= 5, n, "messages a second")
	cancel()
	for range cap(ended) {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}
