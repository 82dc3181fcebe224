package natscluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

func TestClusterKeepsItsDataWhenAServerDies(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	program, err := natscluster.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	var mu sync.Mutex
	proxies := make(map[[2]int]*fault.Proxy)
	c, err := natscluster.New(program, t.TempDir(), 3, func(from, to int, address string) (string, error) {
		p, err := fault.New(address)
		if err != nil {
			return "", err
		}
		t.Cleanup(func() { _ = p.Close() })
		mu.Lock()
		defer mu.Unlock()
		proxies[[2]int{from, to}] = p
		return p.Addr().String(), nil
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	t.Cleanup(func() {
		assert.NoError(t, c.Stop())
	})
	conn := require.Value(nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)))(t)
	defer conn.Close()
	js := require.Value(jetstream.New(conn))(t)
	once := func(call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return call(ctx)
	}
	var stream jetstream.Stream
	for stream == nil { // a request is lost if the servers elect another leader meanwhile
		err := once(func(ctx context.Context) (err error) {
			stream, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
			return err
		})
		require.True(t, err == nil || ctx.Err() == nil, err)
	}
	last := uint64(0)
	count := func() (n uint64) {
		_ = once(func(ctx context.Context) error { // without a leader there is no answer
			info, err := stream.Info(ctx)
			if err == nil {
				n = info.State.LastSeq
			}
			return err
		})
		return n
	}
	publish := func() {
		t.Helper()
		for {
			err := once(func(ctx context.Context) error {
				_, err := js.Publish(ctx, "s", []byte("x"), jetstream.WithExpectLastSequence(last))
				return err
			})
			if err == nil || count() > last { // or the answer was lost
				last++
				return
			}
			require.NoError(t, ctx.Err(), err)
		}
	}
	publish()
	node := c.Nodes[0]
	require.NoError(t, node.Kill())
	publish()
	require.NoError(t, node.Start())
	for !node.Healthy(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("the server does not become healthy\n%s", node.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
	// The servers connect to each other by the proxies alone.
	for _, p := range proxies {
		p.Cut()
	}
	if once(func(ctx context.Context) error {
		_, err := js.Publish(ctx, "s", []byte("x"), jetstream.WithExpectLastSequence(last))
		return err
	}) == nil {
		t.Error("a server that is cut off from the others stored a message")
	}
	for _, p := range proxies {
		p.Join()
	}
	for count() < last {
		require.NoError(t, ctx.Err(), "the cluster does not recover")
	}
}
