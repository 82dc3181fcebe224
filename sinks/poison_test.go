package sinks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestAFewPoisonedEventsStopNoSink counts the healthy events that arrive within half an hour.
func TestAFewPoisonedEventsStopNoSink(t *testing.T) {
	for _, c := range []struct {
		name     string
		events   int
		batch    int
		poisoned func(number int) bool
	}{
		{"one in eleven, one event a request", 2727, 1, func(n int) bool { return n%11 == 0 }},
		{"one in eleven", 2727, 500, func(n int) bool { return n%11 == 0 }},
		{"the first eight", 1000, 8, func(n int) bool { return n <= 8 }},
		{"the first eight of a large batch", 1000, 500, func(n int) bool { return n <= 8 }},
		{"the first thousand", 2000, 100, func(n int) bool { return n <= 1000 }},
		{"one in a hundred, in large batches", 3000, 500, func(n int) bool { return n%100 == 50 }},
		{"nine in ten", 2000, 500, func(n int) bool { return n%10 != 0 }},
	} {
		for _, each := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, results by event: %t", c.name, each), func(t *testing.T) {
				bad := func(number int) error {
					if c.poisoned(number) {
						return errors.New("500 internal server error")
					}
					return nil
				}
				answer := answerEach(bad)
				f := newFixtureWith(t, c.events, &target{answer: func(attempt int, ids []string) error {
					err := answer(attempt, ids)
					if results, ok := errors.AsType[failure.EventErrors](err); ok && !each {
						return results[slices.IndexFunc(results, func(err error) bool { return err != nil })]
					}
					return err
				}}, func(o *sinks.Options) { o.Batch = checkpoint.Batch{MaxEvents: c.batch, MaxBytes: 1 << 20} })
				f.run(30 * time.Minute)
				healthy := 0
				for number := 1; number <= c.events; number++ {
					if !c.poisoned(number) {
						healthy++
					}
				}
				if len(f.accepted) != healthy || f.dead(t) != nil || f.parked(t) != c.events-healthy || int(f.cursor(t)) != c.events {
					t.Errorf("%d of %d healthy events arrived, %d are parked, the dead letters are %v, the cursor is at %d of %d",
						len(f.accepted), healthy, f.parked(t), f.dead(t), f.cursor(t), c.events)
				}
			})
		}
	}
}

// TestAPartOfATargetThatIsDownMakesNoDeadLetters lets a quarter of a target be down while
// events come.
func TestAPartOfATargetThatIsDownMakesNoDeadLetters(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		down time.Duration
	}{
		{"a part that the sink reports, for a minute", failure.Unavailable(failure.ScopePart, "not enough replicas"), time.Minute},
		{"a part that the sink reports, for a day", failure.Unavailable(failure.ScopePart, "not enough replicas"), 24 * time.Hour},
		{"a part that the sink does not know of, for a minute", errors.New("500 internal server error"), time.Minute},
	} {
		bubble(t, c.name, func(t *testing.T) {
			back := time.Now().Add(c.down)
			f := newFixture(t, 0, &target{answer: answerEach(func(number int) error {
				if number%4 == 0 && time.Now().Before(back) {
					return c.err
				}
				return nil
			})})
			stop := f.start()
			for i := range 75 {
				f.append(t, 10*i+1, 10*i+10)
				time.Sleep(c.down / 80)
			}
			synctest.Wait()
			f.mu.Lock()
			up := len(f.accepted)
			f.mu.Unlock()
			if want := 750 - 187; up != want || f.cursor(t) != 750 || f.parked(t) != 187 {
				t.Errorf("while it is down, %d events arrived elsewhere, want %d; %d are parked, and the cursor is at %d", up, want, f.parked(t), f.cursor(t))
			}
			time.Sleep(c.down + 10*time.Minute)
			stop()
			if dead := f.dead(t); dead != nil || len(f.accepted) != 750 || f.parked(t) != 0 {
				t.Errorf("%d dead letters, %d of 750 events arrived, %d are parked", len(dead), len(f.accepted), f.parked(t))
			}
		})
	}
}

func TestDeliveryWaitsIfThereIsNoSpaceForParkedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		f := newFixture(t, 100, &target{answer: answerEach(func(number int) error {
			if down && number%2 == 0 {
				return failure.Unavailable(failure.ScopePart, "not enough replicas")
			}
			return nil
		})})
		f.store.SetLimits(checkpoint.Limits{DeadBytes: 4000})
		stop := f.start()
		pass(time.Hour)
		f.expectState(t, sinks.StateRetrying, "the parked events are full")
		parked := f.parked(t)
		stats, err := f.store.Stats(t.Context())
		assert.True(t, err == nil && parked != 0 && parked != 50 && stats.Sinks["lake"].ParkedBytes <= 2000, parked, "are parked", stats, err)
		f.mu.Lock()
		down = false
		f.mu.Unlock()
		time.Sleep(time.Hour)
		stop()
		if dead := f.dead(t); dead != nil || len(f.accepted) != 100 || f.parked(t) != 0 || f.cursor(t) != 100 {
			t.Errorf("%d dead letters, %d of 100 events arrived, %d are parked, the cursor is at %d", len(dead), len(f.accepted), f.parked(t), f.cursor(t))
		}
	})
}

