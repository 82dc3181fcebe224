package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

// TestALeaderThatDies appends to a log while the server that leads it is killed and started
// again, and a follower follows: everything that was acknowledged is there, once, in its order.
func TestALeaderThatDies(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	program, err := natscluster.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	c, err := natscluster.New(program, t.TempDir(), 3, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	open := func() *replicated.JetStream {
		nc := connect(t, c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
		for { // a request is lost if the servers elect another leader meanwhile
			j, err := replicated.OpenJetStream(ctx, nc, replicated.JetStreamOptions{Name: "test", Shards: 1, Replicas: 3, Create: true})
			if err == nil {
				t.Cleanup(func() { j.Close() })
				return j
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	owner, member := open(), open()
	if w := owner.Warnings(); len(w) > 0 {
		t.Error(w)
	}
	o := options(ctx, "a")
	o.PartBytes, o.AckWait = 2000, time.Second
	resent := 0
	o.Metrics.Resent = func(int, error) { resent++ }
	log := take(t, owner.Stream(0), 0, o)
	r := &memory{}
	follower := replicated.NewFollower(member.Stream(0), r, replicated.FollowerOptions{
		Clock: replicatedtest.NewClock(1), Snapshots: member.Snapshots(0), Snapshot: replicated.SnapshotterOptions{
			Messages: 100, Made: func(s replicated.Snapshot, took time.Duration, err error) { t.Log("snapshot", s.Offset, took, err) },
		},
	})
	following, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- follower.Run(following) }()

	random := rand.New(rand.NewPCG(1, 1))
	want := &memory{}
	appendRecords := func(n int) {
		t.Helper()
		for range n {
			record := want.record(noise(random, random.IntN(10_000)))
			require.NoError(t, want.Apply([][]byte{[]byte(record)}, checkpoint.Point{Offset: appendRecord(t, log, record)}))
		}
	}
	appendRecords(50)
	leader := leaderOf(t, c, "NDR_test_00")
	require.NoError(t, leader.Kill())
	appendRecords(50)
	require.NoError(t, leader.Start())
	for !leader.Healthy(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("the server does not become healthy: %v\n%s", ctx.Err(), leader.Log())
		}
		appendRecords(1)
	}
	require.NoError(t, follower.CatchUp(ctx, log.Offset()))
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantState(t, r, want)
	for { // the streams may be without a leader yet
		_, err := replicated.WriteSnapshot(ctx, owner.Stream(0), owner.Snapshots(0), r, noon)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	appendRecords(10)
	for _, c := range []struct {
		name string
		make func() (*memory, error)
	}{
		{"a follower", func() (*memory, error) { return r, nil }},
		{"the snapshot and the log", func() (*memory, error) {
			r := &memory{}
			_, err := replicated.Restore(ctx, owner.Stream(0), owner.Snapshots(0), func() (replicated.Replica, error) { return r, nil })
			return r, err
		}},
	} {
		r, err := c.make()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		f, stop := follow(t, owner.Stream(0), r)
		if err := f.CatchUp(ctx, log.Offset()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_ = stop()
		wantState(t, r, want)
	}
	t.Logf("%d records, %d resends", len(want.records), resent)
}

// leaderOf returns the server that leads a stream.
func leaderOf(t *testing.T, c *natscluster.Cluster, stream string) *natscluster.Node {
	t.Helper()
	js, err := jetstream.New(connect(t, c.URL()))
	require.NoError(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		s, err := js.Stream(t.Context(), stream)
		for n, node := range c.Nodes {
			if err == nil && s.CachedInfo().Cluster.Leader == fmt.Sprint("n", n) {
				return node
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no leader: %v", stream, err)
		}
	}
}
