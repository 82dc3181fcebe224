package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestFollowerWaitsForALongerLeaseOfTheOwner: while the term is changed by restarting one
// member after the other, the owner's counts if it is longer.
func TestFollowerWaitsForALongerLeaseOfTheOwner(t *testing.T) {
	t.Parallel()
	for name, follower := range map[string]func(m *simMember){
		"that has its file":      func(*simMember) {},
		"that has lost its file": func(m *simMember) { m.disk = newSimDisk() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first := (&simulation{members: newSimulation(1).members[:2]}).byRank(0)[0].name
				s := startCluster(t, 2, func(o Options) Options {
					if o.Member == first {
						o.Term = 4 * testTerm
					}
					return o
				})
				time.Sleep(startup)
				ranked := s.byRank(0)
				ranked[1].stop()
				time.Sleep(4 * startup)
				follower(ranked[1])
				ranked[1].start()
				time.Sleep(4 * startup)
				wantState(t, ranked[0], 0, stateOwning)
				ranked[0].crash()
				time.Sleep(4*testTerm - 4*testTerm/3) // its last record is at most a third of a term old
				wantState(t, ranked[1], 0, stateFollowing)
				time.Sleep(3 * testTerm)
				wantState(t, ranked[1], 0, stateOwning)
			})
		})
	}
}

// TestQuiet checks that a log is quiet only after the lease of who wrote its last message, if that
// is longer than one's own.
func TestQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := newScaledClock(1)
		log := replicatedtest.New(1, replicatedtest.Faults{}).Stream("a", 0)
		owner, err := replicated.Take(t.Context(), log, 0, replicated.Options{Context: t.Context(), Owner: "a", Clock: clock, Term: 40 * time.Second})
		require.NoError(t, err)
		began := time.Now()
		if last, err := Quiet(t.Context(), log, clock, 2*time.Second); err != nil || last != 1 || time.Since(began) < 50*time.Second {
			t.Errorf("the log ends at %d after %v (%v)", last, time.Since(began), err)
		}
		time.AfterFunc(45*time.Second, func() { owner.Append(nil) })
		if _, err := Quiet(t.Context(), log, clock, 2*time.Second); err == nil || !strings.Contains(err.Error(), "appends to its log") {
			t.Errorf("an owner that renews late: %v", err)
		}
	})
}

// brokenStream is a stream of which no message can be read while broken is set.
type brokenStream struct {
	replicated.Stream
	broken *atomic.Bool
	reads  *atomic.Int64 // that failed
}

func (s brokenStream) Get(ctx context.Context, seq uint64) (replicated.Message, error) {
	if s.broken.Load() {
		s.reads.Add(1)
		return replicated.Message{}, errors.New("the disk is broken")
	}
	return s.Stream.Get(ctx, seq)
}

// matching counts the records that contain a text.
type matching struct {
	slog.Handler
	text string
	n    *atomic.Int64
}

func (m matching) Enabled(context.Context, slog.Level) bool { return true }

func (m matching) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, m.text) {
		m.n.Add(1)
	}
	return nil
}

func (m matching) WithAttrs([]slog.Attr) slog.Handler { return m }

func TestShardThatCannotBeTakenIsTriedLessAndLessOften(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		var reads, warned atomic.Int64
		s := startCluster(t, 2, func(o Options) Options {
			storage := o.Storage
			o.Storage = func(shard int) Storage {
				st := storage(shard)
				if shard == 0 {
					st.Stream = brokenStream{st.Stream, &broken, &reads}
				}
				return st
			}
			o.Log = slog.New(matching{discard.Handler(), "could not be taken", &warned})
			return withoutSnapshots(o)
		})
		time.Sleep(steady)
		ranked := s.byRank(0)
		synctest.Wait()
		broken.Store(true)
		ranked[0].stop() // it releases the shard: the log is vacant
		time.Sleep(20 * testTerm)
		wantState(t, ranked[1], 0, stateTaking)
		if n := warned.Load(); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if n := reads.Load(); n < 5 || n > 20 {
			t.Errorf("the shard was tried %d times", n)
		}
		broken.Store(false)
		time.Sleep(3 * testTerm)
		wantState(t, ranked[1], 0, stateOwning)
	})
}

// TestFileWithAnotherHistoryThanTheLogIsKept: NATS lost the end of the log, and another member
// wrote to it until it was as long as before.
func TestFileWithAnotherHistoryThanTheLogIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		time.Sleep(steady)
		ranked := s.byRank(0)
		ranked[0].crash()
		time.Sleep(testTerm / 2) // the follower gets what was acknowledged
		messages := s.servers.Messages(0)
		last := messages[len(messages)-1].Seq
		s.servers.Forget(0, last-1)
		take := replicated.Message{
			ID: "other.99.1.1/1", Kind: replicated.KindTake, Term: testTerm,
			Data: fmt.Appendf(nil, `{"format":%d,"layout":%d}`, checkpoint.RecordFormat, checkpoint.Layout),
		}
		require.NoError(t, s.servers.Stream("other", 0).Publish(last-1, take, func(uint64, error) {}))
		before := ranked[1].disk.number(0)
		time.Sleep(20 * testTerm)
		if messages = s.servers.Messages(0); messages[last-1].ID != take.ID {
			t.Fatalf("message %d is %q", last, messages[last-1].ID)
		}
		if n := ranked[1].disk.number(0); n != before || ranked[1].node().shards[0].owned() {
			t.Errorf("%s owns the shard with %d records, and had %d", ranked[1].name, n, before)
		}
	})
}
