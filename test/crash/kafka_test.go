package crash

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/test/fault"
	"ndrbridge/test/require"
)

// kafkaBroker is a Kafka broker behind a proxy, whose address it advertises. It keeps its
// topics when it is restarted.
type kafkaBroker struct {
	proxy  *fault.Proxy
	folder string

	mu      sync.Mutex
	running *kfake.Cluster // nil: stopped
	address string
}

var topics = []string{"ndr.detections", "ndr.audit", "ndr.records", "ndr.events"}

// startKafka starts a broker with topics and consumes them.
func startKafka(t *testing.T, proxy *fault.Proxy, receive func(sink string, body []byte)) *kafkaBroker {
	t.Helper()
	k := &kafkaBroker{proxy: proxy, folder: t.TempDir()}
	k.start(t)
	t.Cleanup(k.stop)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(proxy.Addr().String()), kgo.Dialer(k.dial), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for ctx.Err() == nil {
			// A failed fetch is retried.
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { receive(kafkaSink, r.Value) })
		}
	})
	t.Cleanup(func() { cancel(); consuming.Wait(); client.Close() })
	return k
}

// dial connects the reader to the broker directly, without the proxy.
func (k *kafkaBroker) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	k.mu.Lock()
	address := k.address
	k.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// start starts the broker with the data in its folder, on any port.
func (k *kafkaBroker) start(t *testing.T) {
	t.Helper()
	running, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...), kfake.DataDir(k.folder), kfake.ListenFn(k.listen))
	require.NoError(t, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = running
}

// listen listens on any port and advertises the proxy's.
func (k *kafkaBroker) listen(network, _ string) (net.Listener, error) {
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.address = l.Addr().String()
	k.proxy.Retarget(k.address)
	return advertised{l, k.proxy.Addr()}, nil
}

// advertised is a listener that reports another address.
type advertised struct {
	net.Listener
	address net.Addr
}

// Addr returns the advertised address.
func (a advertised) Addr() net.Addr { return a.address }

// stop stops the broker, if it is running.
func (k *kafkaBroker) stop() {
	k.mu.Lock()
	running := k.running
	k.running = nil
	k.mu.Unlock()
	if running != nil {
		running.Close()
	}
}
