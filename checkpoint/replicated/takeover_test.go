package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// plan is one run of owners that take the log from each other while the servers have faults.
type plan struct {
	seed    uint64
	faults  replicatedtest.Faults
	members int
	records int // that an owner appends, about
	most    int // bytes of a record
	changes int // of the leader
	cuts    int
}

func drawPlan(t *rapid.T) plan {
	chance := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
	return plan{
		seed: rapid.Uint64().Draw(t, "seed"),
		faults: replicatedtest.Faults{
			LoseCopies: chance("lost copies", 0.4), LoseAnswers: chance("lost answers", 0.4), Repeat: chance("repeated", 0.4),
			LateCopies: chance("late copies", 0.4), FailReads: chance("failed reads", 0.4),
			Delay:   time.Duration(rapid.IntRange(0, 800).Draw(t, "delay")) * time.Millisecond,
			Old:     time.Duration(rapid.IntRange(0, 2000).Draw(t, "old")) * time.Millisecond,
			MaxData: rapid.IntRange(30, 500).Draw(t, "part"),
		},
		members: rapid.IntRange(1, 4).Draw(t, "members"),
		records: rapid.IntRange(1, 12).Draw(t, "records"), most: rapid.IntRange(0, 1000).Draw(t, "most"),
		changes: rapid.IntRange(0, 5).Draw(t, "changes"),
		cuts:    rapid.IntRange(0, 3).Draw(t, "cuts"),
	}
}

// disturb changes leaders and cuts members off.
func (p plan) disturb(servers *replicatedtest.Servers) {
	random := rand.New(rand.NewPCG(p.seed, 0))
	var disturbances sync.WaitGroup
	for range p.changes {
		at, without := time.Duration(random.IntN(60_000))*time.Millisecond, time.Duration(random.IntN(5_000))*time.Millisecond
		disturbances.Go(func() {
			time.Sleep(at)
			servers.ChangeLeader(1, without)
		})
	}
	disturbances.Wait()
	for range p.cuts {
		name := fmt.Sprint("m", random.IntN(p.members))
		time.Sleep(time.Duration(random.IntN(5_000)) * time.Millisecond)
		servers.Cut(name, true)
		time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
		servers.Cut(name, false)
	}
}

// noise returns text that does not compress well.
func noise(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + random.IntN(95))
	}
	return string(b)
}

// fleet are members that follow a log, take it when it is quiet, and append to it.
type fleet struct {
	p       plan
	servers *replicatedtest.Servers
	early   bool // sabotage: owners take the log after its last message, and do not catch up

	mu      sync.Mutex
	records []string // acknowledged, in the order of their acknowledgements by one owner each
	refused []string // with ErrNotOwner
	faults  []string
}

