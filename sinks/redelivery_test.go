package sinks_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestRedelivery(t *testing.T) {
	rejects := func(poison ...string) func(int, []string) error {
		return func(_ int, ids []string) error {
			each := make(failure.EventErrors, len(ids))
			for i, id := range ids {
				if slices.Contains(poison, id) {
					each[i] = failure.Errorf(failure.Rejected, "400 bad event")
				}
			}
			return each
		}
	}
	for _, c := range []struct {
		name     string
		answer   func(int, []string) error
		ask      func(t *testing.T, f *fixture) error
		accepted []string // after all has been delivered once
		dead     []string
	}{
		{
			"a range of the journal, in its order",
			rejects(),
			func(t *testing.T, f *fixture) error {
				_, err := f.store.Replay(t.Context(), "lake", checkpoint.Period{})
				return err
			},
			[]string{"1 again 1", "2 again 1", "3 again 1"}, nil,
		},
		{
			"dead letters",
			rejects("2"),
			func(t *testing.T, f *fixture) error {
				_, err := f.store.Requeue(t.Context(), "lake", nil)
				return err
			},
			[]string{"2 again 1"}, nil,
		},
		{
			"what is rejected again is a dead letter again",
			rejects("2", "2 again 1"),
			func(t *testing.T, f *fixture) error {
				_, err := f.store.Requeue(t.Context(), "lake", nil)
				return err
			},
			nil, []string{"2"},
		},
		{
			"each time with another number",
			rejects(),
			func(t *testing.T, f *fixture) error {
				_, err := f.store.Replay(t.Context(), "lake", checkpoint.Period{})
				_, err2 := f.store.Replay(t.Context(), "lake", checkpoint.Period{})
				return errors.Join(err, err2)
			},
			[]string{"1 again 1", "2 again 1", "3 again 1", "1 again 2", "2 again 2", "3 again 2"}, nil,
		},
		{
			"and tried again with the same one",
			func(attempt int, ids []string) error {
				if ids[0] == "1 again 1" && attempt < 5 {
					return failure.Unavailable(failure.ScopeTarget, "503 service unavailable")
				}
				return nil
			},
			func(t *testing.T, f *fixture) error {
				_, err := f.store.Replay(t.Context(), "lake", checkpoint.Period{})
				return err
			},
			[]string{"1 again 1", "2 again 1", "3 again 1"}, nil,
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFixture(t, 3, &target{answer: c.answer})
			stop := f.start()
			pass(time.Minute)
			once := len(f.accepted)
			require.NoError(t, c.ask(t, f))
			time.Sleep(time.Hour)
			stop()
			assert.EqualSlices(t, f.accepted[once:], c.accepted, "accepted")
			f.expectDead(t, c.dead)
			next, err := f.store.Redeliver(t.Context(), "lake", checkpoint.RedeliveryOffset{}, checkpoint.Batch{})
			assert.True(t, err == nil && len(next.Records) == 0, next, err, "are still queued")
			f.expectCursor(t, 3)
		})
	}
}

// A document can only show that its event is redelivered if Prepare receives it as such.
func TestARedeliveryIsPreparedAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var prepared []string
		f := newFixtureWith(t, 1, &target{answer: acceptAll}, func(o *sinks.Options) {
			o.Prepare = func(e transform.Event) (transform.Event, error) {
				mu.Lock()
				defer mu.Unlock()
				prepared = append(prepared, fmt.Sprintf("%s %t %d", e.ID, e.Redelivered, e.Redelivery()))
				return e, nil
			}
		})
		stop := f.start()
		time.Sleep(time.Minute)
		f.replay(t)
		time.Sleep(time.Minute)
		stop()
		assert.EqualSlices(t, prepared, []string{"1 false 0", "1 true 1"}, "prepared")
	})
}

func TestRedeliveriesAndNewEventsDoNotBlockEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(id string) bool
		want  []string
	}{
		"a redelivery that keeps failing":      {func(id string) bool { return len(id) > 3 }, numbers(1, 6)},
		"a journal that does not go on beside": {func(id string) bool { return id >= "4" && len(id) < 3 }, append(numbers(1, 3), "1 again 1", "2 again 1", "3 again 1")},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFixture(t, 3, &target{answer: func(_ int, ids []string) error {
				if slices.ContainsFunc(ids, c.fails) {
					return errors.New("503 service unavailable")
				}
				return nil
			}})
			stop := f.start()
			time.Sleep(time.Second)
			f.replay(t)
			f.append(t, 4, 6)
			pass(time.Second)
			f.expectState(t, sinks.StateRetrying)
			stop()
			f.expectAccepted(t, c.want)
		})
	}
}

func TestRedeliveriesAndNewEventsTakeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		duration time.Duration // a Send; the grace is 20s
		want     int
	}{
		"that takes its time":             {5 * time.Second, 9},
		"that is cut short when it stops": {time.Hour, 3},
	} {
		bubble(t, name, func(t *testing.T) {
			s := &target{hold: make(chan struct{}), answer: acceptAll}
			f := newFixtureWith(t, 3, s, func(o *sinks.Options) { o.MaxAttempts = 1 })
			stop := f.start()
			s.hold <- struct{}{} // the first three pass
			time.Sleep(time.Second)
			f.replay(t)
			f.append(t, 4, 6)
			time.AfterFunc(c.duration, func() { close(s.hold) })
			time.Sleep(time.Second) // both have something to send now
			stop()
			dead := f.dead(t)
			assert.True(t, len(f.accepted) == c.want && len(dead) == 0, "accepted", f.accepted, c.want, "dead letters", dead)
		})
	}
}

func TestPoisonedRedeliveryIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 5, &target{answer: failsOn("3 again 1")})
		stop := f.start()
		time.Sleep(time.Second)
		want := numbers(1, 5)
		for n := 1; n <= 25; n++ { // others have to come, or the sink might be down
			f.replay(t)
			for _, id := range numbers(1, 5) {
				if again := fmt.Sprint(id, " again ", n); again != "3 again 1" {
					want = append(want, again)
				}
			}
			time.Sleep(30 * time.Minute)
		}
		stop()
		f.expectInAnyOrder(t, want)
		f.expectDead(t, []string{"3"})
	})
}
