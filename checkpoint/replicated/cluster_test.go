package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/checkpoint/replicated/replicatedtest"
	"ndrbridge/test/natscluster"
)

// TestServersThatDie appends to a log while each server in turn is killed and started again,
// and a follower follows: everything that was acknowledged is there, once, in its order.
func TestServersThatDie(t *testing.T) {
	t.Parallel()
	program, err := natscluster.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := natscluster.New(program, t.TempDir(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	open := func() *replicated.JetStream {
		nc := connect(t, c.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
		return openJetStream(t, nc, replicated.JetStreamOptions{Name: "test", Shards: 1, Replicas: 3, Wait: 10 * time.Second})
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

	killed := make(chan error, 1)
	stopped := make(chan struct{})
	go func() { killed <- killInTurn(ctx, c, stopped) }()
	random := rand.New(rand.NewPCG(1, 1))
	want := &memory{}
	for done := false; !done; {
		select {
		case err := <-killed:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		record := want.record(noise(random, random.IntN(10_000)))
		if err := want.Apply([][]byte{[]byte(record)}, appendRecord(t, log, record)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(stopped)
	if err := follower.CatchUp(ctx, log.Offset()); err != nil {
		t.Fatal(err)
	}
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
	for range 10 {
		record := want.record("behind the snapshot")
		if err := want.Apply([][]byte{[]byte(record)}, appendRecord(t, log, record)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		make func() (*memory, error)
	}{
		{"a follower", func() (*memory, error) { return r, nil }},
		{"the snapshot and the log", func() (*memory, error) {
			r := &memory{}
			_, err := replicated.Restore(ctx, owner.Snapshots(0), func() (replicated.Replica, error) { return r, nil })
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

// killInTurn kills each server once, while the others run.
func killInTurn(ctx context.Context, c *natscluster.Cluster, stopped <-chan struct{}) error {
	for i, n := range c.Nodes {
		select {
		case <-time.After(time.Second):
		case <-stopped:
			return nil
		}
		if err := n.Kill(); err != nil {
			return fmt.Errorf("kill server %d: %w", i, err)
		}
		select {
		case <-time.After(2 * time.Second):
		case <-stopped:
			return nil
		}
		if err := n.Start(); err != nil {
			return fmt.Errorf("start server %d: %w", i, err)
		}
		for !n.Healthy(ctx) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("server %d does not become healthy: %w\n%s", i, ctx.Err(), n.Log())
			}
		}
	}
	return nil
}
