package crash

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/fault"
	"ndrbridge/test/require"
)

// natsServer is a NATS server behind a proxy. It keeps its streams when it is restarted.
type natsServer struct {
	proxy  *fault.Proxy
	folder string

	mu      sync.Mutex
	running *server.Server // nil: stopped
	address string
}

// mirrorPrefix is the prefix of the second sink's subjects in the stream.
const mirrorPrefix = "ndr.mirror."

// startNATS starts a server with a stream and consumes what two sinks store there.
func startNATS(t *testing.T, proxy *fault.Proxy, receive func(sink string, body []byte)) *natsServer {
	t.Helper()
	s := &natsServer{proxy: proxy, folder: t.TempDir()}
	s.start(t)
	t.Cleanup(s.stop)
	connection, err := nats.Connect("nats://"+s.address,
		nats.SetCustomDialer(s), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	js, err := jetstream.New(connection)
	require.NoError(t, err)
	// The deduplication window is minimal, so that duplicates are not hidden.
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "NDR", Subjects: []string{"ndr.>"}, Duplicates: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		sink := natsSink
		if strings.HasPrefix(m.Subject(), mirrorPrefix) {
			sink = mirrorSink
		}
		receive(sink, m.Data())
	})
	require.NoError(t, err)
	t.Cleanup(func() { consuming.Stop(); <-consuming.Closed() })
	return s
}

// Dial implements nats.CustomDialer: it connects the reader to the server directly, without
// the proxy.
func (s *natsServer) Dial(network, _ string) (net.Conn, error) {
	s.mu.Lock()
	address := s.address
	s.mu.Unlock()
	return net.Dial(network, address)
}

// start starts the server with the data in its folder, on any port.
func (s *natsServer) start(t *testing.T) {
	t.Helper()
	running, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: s.folder, NoSigs: true})
	require.NoError(t, err)
	running.Start()
	require.True(t, running.ReadyForConnections(10*time.Second), "the NATS server is not ready")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.address = running, running.Addr().String()
	s.proxy.Retarget(s.address)
}

// stop stops the server, if it is running.
func (s *natsServer) stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running != nil {
		running.Shutdown()
		running.WaitForShutdown()
	}
}
