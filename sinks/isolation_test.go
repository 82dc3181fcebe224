package sinks_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// failsOn returns the answers of a sink that answers 500 to every batch with one of the
// poison events.
func failsOn(poison ...string) func(int, []string) error {
	return func(_ int, ids []string) error {
		if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(poison, id) }) {
			return errors.New("500 internal server error")
		}
		return nil
	}
}

func sorted(ids []string) []string {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	return ids
}

func TestEventThatKeepsFailingWhileOthersAreDeliveredIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(int, []string) error
		change func(*sinks.Options)
		dead   []string
		least  int // failures of its own before an event is given up
		most   int // 0: not checked
		within time.Duration
	}{
		"one of a batch that fails as a whole": {answer: failsOn("5"), dead: []string{"5"}, least: 20, within: 4 * time.Hour},
		"several of them":                      {answer: failsOn("1", "4", "20"), dead: []string{"1", "4", "20"}, least: 20, within: 4 * time.Hour},
		"one that the sink knows": {answer: func(_ int, ids []string) error {
			if at := slices.Index(ids, "3"); at >= 0 {
				each := make(failure.EventErrors, len(ids))
				each[at] = errors.New("500 internal server error")
				return each
			}
			return nil
		}, dead: []string{"3"}, least: 20, within: 4 * time.Hour},
		"one that fails alone in its batch": {answer: failsOn("2"), change: func(o *sinks.Options) { o.Batch.MaxEvents = 1 },
			dead: []string{"2"}, least: 20, within: 4 * time.Hour},
		"one of a sink that stops behind it": {answer: func(_ int, ids []string) error {
			at := slices.Index(ids, "7")
			if at < 0 {
				return nil
			}
			each := make(failure.EventErrors, len(ids))
			each[at] = errors.New("500 internal server error")
			for i := at + 1; i < len(ids); i++ {
				each[i] = failure.ErrNotTried
			}
			return each
		}, dead: []string{"7"}, least: 20, within: 4 * time.Hour},
		"any, after so many attempts as are allowed": {answer: failsOn("2"),
			change: func(o *sinks.Options) { o.MaxAttempts, o.Batch.MaxEvents = 3, 1 }, dead: []string{"2"}, least: 3, most: 3, within: 10 * time.Second},
	} {
		bubble(t, name, func(t *testing.T) {
			alone := make(map[string]int) // sends in which an event failed and no other did
			f := newFixtureWith(t, 40, &target{answer: func(call int, ids []string) error {
				err := c.answer(call, ids)
				if each, ok := errors.AsType[failure.EventErrors](err); ok {
					for i, id := range ids {
						if each[i] != nil && !errors.Is(each[i], failure.ErrNotTried) {
							alone[id]++
						}
					}
				} else if err != nil && len(ids) == 1 {
					alone[ids[0]]++
				}
				return err
			}}, c.change)
			stop := f.start()
			// Events that arrive meanwhile show that the target is up.
			for i := range 40 {
				time.Sleep(c.within / 40)
				f.append(t, 41+i, 41+i)
			}
			stop()
			f.expectDead(t, c.dead)
			for _, id := range c.dead {
				assert.True(t, alone[id] >= c.least && (c.most <= 0 || alone[id] <= c.most), id, alone[id], c.least, c.most)
			}
			want := sorted(numbers(1, 80, c.dead...))
			assert.EqualSlices(t, sorted(f.accepted)[:70], want[:70], "accepted", f.accepted)
		})
	}
	for _, c := range []struct {
		name string
		down error
		most int // attempts in a minute
	}{
		{"but none while the target cannot be reached, however long", failure.Unavailable(failure.ScopeTarget, "connection refused"), 2},
		{"but none while the target answers only 500, however long", errors.New("500 internal server error"), 10},
	} {
		bubble(t, c.name, func(t *testing.T) {
			var well atomic.Bool
			f := newFixture(t, 40, &target{answer: until(&well, c.down)})
			stop := f.start()
			for i := range 7 * 24 { // a week, with events that arrive all the time
				time.Sleep(time.Hour)
				f.append(t, 41+i, 41+i)
			}
			attempts := f.attempted()
			assert.True(t, attempts <= 7*24*60*c.most, attempts, "attempts in a week, want at most", c.most, "per minute")
			well.Store(true)
			time.Sleep(10 * time.Minute)
			stop()
			f.expectDead(t, nil)
			f.expectInAnyOrder(t, numbers(1, 40+7*24))
			for size := range slices.Values(f.sizes) {
				assert.True(t, size <= 8, "a batch of", size, "events")
			}
		})
	}
	bubble(t, "nor an event that no other follows", func(t *testing.T) {
		f := newFixture(t, 1, &target{answer: failsOn("1")})
		stop := f.start()
		time.Sleep(24 * time.Hour)
		f.expectDead(t, nil)
		for i := range 60 {
			f.append(t, 2+i, 2+i)
			time.Sleep(5 * time.Minute)
		}
		stop()
		f.expectDead(t, []string{"1"})
	})
	t.Run("and events of its key wait for it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, 0, &target{answer: failsOn("2")})
			require.NoError(t, appendEvents(t.Context(), f.store, 1, 60, func(i int) string { return fmt.Sprint("key ", i%2, i < 7) }))
			stop := f.start()
			for i := range 60 {
				time.Sleep(5 * time.Minute)
				f.append(t, 61+i, 61+i)
			}
			stop()
			at := func(id string) int { return slices.Index(f.accepted, id) }
			assert.True(t, at("4") >= 0 && at("4") <= at("6") && at("60") >= 0, "accepted", f.accepted)
		})
	})
}