func (f *fleet) fault(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// member follows and owns in turn until ctx ends.
func (f *fleet) member(ctx context.Context, name string, random *rand.Rand) *memory {
	r := &memory{}
	for life := 0; ctx.Err() == nil; life++ {
		f.life(ctx, fmt.Sprint(name, ".", life), f.servers.Stream(name, 1), r, random)
	}
	return r
}

// life follows the log until it is quiet, takes it, and appends to it for a while.
func (f *fleet) life(ctx context.Context, owner string, s replicated.Stream, r *memory, random *rand.Rand) {
	clock := replicatedtest.NewClock(1)
	follower := replicated.NewFollower(s, r, replicated.FollowerOptions{Clock: clock})
	following, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- follower.Run(following) }()
	if f.early {
		stop()
	}
	patience := time.Duration(5_000+random.IntN(5_000)) * time.Millisecond
	for st := follower.Status(); st.Quiet < patience && !st.Released && !f.early; st = follower.Status() {
		select {
		case err := <-ended:
			if ctx.Err() == nil {
				f.fault("a follower ended: %v", err)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	st := follower.Status()
	if f.early {
		time.Sleep(patience)
		st.Seen, _ = s.Last(ctx)
		st.Trail = ""
	}
	log, err := replicated.Take(ctx, s, st.Seen, replicated.Options{
		Context: ctx, Owner: owner, Epoch: st.Epoch, Trail: st.Trail, Clock: clock,
	})
	if err == nil && !f.early {
		err = follower.CatchUp(ctx, log.Offset())
	}
	stop()
	if ended := <-ended; !errors.Is(ended, context.Canceled) && ctx.Err() == nil {
		f.fault("a follower ended: %v", ended)
	}
	if err != nil {
		return
	}
	paused := random.IntN(8) == 0
	for range random.IntN(2 * f.p.records) {
		record := r.record(owner + noise(random, random.IntN(f.p.most+1)))
		at, err := log.Append([]byte(record))
		if errors.Is(err, replicated.ErrLogLost) {
			f.fault("the log was said to have lost its end: %v", err)
		}
		f.mu.Lock()
		switch {
		case err == nil:
			f.records = append(f.records, record)
		case errors.Is(err, checkpoint.ErrNotOwner):
			f.refused = append(f.refused, record)
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
		if err := r.Apply([][]byte{[]byte(record)}, at); err != nil {
			f.fault("an owner's own state: %v", err)
		}
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		if paused { // in the middle, for longer than the others wait
			time.Sleep(time.Duration(random.IntN(5_000)) * time.Millisecond)
		}
	}
	if random.IntN(2) == 0 {
		_ = log.Release(ctx)
	}
}

// run runs a plan and describes the broken promises.
func (f *fleet) run() (broken []string) {
	f.servers = replicatedtest.New(f.p.seed, f.p.faults)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	replicas := make([]*memory, f.p.members)
	var members sync.WaitGroup
	for i := range f.p.members {
		members.Go(func() {
			replicas[i] = f.member(ctx, fmt.Sprint("m", i), rand.New(rand.NewPCG(f.p.seed, uint64(i))))
		})
	}
	members.Go(func() { f.p.disturb(f.servers) })
	members.Wait()
	f.servers.SetFaults(replicatedtest.Faults{})
	time.Sleep(time.Minute)
	if missing := f.compare(replicas); missing != "" {
		return append(f.faults, missing)
	}
	return f.faults
}

// TestTakeovers lets members take the log from each other while messages and answers are lost, late
// and repeated, leaders change, and members are cut off: every acknowledged record is in every
// replica once, at its place in the order, no refused one is in any, and no replica ever has a record
// that does not fit.
func TestTakeovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := &fleet{p: drawPlan(rt)}
		var broken []string
		synctest.Test(t, func(*testing.T) { broken = f.run() })
		require.True(rt, len(broken) == 0, broken)
	})
}

// TestSabotagedTakeoversAreDetected breaks what TestTakeovers relies on.
func TestSabotagedTakeoversAreDetected(t *testing.T) {
	for _, c := range []struct {
		name     string
		sabotage func(*fleet)
		broken   bool
	}{
		{"none", func(*fleet) {}, false},
		{"an owner appends before it has caught up", func(f *fleet) { f.early = true }, true},
		{"servers without expectations", func(f *fleet) { f.p.faults.IgnoreExpectations = true }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			detected := 0
			for seed := range uint64(10) {
				f := &fleet{p: plan{
					seed: seed, members: 3, records: 10, most: 300, cuts: 2, changes: 2,
					faults: replicatedtest.Faults{LoseCopies: 0.1, LoseAnswers: 0.1, Repeat: 0.1, LateCopies: 0.1, Delay: 200 * time.Millisecond, MaxData: 100},
				}}
				c.sabotage(f)
				synctest.Test(t, func(*testing.T) {
					if len(f.run()) > 0 {
						detected++
					}
				})
			}
			assert.Equal(t, detected > 0, c.broken, "broken in", detected, "of 10 runs")
		})
	}
}

// compare follows the log with every replica to its end and compares them.
func (f *fleet) compare(replicas []*memory) string {
	for i, r := range replicas {
		s := f.servers.Stream("judge", 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		last, err := s.Last(ctx)
		if err != nil {
			return err.Error()
		}
		log, err := replicated.Take(ctx, s, last, replicated.Options{Context: ctx, Owner: fmt.Sprint("judge", i), Clock: replicatedtest.NewClock(1)})
		if err != nil {
			return err.Error()
		}
		follower := replicated.NewFollower(s, r, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)})
		go follower.Run(ctx)
		if err := follower.CatchUp(ctx, log.Offset()); err != nil {
			return err.Error()
		}
		if a, b := r.state(), replicas[0].state(); !slices.Equal(a, b) {
			return fmt.Sprintf("replica %d has %d records, replica 0 %d others", i, len(a), len(b))
		}
	}
	state := replicas[0].state()
	for _, record := range f.records {
		if !slices.Contains(state, record) {
			return fmt.Sprintf("%.30q was acknowledged and is not in the replicas", record)
		}
	}
	for _, record := range f.refused {
		if slices.Contains(state, record) {
			return fmt.Sprintf("%.30q was refused and is in the replicas", record)
		}
	}
	return ""
}
