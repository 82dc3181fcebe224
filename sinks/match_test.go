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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	samples "ndrbridge/internal/fixture"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestMatchFiltersEvents(t *testing.T) {
	some := []string{"1", "5", "12"}
	matches := func(e transform.Event) (bool, error) { return slices.Contains(some, e.ID), nil }
	fails := func(e transform.Event) (bool, error) {
		if e.ID == "2" || e.ID == "4" {
			return true, errors.New("no such overload")
		}
		return matches(e)
	}
	for _, c := range []struct {
		name     string
		match    func(transform.Event) (bool, error)
		policy   sinks.MatchErrorPolicy
		accepted []string
		dead     []string
		logged   int // lines of the log about a failure
		matched  int // events
	}{
		{"filtered events are committed without being sent", matches, "", some, nil, 0, 3},
		{"all events may be filtered", func(transform.Event) (bool, error) { return false, nil }, "", nil, nil, 0, 0},
		{"an event for which match fails is sent, and logged once", fails, "", []string{"1", "2", "4", "5", "12"}, nil, 1, 3},
		{"an event for which match fails is sent by policy", fails, "send", []string{"1", "2", "4", "5", "12"}, nil, 1, 3},
		{"an event for which match fails is dropped by policy", fails, "drop", some, nil, 1, 3},
		{"an event for which match fails is dead-lettered by policy", fails, "dead_letter", some, []string{"2", "4"}, 1, 3},
	} {
		bubble(t, c.name, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewRegistry()
			f := newFixtureWith(t, 12, &target{answer: acceptAll}, func(o *sinks.Options) {
				o.Match, o.OnError, o.Log = c.match, c.policy, slog.New(slog.NewTextHandler(&log, nil))
				o.Metrics = sinks.NewMetrics(registry)
			})
			stop := f.start()
			time.Sleep(time.Minute)
			f.replay(t)
			time.Sleep(time.Minute)
			stop()
			want := slices.Clone(c.accepted)
			for _, id := range c.accepted {
				want = append(want, id+" again 1")
			}
			f.expectAccepted(t, want)
			f.expectCursor(t, 12)
			f.expectDead(t, c.dead)
			assert.Equal(t, strings.Count(log.String(), `msg="match failed`), c.logged, "logged", "times", &log)
			seen := *f.runner.Status().Match
			if want := uint64(4 * c.logged); seen.Errors != want || (seen.Error != "") != (want > 0) {
				t.Errorf("%+v, want %d errors", seen, want)
			}
			// Each event is seen twice. Those that match have numbers in some.
			if want := (sinks.MatchStatus{Matched: uint64(2 * c.matched), Filtered: 24 - uint64(2*c.matched) - seen.Errors, ConsecutiveFiltered: seen.ConsecutiveFiltered, FilteredSince: seen.FilteredSince, Errors: seen.Errors, Error: seen.Error}); seen != want {
				t.Errorf("%+v, want %+v", seen, want)
			}
			if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP ndrbridge_sink_match_errors_total Events for which the sink's match failed; on_error decides what happens to them.
# TYPE ndrbridge_sink_match_errors_total counter
ndrbridge_sink_match_errors_total{sink="lake"} %d
`, 4*c.logged)), "ndrbridge_sink_match_errors_total"); err != nil { // two events, delivered and redelivered
				t.Error(err)
			}
		})
	}
}

// A sink with notify sends trouble of the bridge for which its match is false or fails, and
// nothing else that it would not have sent.
func TestNotifySendsTroubleWhateverTheMatch(t *testing.T) {
	everything := samples.Names()
	for _, m := range []struct {
		name  string
		match func(transform.Event) (bool, error)
	}{
		{"no match", nil},
		{"a match of everything", func(transform.Event) (bool, error) { return true, nil }},
		{"a match of nothing", func(transform.Event) (bool, error) { return false, nil }},
		{"a match of detections", func(e transform.Event) (bool, error) { return e.Stream() == transform.StreamDetections, nil }},
		{"a match that fails", func(transform.Event) (bool, error) { return false, errors.New("no such overload") }},
	} {
		for _, policy := range []sinks.MatchErrorPolicy{"send", "drop", "dead_letter"} {
			for _, name := range everything {
				e := require.Value(samples.Event(samples.Spec{Name: name, Appliance: "hq", Query: "dns"}))(t)
				plain, _ := sinks.Selection{Match: m.match, OnError: policy}.Decide(e)
				got, _ := sinks.Selection{Match: m.match, OnError: policy, Notify: true}.Decide(e)
				want := plain
				switch name {
				case "appliance.unreachable", "appliance.reachable", "audit.gap", "sink.halted", "sink.resumed":
					want = sinks.VerdictSend
				}
				assert.Equal(t, got, want, m.name, policy, name)
			}
		}
	}
}

func TestTroubleIsSentInOrderWithTheRest(t *testing.T) {
	bridge := transform.Encoder{Appliance: transform.Bridge}
	for _, notify := range []bool{false, true} {
		bubble(t, fmt.Sprintf("notify is %t", notify), func(t *testing.T) {
			f := newFixtureWith(t, 2, &target{answer: acceptAll}, func(o *sinks.Options) {
				o.Match = func(e transform.Event) (bool, error) { return e.ID == "1" || e.ID == "3", nil }
				o.Notify = notify
			})
			halted := require.Value(bridge.SinkHalt(transform.SinkHalt{Sink: "other", Since: time.Now()}, time.Now()))(t)
			heartbeat := require.Value(bridge.Heartbeat("1", time.Now(), time.Now()))(t)
			require.NoError(t, f.store.Commit(t.Context(), checkpoint.Commit{
				Source: checkpoint.Source{Appliance: transform.Bridge, Stream: transform.StreamEvents}, Position: []byte("{}"), Events: []transform.Event{halted, heartbeat},
			}))
			f.append(t, 3, 3)
			stop := f.start()
			time.Sleep(time.Minute)
			stop()
			want := []string{"1", "3"}
			if notify {
				want = []string{"1", halted.ID, "3"}
			}
			f.expectAccepted(t, want)
			f.expectCursor(t, 5)
		})
	}
}

// matchesEvery returns a match for events whose number is a multiple of every.
func matchesEvery(every int) func(transform.Event) (bool, error) {
	return func(e transform.Event) (bool, error) {
		number, err := strconv.Atoi(e.ID)
		return number%every == 0, err
	}
}

func TestStatusCountsEventsSinceTheLastMatch(t *testing.T) {
	bubble(t, "events since the last match", func(t *testing.T) {
		f := newFixtureWith(t, 20, &target{answer: func(int, []string) error { return nil }}, func(o *sinks.Options) {
			o.Match = func(e transform.Event) (bool, error) {
				if e.ID == "22" {
					return false, errors.New("no number")
				}
				return e.ID == "10", nil
			}
		})
		began := time.Now()
		stop := f.start()
		defer stop()
		for _, step := range []struct {
			last  int
			want  uint64
			since time.Time
		}{{20, 10, began}, {21, 11, began}, {22, 0, time.Time{}}, {24, 2, began.Add(3 * time.Minute)}} {
			if step.last > 20 {
				f.append(t, int(f.cursor(t))+1, step.last)
			}
			time.Sleep(time.Minute)
			seen := *f.runner.Status().Match
			if seen.ConsecutiveFiltered != step.want || seen.FilteredSince.Sub(step.since).Abs() > 2*time.Second {
				t.Errorf("after event %d: %+v, want %d since %s", step.last, seen, step.want, step.since)
			}
		}
	})
}

func TestSelectiveMatchBlocksNothing(t *testing.T) {
	const events, bad = 4000, "50"
	for _, every := range []int{1, 10, 50} {
		bubble(t, fmt.Sprintf("one bad event is given up, and the others arrive, if one event in %d matches", every), func(t *testing.T) {
			fails := func(_ int, ids []string) error {
				if slices.Contains(ids, bad) {
					return errors.New("500 internal server error")
				}
				return nil
			}
			f := newFixtureWith(t, events, &target{answer: fails}, func(o *sinks.Options) {
				o.Batch.MaxEvents, o.Match = 10, matchesEvery(every)
			})
			stop := f.start()
			pass(time.Minute)
			if want := events/every - 1; len(f.accepted) != want || f.cursor(t) != events {
				t.Errorf("%d were accepted, want %d; cursor %d", len(f.accepted), want, f.cursor(t))
			}
			for i := range 40 {
				f.append(t, events+1+50*i, events+50*i+50)
				time.Sleep(6 * time.Minute)
			}
			stop()
			f.expectDead(t, []string{bad})
		})
	}
	bubble(t, "filtered events after one for a target that is down use no memory", func(t *testing.T) {
		down := func(int, []string) error { return errors.New("503 service unavailable") }
		f := newFixtureWith(t, 20_000, &target{answer: down}, func(o *sinks.Options) {
			o.Match = func(e transform.Event) (bool, error) { return e.ID == "1", nil }
		})
		before := liveHeap()
		stop := f.start()
		time.Sleep(6 * time.Hour)
		grown := int64(liveHeap()) - int64(before)
		assert.True(t, grown <= 2<<20, "the heap has grown by", grown, "bytes")
		stop()
		f.expectCursor(t, 0)
	})
}

func TestMatchSeesEventsAsTheyAreSent(t *testing.T) {
	bubble(t, "a replayed event is marked as redelivered", func(t *testing.T) {
		f := newFixtureWith(t, 3, &target{answer: acceptAll}, func(o *sinks.Options) {
			o.Match = func(e transform.Event) (bool, error) { return !e.Redelivered, nil }
		})
		stop := f.start()
		time.Sleep(time.Minute)
		f.replay(t)
		time.Sleep(time.Minute)
		stop()
		f.expectAccepted(t, []string{"1", "2", "3"})
	})
	t.Run("a requeued dead letter is sent although it no longer matches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var later atomic.Bool // events no longer match, and would be accepted
			f := newFixtureWith(t, 3, &target{answer: until(&later, failure.Errorf(failure.Rejected, "400 bad request"))}, func(o *sinks.Options) {
				o.Match = func(transform.Event) (bool, error) { return !later.Load(), nil }
			})
			stop := f.start()
			time.Sleep(time.Minute)
			later.Store(true)
			require.Equal(t, require.Value(f.store.Requeue(t.Context(), "lake", nil))(t), 3, "requeued")
			time.Sleep(time.Minute)
			stop()
			assert.Equal(t, len(f.accepted), 3, "accepted")
			assert.Empty(t, f.dead(t), "dead letters")
		})
	})
}