func TestSinkThatRejectsEverythingHalts(t *testing.T) {
	rejects := failure.Errorf(failure.Rejected, "400 bad request")
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Bool
		bad.Store(true)
		f := newFixture(t, 50, &target{answer: func(_ int, ids []string) error {
			if bad.Load() || slices.Contains(ids, "9") {
				return rejects
			}
			return nil
		}})
		stop := f.start()
		pass(time.Hour)
		f.expectState(t, sinks.StateHalted, "20 events in a row were rejected")
		// The events of earlier batches stay dead letters.
		if dead := f.dead(t); len(dead) >= 20 {
			t.Errorf("%d dead letters", len(dead))
		}
		bad.Store(false)
		time.Sleep(time.Hour)
		stop()
		dead := f.dead(t)
		assert.True(t, slices.Contains(dead, "9") || slices.Contains(numbers(1, 16), "9"), "dead letters", dead, "lack 9")
		if len(f.accepted)+len(dead) != 50 || f.cursor(t) != 50 {
			t.Errorf("accepted %v, dead %v, cursor %d", f.accepted, dead, f.cursor(t))
		}
	})
	bubble(t, "and goes on if the data was at fault after all", func(t *testing.T) {
		f := newFixtureWith(t, 60, &target{answer: func(_ int, ids []string) error {
			for _, id := range ids {
				if len(id) == 1 || id < "31" { // 1 to 30
					return rejects
				}
			}
			return nil
		}}, func(o *sinks.Options) { o.Batch.MaxEvents = 50 })
		f.run(time.Hour)
		if want := numbers(31, 60); !slices.Equal(sorted(f.accepted), want) || len(f.dead(t)) != 30 {
			t.Errorf("accepted %v, dead %v", f.accepted, f.dead(t))
		}
	})
}

func TestUnsendableEventsDoNotHaltTheSink(t *testing.T) {
	text := require.Value(render.Compile(`{"text": {{if .detection.bad}}no JSON{{else}}"fine"{{end}}}`, true))(t)
	for name, o := range map[string]webhook.Options{
		"too large for max_body_bytes":                       {MaxBodyBytes: 1000},
		"too large for max_body_bytes, in batches":           {MaxBodyBytes: 1000, Mode: transform.Batch},
		"too large for max_body_bytes, several at once":      {MaxBodyBytes: 1000, Concurrency: 4},
		"a template that makes no JSON":                      {Template: text},
		"attributes that are too large for a request header": {Mode: transform.Binary},
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan struct{}, 1)
			receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received <- struct{}{} }))
			defer receiver.Close()
			o.URL = receiver.URL
			f := newFixtureWith(t, 0, &target{}, func(all *sinks.Options) {
				all.Open = func() (sinks.Sink, error) { return webhook.New(o) }
			})
			long := strings.Repeat("x", 20_000)
			require.NoError(t, appendEventsOf(t.Context(), f.store, "detections", 1, 30, func(i int) string { return fmt.Sprint(i, long) }, []byte(`{"detection":{"bad":true}}`)))
			f.append(t, 31, 31)
			stop := f.start()
			select {
			case <-received:
			case <-time.After(time.Minute):
				t.Errorf("the healthy event did not arrive: %+v", f.runner.Status())
			}
			stop()
			f.expectDead(t, numbers(1, 30))
		})
	}
}

func TestUnsendableEventsDoNotHideThatTheTargetRejectsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 60, &target{answer: answerEach(func(number int) error {
			if number > 10 && number%10 == 5 {
				return failure.Unsendable("too large")
			}
			return failure.Errorf(failure.Rejected, "400 bad request")
		})})
		stop := f.start()
		pass(time.Hour)
		f.expectState(t, sinks.StateHalted)
		tried := f.attempted()
		time.Sleep(time.Hour)
		stop()
		dead := f.dead(t)
		assert.True(t, slices.Contains(dead, "15") && f.attempts != tried, "dead letters", dead, tried, "attempts, then", f.attempts)
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureWith(t, 100, &target{answer: acceptAll}, func(o *sinks.Options) { o.RateLimit = 0.5 })
		f.run(61 * time.Second)
		n := len(f.accepted)
		assert.True(t, n >= 30 && n <= 32, n, "events in a minute, at one every two seconds")
	})
}

