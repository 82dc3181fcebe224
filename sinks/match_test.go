package sinks_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

func TestASinkIsSentWhatItWants(t *testing.T) {
	some := []string{"1", "5", "12"}
	wants := func(e transform.Event) (bool, error) { return slices.Contains(some, e.ID), nil }
	fails := func(e transform.Event) (bool, error) {
		if e.ID == "2" || e.ID == "4" {
			return true, errors.New("no such overload")
		}
		return wants(e)
	}
	for _, c := range []struct {
		name   string
		match  func(transform.Event) (bool, error)
		policy sinks.MatchErrorPolicy
		taken  []string
		dead   []string
		logged int // lines of the log about a failure
	}{
		{"what it does not want is settled without being sent", wants, "", some, nil, 0},
		{"and goes by where it wants nothing", func(transform.Event) (bool, error) { return false, nil }, "", nil, nil, 0},
		{"an event that match fails for is sent, and logged once", fails, "", []string{"1", "2", "4", "5", "12"}, nil, 1},
		{"an event that match fails for is sent", fails, sinks.OnMatchErrorSend, []string{"1", "2", "4", "5", "12"}, nil, 1},
		{"an event that match fails for is dropped", fails, sinks.OnMatchErrorDrop, some, nil, 1},
		{"an event that match fails for becomes a dead letter", fails, sinks.OnMatchErrorDeadLetter, some, []string{"2", "4"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := newFixtureWith(t, 12, &target{answer: func(int, []string) error { return nil }}, func(o *sinks.Options) {
					o.Match, o.OnMatchError, o.Log = c.match, c.policy, slog.New(slog.NewTextHandler(&log, nil))
				})
				stop := f.start()
				time.Sleep(time.Minute)
				if _, err := f.store.Replay(t.Context(), "lake", time.Time{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				stop()
				want := slices.Clone(c.taken)
				for _, id := range c.taken {
					want = append(want, id+" again 1")
				}
				if !slices.Equal(f.taken, want) {
					t.Errorf("taken %v, want %v", f.taken, want)
				}
				if dead := f.dead(t); f.cursor(t) != 12 || !slices.Equal(dead, c.dead) {
					t.Errorf("cursor %d, dead letters %v, want %v", f.cursor(t), dead, c.dead)
				}
				if logged := strings.Count(log.String(), `msg="match failed`); logged != c.logged {
					t.Errorf("logged %d times, want %d: %s", logged, c.logged, &log)
				}
			})
		})
	}
}

// wantsEvery is a match for events whose number every divides.
func wantsEvery(every int) func(transform.Event) (bool, error) {
	return func(e transform.Event) (bool, error) {
		number, err := strconv.Atoi(e.ID)
		return number%every == 0, err
	}
}

func TestASinkThatWantsLittleIsHeldUpByNothing(t *testing.T) {
	const events, bad = 4000, "50"
	for _, every := range []int{1, 10, 50} {
		t.Run(fmt.Sprintf("one bad event among those that it wants, one of %d, is given up, and the others arrive", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails := func(_ int, ids []string) error {
					if slices.Contains(ids, bad) {
						return errors.New("500 internal server error")
					}
					return nil
				}
				f := newFixtureWith(t, events, &target{answer: fails}, func(o *sinks.Options) {
					o.Batch.MaxEvents, o.Match = 10, wantsEvery(every)
				})
				stop := f.start()
				time.Sleep(24 * time.Hour)
				stop()
				if want := events/every - 1; len(f.taken) != want || f.cursor(t) != events || len(f.dead(t)) != 1 {
					t.Errorf("%d were taken, want %d; cursor %d, dead letters %v", len(f.taken), want, f.cursor(t), f.dead(t))
				}
			})
		})
	}
	t.Run("an event for a target that is down costs no space for what it does not want behind it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			down := func(int, []string) error { return errors.New("503 service unavailable") }
			f := newFixtureWith(t, 20_000, &target{answer: down}, func(o *sinks.Options) {
				o.Match = func(e transform.Event) (bool, error) { return e.ID == "1", nil }
			})
			before := liveHeap()
			stop := f.start()
			time.Sleep(6 * time.Hour)
			if grown := int64(liveHeap()) - int64(before); grown > 2<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			stop()
			if f.cursor(t) != 0 {
				t.Errorf("cursor %d, and the first event was not taken", f.cursor(t))
			}
		})
	})
}

func TestAMatchIsAskedAboutWhatIsSent(t *testing.T) {
	t.Run("what is replayed is redelivered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixtureWith(t, 3, &target{answer: func(int, []string) error { return nil }}, func(o *sinks.Options) {
				o.Match = func(e transform.Event) (bool, error) { return !e.Redelivered, nil }
			})
			stop := f.start()
			time.Sleep(time.Minute)
			if _, err := f.store.Replay(t.Context(), "lake", time.Time{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			stop()
			if want := []string{"1", "2", "3"}; !slices.Equal(f.taken, want) {
				t.Errorf("taken %v, want %v", f.taken, want)
			}
		})
	})
	t.Run("a requeued dead letter is sent although it is not wanted any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var later atomic.Bool // it is not wanted any more, and would be taken
			answer := func(int, []string) error {
				if later.Load() {
					return nil
				}
				return sinks.Errorf(sinks.Rejected, "400 bad request")
			}
			f := newFixtureWith(t, 3, &target{answer: answer}, func(o *sinks.Options) {
				o.Match = func(transform.Event) (bool, error) { return !later.Load(), nil }
			})
			stop := f.start()
			time.Sleep(time.Minute)
			later.Store(true)
			if n, err := f.store.Requeue(t.Context(), "lake", nil); err != nil || n != 3 {
				t.Fatalf("%d requeued: %v", n, err)
			}
			time.Sleep(time.Minute)
			stop()
			if len(f.taken) != 3 || len(f.dead(t)) != 0 {
				t.Errorf("taken %v, dead letters %v", f.taken, f.dead(t))
			}
		})
	})
}
