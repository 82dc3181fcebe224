package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/replicatedtest"
)

// plan is one run of owners that take the log from each other while the servers have faults.
type plan struct {
	seed      uint64
	faults    replicatedtest.Faults
	members   int
	turns     int // how often each member tries to take the log
	records   int // that it then appends
	most      int // bytes of a record
	partBytes int
	changes   int // of the leader
	cuts      int
}

func drawPlan(t *rapid.T) plan {
	chance := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
	return plan{
		seed: rapid.Uint64().Draw(t, "seed"),
		faults: replicatedtest.Faults{
			LoseCopies: chance("lost copies", 0.4), LoseAnswers: chance("lost answers", 0.4), Repeat: chance("repeated", 0.4),
			LateCopies: chance("late copies", 0.4), FailReads: chance("failed reads", 0.4),
			Delay: time.Duration(rapid.IntRange(0, 800).Draw(t, "delay")) * time.Millisecond,
			Old:   time.Duration(rapid.IntRange(0, 2000).Draw(t, "old")) * time.Millisecond,
		},
		members: rapid.IntRange(1, 4).Draw(t, "members"), turns: rapid.IntRange(1, 4).Draw(t, "turns"),
		records: rapid.IntRange(1, 12).Draw(t, "records"), most: rapid.IntRange(0, 1000).Draw(t, "most"),
		partBytes: rapid.IntRange(30, 500).Draw(t, "part"), changes: rapid.IntRange(0, 5).Draw(t, "changes"),
		cuts: rapid.IntRange(0, 3).Draw(t, "cuts"),
	}
}

// outcome is what an owner got for a record.
type outcome struct {
	owner, record string
	offset        uint64
	err           error
}

// run runs a plan and describes the first broken promise; empty: none is broken.
func (p plan) run() string {
	servers := replicatedtest.New(p.seed, p.faults)
	var mu sync.Mutex
	var outcomes []outcome
	var members sync.WaitGroup
	for i := range p.members {
		members.Go(func() {
			results := p.member(servers, fmt.Sprint("m", i), rand.New(rand.NewPCG(p.seed, uint64(i+1))))
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, results...)
		})
	}
	members.Go(func() { p.disturb(servers) })
	members.Wait()
	time.Sleep(21*p.faults.Delay + time.Second) // the last copies arrive
	return judge(outcomes, servers.Messages(0))
}

// member takes the log and appends to it, a few times.
func (p plan) member(servers *replicatedtest.Servers, name string, random *rand.Rand) (results []outcome) {
	stream := servers.Stream(name, 0)
	for turn := range p.turns {
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+random.IntN(60))*time.Second)
		owner := fmt.Sprint(name, ".", turn)
		last, err := stream.Last(ctx)
		if err != nil {
			cancel()
			continue
		}
		log, err := replicated.Take(ctx, stream, last, replicated.Options{
			Context: ctx, Owner: owner, Epoch: epochAt(servers, last), Clock: replicatedtest.NewClock(1), PartBytes: p.partBytes,
		})
		for n := 0; err == nil && n < p.records; n++ {
			o := outcome{owner: owner, record: fmt.Sprintf("%s-%d:%s", owner, n, noise(random, random.IntN(p.most+1)))}
			at, failed := log.Append([]byte(o.record))
			o.offset, err = at.Offset, failed
			o.err = err
			results = append(results, o)
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		}
		if err == nil && random.IntN(2) == 0 {
			_ = log.Release(ctx)
		}
		cancel()
	}
	return results
}

// epochAt returns what a follower of the log knows at a message: the epoch of the last owner
// before it. The message itself may be a late part of an earlier one.
func epochAt(servers *replicatedtest.Servers, last uint64) uint64 {
	var messages []replicated.Message
	for _, m := range servers.Messages(0) {
		if m.Seq <= last {
			messages = append(messages, m.Message)
		}
	}
	return replicated.EpochOf(messages)
}

// disturb changes leaders and cuts members off.
func (p plan) disturb(servers *replicatedtest.Servers) {
	random := rand.New(rand.NewPCG(p.seed, 0))
	var disturbances sync.WaitGroup
	for range p.changes {
		at, without := time.Duration(random.IntN(60_000))*time.Millisecond, time.Duration(random.IntN(5_000))*time.Millisecond
		disturbances.Go(func() {
			time.Sleep(at)
			servers.ChangeLeader(0, without)
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

// judge describes the first broken promise: an acknowledged record is in the log once, at its
// offset; one that was refused with ErrNotOwner is not in it; any other is in it once at
// most; an owner's records are in order, and none is behind another owner's take.
func judge(outcomes []outcome, messages []replicatedtest.Stored) string {
	var plain []replicated.Message
	owner := ""
	for i, m := range messages {
		if m.Seq != uint64(i+1) {
			return fmt.Sprintf("message %d is in the position of %d", m.Seq, i+1)
		}
		plain = append(plain, m.Message)
	}
	records, err := replicated.ReadAll(plain)
	if err != nil {
		return err.Error()
	}
	found := map[string][]uint64{}
	fenced := map[string]bool{} // owners behind whose take there is another
	next := map[string]int{}
	for _, r := range records {
		switch r.Kind {
		case replicated.KindTake:
			fenced[owner], owner = true, r.Owner
		case replicated.KindRecord:
			found[r.Record] = append(found[r.Record], r.Offset)
			if r.Owner != owner {
				return fmt.Sprintf("a record of %s is behind the take of %s", r.Owner, owner)
			}
			prefix := fmt.Sprintf("%s-%d:", r.Owner, next[r.Owner])
			if !strings.HasPrefix(r.Record, prefix) {
				return fmt.Sprintf("the record %.20q of %s is number %d in the log", r.Record, r.Owner, next[r.Owner])
			}
			next[r.Owner]++
		}
	}
	for _, o := range outcomes {
		offsets := found[o.record]
		switch {
		case len(offsets) > 1:
			return fmt.Sprintf("%.20q is in the log %d times", o.record, len(offsets))
		case o.err == nil && (len(offsets) == 0 || offsets[0] != o.offset):
			return fmt.Sprintf("%.20q was acknowledged at %d and is at %v", o.record, o.offset, offsets)
		case errors.Is(o.err, checkpoint.ErrNotOwner) && len(offsets) > 0:
			return fmt.Sprintf("%.20q was refused and is in the log", o.record)
		case errors.Is(o.err, checkpoint.ErrNotOwner) && !fenced[o.owner]:
			return fmt.Sprintf("%.20q was refused and nobody took the log from its owner", o.record)
		case errors.Is(o.err, replicated.ErrLogLost):
			return "the log was said to have lost its end: " + o.err.Error()
		}
	}
	return ""
}

// TestLogKeepsWhatItAcknowledged lets owners take the log from each other while messages and
// answers are lost, late and repeated, leaders change, and members are cut off.
func TestLogKeepsWhatItAcknowledged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		broken := ""
		synctest.Test(t, func(*testing.T) { broken = p.run() })
		if broken != "" {
			rt.Fatal(broken)
		}
	})
}