func TestABatchThatFailsAsAWholeIsGivenUpAfterMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := make(map[time.Time]bool)
		f := newFixtureWith(t, 8, &target{answer: func(int, []string) error {
			passes[time.Now()] = true
			return errors.New("500 internal server error")
		}}, func(o *sinks.Options) { o.MaxAttempts = 4 })
		f.run(time.Hour)
		if dead := f.dead(t); !slices.Equal(dead, numbers(1, 8)) || len(passes) != 4 || f.cursor(t) != 8 {
			t.Errorf("dead letters %v after %d passes, cursor at %d", dead, len(passes), f.cursor(t))
		}
	})
}

func TestAProbeOfASinkThatIsDownIsOneSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := failure.Errorf(failure.Rejected, "400 bad request")
		var now atomic.Pointer[error]
		set := func(err error) { now.Store(&err) }
		set(answer)
		f := newFixture(t, 50, &target{answer: func(int, []string) error { return *now.Load() }})
		stop := f.start()
		pass(5 * time.Minute)
		set(failure.Unavailable(failure.ScopeTarget, "connection refused"))
		before := f.attempted()
		pass(10 * time.Minute)
		n := f.attempted() - before
		assert.True(t, n >= 18 && n <= 22, n, "Sends in ten minutes, want one each half minute")
		f.expectState(t, sinks.StateHalted, "20 events in a row were rejected", "connection refused")
		set(nil)
		time.Sleep(10 * time.Minute)
		stop()
		if accepted := sorted(f.accepted); len(accepted)+len(f.dead(t)) != 50 || f.cursor(t) != 50 {
			t.Errorf("accepted %v, dead letters %v, cursor at %d", accepted, f.dead(t), f.cursor(t))
		}
	})
}

// A batch in which events 1 to 5 are rejected, 6 is accepted and the others are rejected,
// some because they cannot be sent or prepared.
func TestAHaltUndoesTheRejectionsSinceTheLastAcceptedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		sends := make(map[string]int)
		answer := func(_ int, ids []string) error {
			each, failed := make(failure.EventErrors, len(ids)), false
			for i, id := range ids {
				sends[id]++
				switch {
				case id == "10":
					each[i] = failure.Unsendable("too large")
				case id != "6" && !well.Load():
					each[i] = failure.Errorf(failure.Rejected, "400 bad request")
				}
				failed = failed || each[i] != nil
			}
			if !failed {
				return nil
			}
			return each
		}
		f := newFixtureWith(t, 40, &target{answer: answer}, func(o *sinks.Options) {
			o.Batch.MaxEvents = 40
			o.Prepare = func(e transform.Event) (transform.Event, error) {
				if e.ID == "12" {
					return transform.Event{}, errors.New("the template fails")
				}
				return e, nil
			}
		})
		stop := f.start()
		time.Sleep(45 * time.Second) // the first probe is over
		synctest.Wait()
		f.expectState(t, sinks.StateHalted)
		f.expectDead(t, numbers(1, 5))
		f.expectCursor(t, 6)
		well.Store(true)
		time.Sleep(time.Minute)
		stop()
		dead, want := f.dead(t), append(numbers(1, 5), "10", "12")
		assert.EqualSlices(t, sorted(dead), sorted(want), "dead letters", dead, want)
		f.expectInAnyOrder(t, append(numbers(7, 40, "10", "12"), "6"))
		for _, id := range append(numbers(1, 5), "10") {
			assert.Equal(t, sends[id], 1, "event", id, "was sent … times, although its outcome was certain")
		}
		assert.Equal(t, sends[""]+sends["12"], 0, "an event that could not be prepared was sent")
	})
}

func TestAnEventThatFailedIsTriedOnceInEachPass(t *testing.T) {
	for _, stream := range []string{"detections", "audit"} { // with ordering keys and without
		bubble(t, stream, func(t *testing.T) {
			times := make(map[time.Time]int)
			f := newFixture(t, 0, &target{answer: func(_ int, ids []string) error {
				if slices.Equal(ids, []string{"3"}) {
					times[time.Now()]++
				}
				return failsOn("3")(0, ids)
			}})
			require.NoError(t, appendEventsOf(t.Context(), f.store, stream, 1, 200, func(i int) string { return fmt.Sprint(i) }, []byte(`{}`)))
			stop := f.start()
			for i := range 60 {
				time.Sleep(5 * time.Minute)
				f.append(t, 201+i, 201+i)
			}
			stop()
			f.expectDead(t, []string{"3"})
			for at, n := range times {
				assert.Equal(t, n, 1, "times that it was sent in the pass at", at)
			}
		})
	}
}