// TestAHaltUndoesRejectionsOfEarlierPasses rejects ten events, then the target is down for a
// moment, and then it rejects everything: the sink is at fault, so that none becomes a dead
// letter.
func TestAHaltUndoesRejectionsOfEarlierPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := false
		f := newFixtureWith(t, 40, &target{answer: func(attempt int, ids []string) error {
			if well {
				return nil
			}
			each := make(failure.EventErrors, len(ids))
			for i := range ids {
				each[i] = failure.Errorf(failure.Rejected, "400 bad request")
				if attempt == 1 && i >= 10 {
					each[i] = failure.Unavailable(failure.ScopeTarget, "connection reset")
				}
			}
			return each
		}}, func(o *sinks.Options) { o.Batch.MaxEvents = 40 })
		stop := f.start()
		pass(20 * time.Second)
		if s := f.runner.Status(); s.State != sinks.StateHalted || f.dead(t) != nil || f.cursor(t) != 0 {
			t.Errorf("status %+v, dead letters %v, cursor at %d", s, f.dead(t), f.cursor(t))
		}
		f.mu.Lock()
		well = true
		f.mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		f.expectInAnyOrder(t, numbers(1, 40))
		f.expectDead(t, nil)
	})
}

// TestLaterEventsOfAKeyShowThatTheTargetIsUp lets all healthy events have one key. Each of
// them, sent ahead, shows that the target is up while another poisoned event is in front.
func TestLaterEventsOfAKeyShowThatTheTargetIsUp(t *testing.T) {
	const poisoned, all = 20, 60
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureWith(t, 0, &target{answer: answerEach(func(number int) error {
			if number <= poisoned {
				return errors.New("500 internal server error")
			}
			return nil
		})}, func(o *sinks.Options) { o.Batch.MaxEvents = 1 })
		key := func(number int) string {
			if number <= poisoned {
				return fmt.Sprint("key ", number)
			}
			return "healthy"
		}
		require.NoError(t, appendEvents(t.Context(), f.store, 1, all, key))
		f.run(time.Hour)
		if !slices.Equal(f.accepted, numbers(poisoned+1, all)) || f.parked(t) != poisoned || f.cursor(t) != all {
			t.Errorf("accepted %v, %d are parked, the cursor is at %d", f.accepted, f.parked(t), f.cursor(t))
		}
	})
}

// TestTheOnlyHealthyEventOfABatchIsFound lets all events of a batch but one be poisoned, and
// none follow: it shows that the target is up only if it is tried alone.
func TestTheOnlyHealthyEventOfABatchIsFound(t *testing.T) {
	const all = 150
	for _, healthy := range []int{1, 2, 75, 112, 149, 150} {
		theOnlyHealthyEventIsFound(t, all, healthy)
	}
}

func theOnlyHealthyEventIsFound(t *testing.T, all, healthy int) {
	for name, answer := range map[string]func(func(int) error) func(int, []string) error{
		"results by event": answerEach,
		"results up to the first failure": func(bad func(int) error) func(int, []string) error {
			each := answerEach(bad)
			return func(attempt int, ids []string) error {
				results, _ := errors.AsType[failure.EventErrors](each(attempt, ids))
				if i := slices.IndexFunc(results, func(err error) bool { return err != nil }); i >= 0 {
					for j := i + 1; j < len(results); j++ {
						results[j] = failure.ErrNotTried
					}
				}
				return results.OrNil()
			}
		},
		"one answer": func(bad func(int) error) func(int, []string) error {
			each := answerEach(bad)
			return func(attempt int, ids []string) error {
				if each(attempt, ids) != nil {
					return errors.New("500 internal server error")
				}
				return nil
			}
		},
	} {
		bubble(t, fmt.Sprintf("event %d, %s", healthy, name), func(t *testing.T) {
			f := newFixtureWith(t, all, &target{answer: answer(func(number int) error {
				if number != healthy {
					return errors.New("500 internal server error")
				}
				return nil
			})}, func(o *sinks.Options) { o.Batch.MaxEvents = 500 })
			f.run(2 * time.Hour)
			f.expectAccepted(t, numbers(healthy, healthy))
		})
	}
}
