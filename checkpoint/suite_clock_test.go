package checkpoint_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const year = 365 * 24 * time.Hour

// openTimed is open with a clock that can be set.
func (b backend) openTimed(t *testing.T, retain time.Duration) *timed {
	t.Helper()
	s := &timed{state: b.state(t, checkpoint.Limits{MaxBytes: 1 << 30, Retain: retain})}
	s.options.Elapsed = func() time.Duration { return s.clock.Now().Sub(noon) - time.Duration(s.set.Load()) }
	s.reopen()
	s.configureSinks("a")
	return s
}

type timed struct {
	*state
	set atomic.Int64 // by how much the clock was set forward, in all
	n   int
}

// setClock sets the clock forward, or back. Not all stores notice it without a write.
func (s *timed) setClock(by time.Duration) {
	s.set.Add(int64(by))
	s.clock.advance(by)
}

// recordEvent appends an event that is recorded now.
func (s *timed) recordEvent() {
	s.t.Helper()
	s.n++
	s.append(event(fmt.Sprint(s.n), s.clock.Now(), 300))
}

// tooOld returns how many events a lag policy would skip.
func (s *timed) tooOld(age time.Duration) uint64 {
	s.t.Helper()
	over, err := s.Over(s.t.Context(), "a", checkpoint.Budget{Since: s.clock.Now().Add(-age)})
	s.must(err)
	return over.Events
}

func (b backend) testClockSet(t *testing.T) {
	// Each case records three events an hour apart; the clock is set as it says.
	for _, c := range []struct {
		name                  string
		before, behind, after time.Duration // the clock is set before the 2nd event, behind it, and behind the 3rd
		restart               bool          // the store is closed while it is set the last time
	}{
		{name: "it is right"},
		{name: "it was a year ahead for a while", before: year, behind: -year},
		{name: "it was a year behind until now", before: -year, after: year},
		{name: "it is a day ahead from now on", after: 24 * time.Hour},
		{name: "it was set back by a day", after: -24 * time.Hour},
		{name: "it was set back by a year between two runs", before: year, after: -year, restart: true},
		{name: "it was set again and again", before: year, behind: -2 * year, after: 30 * time.Hour},
	} {
		for _, retain := range []time.Duration{0, 24 * time.Hour} {
			t.Run(fmt.Sprintf("%s, events are kept %s", c.name, retain), func(t *testing.T) {
				s := b.openTimed(t, retain)
				s.recordEvent()
				s.clock.advance(time.Hour)
				s.setClock(c.before)
				s.recordEvent()
				s.clock.advance(time.Hour / 2)
				s.setClock(c.behind)
				s.clock.advance(time.Hour / 2)
				s.recordEvent()
				if c.restart {
					s.must(s.Close())
					s.setClock(c.after)
					s.openStore()
					s.configureSinks("a")
				} else {
					s.clock.advance(time.Minute)
					s.setClock(c.after)
				}

				// After a restart only the age of the third event is known.
				equal(t, s.tooOld(3*time.Hour), 0)
				got := s.tooOld(time.Hour + 30*time.Minute)
				assert.True(t, got == 1 || c.restart, got, "events are older than an hour and a half, want 1")
				age := s.clock.Now().Sub(s.stats().Sinks["a"].Oldest)
				assert.True(t, age >= 0 && age <= 3*time.Hour, "the oldest event", age, "old, want two hours")
				s.acknowledge("a", 3)
				s.recordEvent()
				s.acknowledge("a", 4)
				if retain > 0 {
					require.Equal(t, s.stats().Events, 4, "events are kept")
					got := s.replay("a", s.clock.Now().Add(-time.Hour/2))
					assert.True(t, got.Last == 4 && (got.First == 3 || got.First == 4 || c.restart), "a replay of half an hour", got, "want the last two events")
					s.emptyQueue("a")
				}
				// It is not set any more, and all of it comes to its end.
				s.clock.advance(retain + time.Hour)
				s.recordEvent()
				equal(t, s.tooOld(time.Minute), 0)
				s.until("old events are trimmed", func() bool { return s.stats().Events == 1 })
				s.clock.advance(time.Hour)
				equal(t, s.tooOld(time.Minute), 1)
			})
		}
	}
}

func (b backend) testClockBounds(t *testing.T) {
	oldest := func(s *timed) time.Duration {
		s.t.Helper()
		return s.stats().Sinks["a"].Oldest.Sub(noon)
	}
	t.Run("a clock counts as set from a minute on", func(t *testing.T) {
		for by, want := range map[time.Duration]time.Duration{
			time.Minute - 1e6: 0, time.Minute: time.Minute, -time.Minute + 1e6: 0, -time.Minute: -time.Minute,
		} {
			s := b.openTimed(t, 0)
			s.recordEvent()
			s.setClock(by)
			equal(t, oldest(s), want)
		}
	})
	t.Run("a clock was ahead if an event is from more than an hour later", func(t *testing.T) {
		for back, want := range map[time.Duration]time.Duration{time.Hour: 0, time.Hour + 1e6: -time.Hour - 1e6} {
			s := b.openTimed(t, 0)
			s.recordEvent()
			s.must(s.Close())
			s.setClock(-back)
			s.openStore()
			equal(t, oldest(s), want)
		}
		for ahead, want := range map[time.Duration]uint64{time.Hour: 1, time.Hour + 1e6: 2} {
			s := b.openTimed(t, 0)
			s.append(event("ahead", noon.Add(ahead), 300))
			first, err := s.Since(t.Context(), noon.Add(time.Minute))
			assert.True(t, err == nil && first == want, ahead, "ahead: a minute later begins with event", first, err, want)
		}
	})
	t.Run("a clock that is set while the journal is empty changes no age", func(t *testing.T) {
		s := b.openTimed(t, 0)
		s.setClock(-year)
		s.recordEvent()
		s.append()
		equal(t, oldest(s), -year)
	})
	t.Run("an event without a time has none after a clock was set", func(t *testing.T) {
		s := b.openTimed(t, 0)
		s.append(event("untimed", time.Time{}, 300))
		s.setClock(time.Hour)
		got := s.stats().Sinks["a"]
		assert.True(t, got.LagEvents == 1 && got.Oldest.IsZero(), got, "want an event without a time")
	})
	t.Run("the latest 32 times that a clock was set are remembered", func(t *testing.T) {
		s := b.openTimed(t, 0)
		for range 32 {
			s.recordEvent()
			s.setClock(time.Hour)
		}
		s.append()
		s.reopen()
		equal(t, oldest(s), 32*time.Hour)
		s.recordEvent()
		s.setClock(time.Hour)
		s.append()
		equal(t, oldest(s), 32*time.Hour)
	})
}

// emptyQueue delivers all that a sink is to get again.
func (s *timed) emptyQueue(sink string) {
	s.t.Helper()
	next, err := s.Redeliver(s.t.Context(), sink, checkpoint.RedeliveryOffset{}, checkpoint.Batch{})
	s.must(err)
	s.must(s.CommitRedelivery(s.t.Context(), checkpoint.RedeliveryCommit{
		Sink: sink, Expect: next.Offset, Last: next.Records[len(next.Records)-1].Offset, Events: len(next.Records),
	}))
}