func TestOnlyAFewEventsAreTriedIndividuallyIfTheTargetIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		individually := make(map[time.Time]int)
		f := newFixtureWith(t, 0, &target{answer: func(_ int, ids []string) error {
			if len(ids) == 1 {
				individually[time.Now()]++
			}
			return errors.New("500 internal server error")
		}}, func(o *sinks.Options) { o.Batch.MaxEvents = 50 })
		require.NoError(t, appendEventsOf(t.Context(), f.store, "detections", 1, 200, func(i int) string { return fmt.Sprint(i) }, []byte(`{}`)))
		f.run(time.Hour)
		if len(individually) == 0 || f.dead(t) != nil || f.cursor(t) != 0 {
			t.Errorf("%d passes, dead letters %v, cursor at %d", len(individually), f.dead(t), f.cursor(t))
		}
		most := 0
		for at, n := range individually {
			most = max(most, n)
			assert.True(t, n <= 32, n, "events were tried individually at", at)
		}
		assert.True(t, most >= 20, "at most", most, "events were tried individually")
		few := f.attempts / 60
		assert.True(t, few <= 15, few, "requests in a minute")
	})
}

func TestProbesKeepTheOrderOfADetection(t *testing.T) {
	for probes := range 12 {
		bubble(t, fmt.Sprintf("the target recovers after %d probes", probes), func(t *testing.T) {
			var well atomic.Bool
			f := newFixtureWith(t, 0, &target{answer: until(&well, failure.Errorf(failure.Rejected, "400 bad request"))}, func(o *sinks.Options) { o.Batch.MaxEvents = 30 })
			require.NoError(t, appendEvents(t.Context(), f.store, 1, 30, func(i int) string { return fmt.Sprint(i % 7) }))
			stop := f.start()
			time.Sleep(time.Duration(probes)*30*time.Second + 15*time.Second)
			well.Store(true)
			time.Sleep(time.Hour)
			stop()
			latest := make(map[int]int)
			for _, id := range f.accepted {
				number := require.Value(strconv.Atoi(id))(t)
				before := latest[number%7]
				assert.True(t, number >= before, "event", number, "was accepted after", before, f.accepted)
				latest[number%7] = number
			}
			if len(f.accepted) != 30 || f.dead(t) != nil {
				t.Errorf("accepted %v, dead letters %v", f.accepted, f.dead(t))
			}
		})
	}
}

func TestASinkThatAcceptedAProbeHaltsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := 0
		f := newFixture(t, 100, &target{answer: func(attempt int, ids []string) error {
			if attempt > 100 && accepted < 1 { // a probe
				accepted++
				return nil
			}
			return failure.Errorf(failure.Rejected, "400 bad request")
		}})
		stop := f.start()
		pass(24 * time.Hour)
		s := f.runner.Status()
		assert.True(t, s.State == sinks.StateHalted && accepted == 1, "status", s, accepted, "accepted")
		stop()
		dead := f.dead(t)
		assert.True(t, len(dead) <= 60, len(dead), "dead letters, although nearly all events were rejected")
	})
}

func TestRejectionsBetweenAcceptedEventsDoNotHaltTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFixtureWith(t, 100, &target{answer: answerEach(func(number int) error {
			if number%5 != 0 {
				return failure.Errorf(failure.Rejected, "400 bad event")
			}
			return nil
		})}, func(o *sinks.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		f.run(time.Hour)
		if strings.Contains(log.String(), "halted") || len(f.dead(t)) != 80 || len(f.accepted) != 20 {
			t.Errorf("%d dead letters, accepted %v, log:\n%s", len(f.dead(t)), f.accepted, log.String())
		}
	})
}

// TestDeadLettersNameTheirOwnError: events that are given up in one pass failed for different
// reasons.
func TestDeadLettersNameTheirOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 40, &target{answer: func(_ int, ids []string) error {
			for _, id := range []string{"2", "5"} {
				if slices.Contains(ids, id) {
					return errors.New("500 for " + id)
				}
			}
			return nil
		}})
		stop := f.start()
		for i := range 40 {
			time.Sleep(6 * time.Minute)
			f.append(t, 41+i, 41+i)
		}
		stop()
		deadLetters := require.Value(f.store.Dead(t.Context(), checkpoint.SinkOwner("lake"), "", 100))(t)
		require.Equal(t, len(deadLetters), 2, "dead letters")
		for _, d := range deadLetters {
			e := require.Value(transform.Parse(d.Body))(t)
			assert.True(t, strings.HasSuffix(d.Reason, "500 for "+e.ID), "event", e.ID, "has the reason", d.Reason)
		}
	})
}
