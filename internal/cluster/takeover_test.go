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
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestStandbyWaitsForALongerLeaseOfTheOwner: while the term is changed by restarting one
// member after the other, the owner's counts if it is longer.
func TestStandbyWaitsForALongerLeaseOfTheOwner(t *testing.T) {
	t.Parallel()
	for name, standby := range map[string]func(m *simMember){
		"that has its copy":      func(*simMember) {},
		"that has lost its copy": func(m *simMember) { m.disk = newSimDisk() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := startCluster(t, 1, func(o Options) Options {
					if o.Member == "m0" {
						o.Term = 4 * testTerm
					}
					return o
				})
				time.Sleep(4 * startup)
				owner := s.members[0]
				wantState(t, owner, stateOwning)
				m := s.join("other")
				time.Sleep(startup)
				m.stop()
				standby(m)
				m.start()
				time.Sleep(4 * startup)
				wantState(t, owner, stateOwning)
				owner.crash()
				time.Sleep(4*testTerm - 4*testTerm/3) // its last record is at most a third of a term old
				wantState(t, m, stateFollowing)
				time.Sleep(3 * testTerm)
				wantState(t, m, stateOwning)
			})
		})
	}
}

// TestQuiet checks that a log is quiet only after the lease of who wrote its last message, if that
// is longer than one's own.
func TestQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := newScaledClock(1)
		log := replicatedtest.New(1, replicatedtest.Faults{}).Stream("a", 1)
		owner, err := replicated.Take(t.Context(), log, 0, replicated.Options{Context: t.Context(), Owner: "a", Clock: clock, Term: 40 * time.Second})
		require.NoError(t, err)
		began := time.Now()
		last, err := quiet(t.Context(), log, clock, 2*time.Second)
		assert.True(t, err == nil && last == 1 && time.Since(began) >= 50*time.Second, "the log ends at", last, time.Since(began), err)
		time.AfterFunc(45*time.Second, func() { owner.Append(nil) })
		_, err = quiet(t.Context(), log, clock, 2*time.Second)
		assert.True(t, err != nil && strings.Contains(err.Error(), "appends to it"), "an owner that renews late", err)
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

func TestLogThatCannotBeTakenIsTriedLessAndLessOften(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		var reads, warned atomic.Int64
		s := startCluster(t, 2, func(o Options) Options {
			open := o.Storage
			o.Storage = func(ctx context.Context, generation uint64, create bool) (Storage, error) {
				st, err := open(ctx, generation, create)
				st.Stream = brokenStream{st.Stream, &broken, &reads}
				return st, err
			}
			o.Log = slog.New(matching{discard.Handler(), "could not be taken", &warned})
			return withoutSnapshots(o)
		})
		time.Sleep(testTerm)
		owner, standbys := s.roles(t)
		synctest.Wait()
		broken.Store(true)
		owner.stop() // it releases the log
		time.Sleep(20 * testTerm)
		assert.Equal(t, warned.Load(), 1, "warnings")
		n := reads.Load()
		assert.True(t, n >= 5 && n <= 20, "the log was tried", n, "times")
		broken.Store(false)
		time.Sleep(3 * testTerm)
		wantState(t, standbys[0], stateOwning)
	})
}

// TestCopyWithAnotherHistoryThanTheLogIsKept: NATS lost the end of the log, and another member
// wrote to it until it was as long as before.
func TestCopyWithAnotherHistoryThanTheLogIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		time.Sleep(testTerm)
		owner, standbys := s.roles(t)
		owner.crash()
		time.Sleep(testTerm / 2) // the standby gets what was acknowledged
		messages := s.messages()
		last := messages[len(messages)-1].Seq
		s.servers.Forget(1, last-1)
		take := replicated.Message{
			ID: "other.99.1.1/1", Kind: replicated.KindTake, Term: testTerm,
			Data: fmt.Appendf(nil, `{"format":%d,"layout":%d}`, checkpoint.RecordFormat, checkpoint.Layout),
		}
		require.NoError(t, s.servers.Stream("other", 1).Publish(last-1, take, func(uint64, error) {}))
		before := standbys[0].disk.number()
		time.Sleep(20 * testTerm)
		messages = s.messages()
		require.Equal(t, messages[last-1].ID, take.ID, "message", last)
		n := standbys[0].disk.number()
		assert.True(t, n == before && !standbys[0].owns(), standbys, "owns the log with", n, "records, and had", before)
	})
}

// TestManyStandbysAndOneOwner: several try to take the log, and one take counts.
func TestManyStandbysAndOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, simMembers, nil)
		for range 3 {
			owner, _ := s.roles(t)
			owner.crash()
			time.Sleep(2 * testTerm)
			owner.start()
			time.Sleep(startup)
		}
		s.roles(t)
		s.checkLog()
		s.judge(t)
	})
}

// lateStream is a stream whose messages take long to arrive.
type lateStream struct{ replicated.Stream }

func (s lateStream) Follow(ctx context.Context, from uint64, yield func(uint64, replicated.Message) error) error {
	if !sleep(ctx, lease.System(), testTerm/12) {
		return ctx.Err()
	}
	return s.Stream.Follow(ctx, from, yield)
}

// TestMessagesThatArriveLateAreNotLost: members that are all started at once with their copies hear
// from the leader of the log before they read a message.
func TestMessagesThatArriveLateAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, func(o Options) Options {
			open := o.Storage
			o.Storage = func(ctx context.Context, generation uint64, create bool) (Storage, error) {
				st, err := open(ctx, generation, create)
				st.Stream = lateStream{st.Stream}
				return st, err
			}
			return withoutSnapshots(o)
		})
		time.Sleep(testTerm)
		for _, m := range s.members {
			m.crash()
		}
		for _, m := range s.members {
			m.start()
		}
		for range 20 {
			time.Sleep(testTerm / 10)
			for _, m := range s.members {
				r := m.node().Report()
				require.True(t, !r.Lost, m.name, r.Error)
			}
		}
		s.roles(t)
	})
}
