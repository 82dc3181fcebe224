package sinks_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// answerEach returns the answers of a sink that reports the result of each event.
func answerEach(result func(number int) error) func(int, []string) error {
	return func(_ int, ids []string) error {
		each := make(failure.EventErrors, len(ids))
		for i, id := range ids {
			number, _ := strconv.Atoi(id) // 0 for one that is sent again
			each[i] = result(number)
		}
		return each.OrNil()
	}
}

func TestBadEventsBlockNoOthers(t *testing.T) {
	same := func(int) string { return "hq" }
	apart := func(number int) string { return fmt.Sprint(number) }
	for _, c := range []struct {
		name   string
		most   int // events in a batch
		poison []string
		source string
		key    func(int) string
	}{
		{"two in a row, where a batch is one event", 1, []string{"2", "3"}, "detections", apart},
		{"one, with the next version of its detection behind it", 1, []string{"2"}, "detections", func(number int) string {
			return fmt.Sprint(max(number, 3))
		}},
		{"one of the audit log, whose entries share a key", 4, []string{"10"}, "audit", same},
		{"one in five", 8, numbers(1, 15, "1", "2", "3", "4", "6", "7", "8", "9", "11", "12", "13", "14"), "detections", apart},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFixtureWith(t, 0, &target{answer: failsOn(c.poison...)}, func(o *sinks.Options) { o.Batch.MaxEvents = c.most })
			require.NoError(t, appendEventsOf(t.Context(), f.store, c.source, 1, 200, c.key, []byte(`{}`)))
			stop := f.start()
			pass(time.Minute)
			if waiting := f.parked(t); len(f.accepted)+waiting != 200 || f.cursor(t) != 200 {
				t.Errorf("%d accepted, %d parked, cursor %d after %d attempts", len(f.accepted), waiting, f.cursor(t), f.attempts)
			}
			for i := range 60 { // the target is seen to be up
				time.Sleep(5 * time.Minute)
				f.append(t, 201+i, 201+i)
			}
			time.Sleep(time.Minute)
			stop()
			if len(f.accepted) != 260-len(c.poison) || !slices.Equal(f.dead(t), c.poison) || f.cursor(t) != 260 || f.parked(t) != 0 {
				t.Errorf("%d accepted, dead letters %v, cursor %d after %d attempts", len(f.accepted), f.dead(t), f.cursor(t), f.attempts)
			}
		})
	}
}

func TestFewEventsAreAcknowledgedAheadOfABlockedCursor(t *testing.T) {
	for name, poison := range map[string]func(number int) bool{
		"one bad event at the front":   func(number int) bool { return number == 1 },
		"one bad event in two hundred": func(number int) bool { return number%200 == 1 },
		"a bad event seldom":           func(number int) bool { return number%3000 == 1 },
	} {
		bubble(t, name, func(t *testing.T) {
			const events, most = 6000, 500
			f := newFixtureWith(t, events, &target{answer: answerEach(func(number int) error {
				if poison(number) {
					return errors.New("500 internal server error")
				}
				return nil
			})}, func(o *sinks.Options) { o.Batch.MaxEvents = most })
			stop := f.start()
			defer stop()
			for range 20_000 {
				pass(500 * time.Millisecond)
				cursor := f.cursor(t)
				f.mu.Lock()
				repeated := 0 // by a kill at this moment
				for _, id := range f.accepted {
					if number, _ := strconv.Atoi(id); uint64(number) > cursor {
						repeated++
					}
				}
				f.mu.Unlock()
				require.True(t, repeated <= most+500, repeated, "events were accepted behind the cursor", cursor)
				if cursor >= events-most { // what fails at the end has none behind it to compare with
					return
				}
			}
			t.Errorf("cursor %d after hours", f.cursor(t))
		})
	}
}

func TestTargetDownAfterABadEventIsNotOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := newFixture(t, 8, &target{answer: func(_ int, ids []string) error {
			if down.Load() || slices.Contains(ids, "5") {
				return errors.New("500 internal server error")
			}
			return nil
		}})
		stop := f.start()
		time.Sleep(time.Minute)
		down.Store(true)
		f.append(t, 9, 300)
		pass(time.Hour)
		before := f.attempted()
		time.Sleep(time.Hour)
		stop()
		n := f.attempts - before
		assert.True(t, n <= 15*60, n, "attempts in an hour of a target that is down")
	})
}

func TestVersionsOfADetectionStayInOrderWheneverTheTargetRecovers(t *testing.T) {
	for back := 1; back < 80; back++ {
		synctest.Test(t, func(t *testing.T) {
			f := newFixtureWith(t, 0, &target{answer: func(attempt int, _ []string) error {
				if attempt < back {
					return errors.New("timeout")
				}
				return nil
			}}, func(o *sinks.Options) { o.Batch.MaxEvents = 32 })
			require.NoError(t, appendEvents(t.Context(), f.store, 1, 32, func(number int) string { return fmt.Sprint(number % 16) }))
			f.run(time.Hour)
			for first := 1; first <= 16; first++ {
				require.True(t, slices.Index(f.accepted, fmt.Sprint(first)) <= slices.Index(f.accepted, fmt.Sprint(first+16)), back, first+16, first, f.accepted)
			}
		})
	}
}

func TestCompletedEventsAreCommittedWhileOthersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2000, &target{answer: answerEach(func(number int) error {
			if number%25 == 7 {
				return errors.New("500 internal server error")
			}
			return nil
		})})
		stop := f.start()
		defer stop()
		for range 2000 {
			time.Sleep(time.Second)
			f.mu.Lock()
			accepted := len(f.accepted)
			f.mu.Unlock()
			if behind := accepted - int(f.cursor(t)); behind > 32*8 {
				t.Fatalf("%d events were accepted, and the cursor is at %d", accepted, f.cursor(t))
			}
		}
		cursor := f.cursor(t)
		assert.True(t, cursor >= 1700, "cursor at", cursor)
	})
}

func TestRequeuedDeadLettersThatAreStillBadReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 100, &target{})
		f.answer = func(_ int, ids []string) error {
			each := make(failure.EventErrors, len(ids))
			for i, id := range ids {
				var number int
				if _, err := fmt.Sscan(id, &number); err != nil {
					return err
				}
				if number <= 60 && number%2 == 0 {
					each[i] = failure.Errorf(failure.Rejected, "400 bad request")
				}
			}
			return each
		}
		stop := f.start()
		time.Sleep(time.Hour)
		before := f.dead(t)
		require.Equal(t, require.Value(f.store.Requeue(t.Context(), "lake", nil))(t), 30)
		time.Sleep(time.Hour)
		stop()
		if dead := f.dead(t); !slices.Equal(dead, before) || f.runner.Status().State != sinks.StateRunning {
			t.Errorf("%d dead letters, %+v", len(dead), f.runner.Status())
		}
	})
}

func TestEventsAheadOfADeadLetterWithoutSpaceAreCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureWith(t, 100, &target{answer: answerEach(func(number int) error {
			if number == 90 {
				return failure.Errorf(failure.Rejected, "400 bad request")
			}
			return nil
		})}, func(o *sinks.Options) { o.Batch = checkpoint.Batch{MaxEvents: 500} })
		f.store.SetLimits(checkpoint.Limits{DeadBytes: 1})
		f.run(time.Hour)
		if f.cursor(t) != 89 || f.runner.Status().State != sinks.StateHalted {
			t.Errorf("cursor %d, %+v", f.cursor(t), f.runner.Status())
		}
	})
}
