package replicated_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/checkpointtest"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/replicatedtest"
)

// logs are the logs of a conformance test, each in a stream of its own.
type logs struct {
	j *replicated.JetStream

	mu     sync.Mutex
	shards map[string]int
	owners int
}

// stream returns the stream of a log.
func (l *logs) stream(name string) (replicated.Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shard, ok := l.shards[name]
	if !ok {
		shard = len(l.shards)
		if err := l.j.AddStream(context.Background(), shard); err != nil {
			return nil, err
		}
		l.shards[name] = shard
	}
	return l.j.Stream(shard), nil
}

func (l *logs) Take(name string) (checkpoint.Log, error) {
	s, err := l.stream(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.owners++
	owner := fmt.Sprint("owner", l.owners)
	l.mu.Unlock()
	last, err := s.Last(context.Background())
	if err != nil {
		return nil, err
	}
	return replicated.Take(context.Background(), s, last, replicated.Options{
		Context: context.Background(), Owner: owner, Clock: replicatedtest.NewClock(1), PartBytes: 700,
	})
}

func (l *logs) Follow(name string, r *checkpoint.Replica) error {
	s, err := l.stream(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last, err := s.Last(ctx)
	if err != nil || last <= r.Offset() {
		return err
	}
	f := replicated.NewFollower(s, r, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	err = f.CatchUp(ctx, last)
	cancel()
	if ended := <-ended; !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	return err
}

// TestConformance runs the suite of all backends on stores that write their transactions to
// JetStream. Every state that is opened again, or that a crash leaves, is made from its log
// alone. It runs a twentieth of the property checks, each of which makes dozens of states. A
// record of up to 700 bytes is one message; others, a chain of them.
func TestConformance(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value
	all, err := strconv.Atoi(checks.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = checks.Set(strconv.Itoa(max(1, all/20)))
	t.Cleanup(func() { _ = checks.Set(strconv.Itoa(all)) })
	j := openJetStream(t, startServer(t, nil), one)
	checkpointtest.Run(t, checkpointtest.Replicated(&logs{j: j, shards: map[string]int{}}))
}
