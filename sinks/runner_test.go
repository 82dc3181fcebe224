package sinks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// target is a sink with scripted answers. It records the events that it accepts.
type target struct {
	// answer returns the result of a batch; events with a nil result are accepted.
	answer func(attempt int, ids []string) error
	// hold, if set, blocks Send until it is closed or ctx is done.
	hold chan struct{}

	mu       sync.Mutex
	attempts int
	opened   int
	closed   int
	accepted []string
	sizes    []int
}

func (s *target) open() (sinks.Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return s, nil
}

func (s *target) Send(ctx context.Context, events []transform.Event) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	s.sizes = append(s.sizes, len(events))
	ids := make([]string, len(events))
	for i, e := range events {
		if ids[i] = e.ID; e.Redelivered {
			ids[i] += fmt.Sprint(" again ", e.Redelivery())
		}
	}
	err := s.answer(s.attempts, ids)
	each, some := errors.AsType[failure.EventErrors](err)
	for i, id := range ids {
		if err == nil || some && each[i] == nil {
			s.accepted = append(s.accepted, id)
		}
	}
	return err
}

func (s *target) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// fixture is a journal of n events, and a runner of a target over it.
type fixture struct {
	*target
	store  *checkpoint.Store
	runner *sinks.Runner
}

func newFixture(t *testing.T, n int, s *target) *fixture {
	t.Helper()
	return newFixtureWith(t, n, s, nil)
}

// newFixtureWith is like newFixture, with changed options.
func newFixtureWith(t *testing.T, n int, s *target, change func(*sinks.Options)) *fixture {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{
		Limits: checkpoint.Limits{MaxBytes: 64 << 20, Retain: 24 * time.Hour},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, store.Close())
	})
	f := &fixture{target: s, store: store}
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	f.append(t, 1, n)
	o := optionsOf("lake", s.open)
	o.Batch, o.Linger = checkpoint.Batch{MaxEvents: 8, MaxBytes: 1 << 20}, 50*time.Millisecond
	if change != nil {
		change(&o)
	}
	f.runner = sinks.NewRunner(store, o)
	return f
}

// optionsOf returns the options of a sink that are the same in most tests.
func optionsOf(name string, open func() (sinks.Sink, error)) sinks.Options {
	return sinks.Options{
		Name: name, Open: open,
		RetryInitial: 500 * time.Millisecond, RetryMax: time.Minute, Probe: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
	}
}

// append appends events whose ids are the numbers from from to to.
func (f *fixture) append(t *testing.T, from, to int) {
	t.Helper()
	require.NoError(t, appendEvents(t.Context(), f.store, from, to, func(int) string { return "" }))
}

// appendEvents appends events whose ids are the numbers from from to to, with partition
// keys.
func appendEvents(ctx context.Context, store *checkpoint.Store, from, to int, key func(number int) string) error {
	return appendEventsOf(ctx, store, "detections", from, to, key, []byte(`{}`))
}

// appendEventsOf is like appendEvents, with the path of the events' source and their data.
func appendEventsOf(ctx context.Context, store *checkpoint.Store, path string, from, to int, key func(number int) string, data []byte) error {
	var events []transform.Event
	for i := from; i <= to; i++ {
		e, err := transform.New(transform.Attributes{
			ID: fmt.Sprint(i), Source: "ndrbridge://hq/" + path, Type: "t", PartitionKey: key(i), RecordedTime: time.Now(),
		}, data)
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	source := checkpoint.Source{Appliance: "hq", Stream: "detections"}
	expect, err := store.Position(ctx, source)
	if err != nil {
		return err
	}
	return store.Commit(ctx, checkpoint.Commit{
		Source: source, Expect: expect, Position: []byte(fmt.Sprint(to)), Events: events,
	})
}

// start runs the runner until stop is called.
func (f *fixture) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.runner.Run(ctx, lateAfter(ctx, grace)) })
	return func() {
		cancel()
		running.Wait()
	}
}

// run runs the runner for a time.
func (f *fixture) run(d time.Duration) {
	stop := f.start()
	time.Sleep(d)
	stop()
}

// bubble runs a subtest in a bubble of its own.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// pass lets a time pass, until nothing is left to do then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fixture) expectState(t *testing.T, state sinks.State, texts ...string) {
	t.Helper()
	s := f.runner.Status()
	lacks := func(text string) bool { return !strings.Contains(s.Error, text) }
	assert.True(t, s.State == state && (state != sinks.StateRunning || s.Error == "") && !slices.ContainsFunc(texts, lacks), "status", s, state, texts)
}

func (f *fixture) expectDead(t *testing.T, ids []string) {
	t.Helper()
	assert.EqualSlices(t, f.dead(t), ids, "dead letters")
}

func (f *fixture) expectAccepted(t *testing.T, ids []string) {
	t.Helper()
	assert.EqualSlices(t, f.accepted, ids, "accepted")
}

func (f *fixture) expectInAnyOrder(t *testing.T, ids []string) {
	t.Helper()
	assert.EqualSlices(t, sorted(f.accepted), sorted(ids), "accepted", f.accepted, "want", ids)
}

func (f *fixture) expectCursor(t *testing.T, want uint64) {
	t.Helper()
	assert.Equal(t, f.cursor(t), want, "cursor at")
}

func (f *fixture) cursor(t *testing.T) uint64 {
	t.Helper()
	cursor := require.Value(f.store.Cursor(t.Context(), "lake"))(t)
	return cursor
}

// replay asks for all events again.
func (f *fixture) replay(t *testing.T) {
	t.Helper()
	_, err := f.store.Replay(t.Context(), "lake", checkpoint.Period{})
	require.NoError(t, err)
}

// attempted returns the number of attempts so far.
func (f *fixture) attempted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts
}

func (f *fixture) dead(t *testing.T) []string {
	t.Helper()
	deadLetters := require.Value(f.store.Dead(t.Context(), checkpoint.SinkOwner("lake"), "", 100))(t)
	var ids []string
	for _, deadLetter := range deadLetters {
		e := require.Value(transform.Parse(deadLetter.Body))(t)
		ids = append(ids, e.ID)
	}
	return ids
}

// parked returns the number of parked events.
func (f *fixture) parked(t *testing.T) int {
	t.Helper()
	heads := require.Value(f.store.ParkedHeads(t.Context(), "lake", 0))(t)
	return len(heads)
}

func numbers(from, to int, without ...string) []string {
	var all []string
	for i := from; i <= to; i++ {
		if id := fmt.Sprint(i); !slices.Contains(without, id) {
			all = append(all, id)
		}
	}
	return all
}

func TestDelivery(t *testing.T) {
	rejected := failure.Errorf(failure.Rejected, "400 bad event")
	for _, c := range []struct {
		name     string
		answer   func(attempt int, ids []string) error
		accepted []string
		dead     []string
	}{
		{
			"all are accepted in order",
			func(int, []string) error { return nil },
			numbers(1, 20), nil,
		},
		{
			"a transient failure is tried until it passes",
			func(attempt int, _ []string) error {
				if attempt < 5 {
					return failure.Unavailable(failure.ScopeTarget, "connection refused")
				}
				return nil
			},
			numbers(1, 20), nil,
		},
		{
			"a throttled batch waits and is accepted",
			func(attempt int, _ []string) error {
				if attempt == 1 {
					return &failure.Error{Class: failure.Throttled, RetryAfter: time.Hour, Err: errors.New("429")}
				}
				return nil
			},
			numbers(1, 20), nil,
		},
		{
			"a rejected event is found by halving and kept among the dead letters",
			func(_ int, ids []string) error {
				if slices.Contains(ids, "5") {
					return rejected
				}
				return nil
			},
			numbers(1, 20, "5"), []string{"5"},
		},
		{
			"several rejected events of a batch are each found",
			func(_ int, ids []string) error {
				if slices.Contains(ids, "1") || slices.Contains(ids, "4") || slices.Contains(ids, "8") || slices.Contains(ids, "20") {
					return rejected
				}
				return nil
			},
			numbers(1, 20, "1", "4", "8", "20"), []string{"1", "4", "8", "20"},
		},
		{
			"a sink that knows which event was rejected needs no halving",
			func(_ int, ids []string) error {
				each := make(failure.EventErrors, len(ids))
				at := slices.Index(ids, "3")
				if at < 0 {
					return nil
				}
				each[at] = rejected
				for i := at + 1; i < len(ids); i++ {
					each[i] = failure.ErrNotTried
				}
				return each
			},
			numbers(1, 20, "3"), []string{"3"},
		},
		{
			"what a sink acknowledged is not sent again with what failed",
			func(attempt int, ids []string) error {
				if attempt > 1 {
					return nil
				}
				each := make(failure.EventErrors, len(ids))
				each[1], each[4] = errors.New("timeout"), errors.New("timeout")
				return each
			},
			nil, nil, // the last batch may have been read before the retry, or not
		},
		{
			"a halted sink loses nothing",
			func(attempt int, _ []string) error {
				if attempt < 4 {
					return failure.Errorf(failure.Halted, "401 unauthorized")
				}
				return nil
			},
			numbers(1, 20), nil,
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFixture(t, 20, &target{answer: c.answer})
			f.run(3 * time.Hour)
			if c.accepted == nil { // all, in any order
				c.accepted = numbers(1, 20)
				slices.SortFunc(f.accepted, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			}
			f.expectAccepted(t, c.accepted)
			f.expectDead(t, c.dead)
			f.expectCursor(t, 20)
			f.expectState(t, sinks.StateRunning)
		})
	}
}

func TestHaltedSinkIsReopenedAtEachProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: func(int, []string) error { return failure.Errorf(failure.Halted, "401 unauthorized") }}
		f := newFixture(t, 3, s)
		stop := f.start()
		pass(95 * time.Second)
		f.expectState(t, sinks.StateHalted, "401")
		stop()
		assert.True(t, s.attempts == 4 && s.opened == 4 && s.closed == 4, s.attempts, "attempts, opened", s.opened, "times, closed", s.closed, "times; want 4 in 95 s")
		f.expectCursor(t, 0)
		f.expectDead(t, nil)
	})
}

func TestSinkThatCannotBeOpenedHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: acceptAll}
		var broken atomic.Bool
		broken.Store(true)
		f := newFixtureWith(t, 3, s, func(o *sinks.Options) {
			o.Open = func() (sinks.Sink, error) {
				if broken.Load() {
					return nil, errors.New("secret file is missing")
				}
				return s.open()
			}
		})
		stop := f.start()
		pass(time.Minute)
		f.expectState(t, sinks.StateHalted, "secret file is missing")
		broken.Store(false)
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, len(s.accepted), 3, "accepted", s.accepted)
	})
}

func TestBatchLingersForMoreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: acceptAll}
		f := newFixture(t, 1, s)
		stop := f.start()
		time.Sleep(20 * time.Millisecond)
		f.append(t, 2, 3)
		time.Sleep(time.Second)
		f.append(t, 4, 11) // a full batch does not linger
		pass(time.Millisecond)
		s.mu.Lock()
		sizes := slices.Clone(s.sizes)
		s.mu.Unlock()
		stop()
		assert.EqualSlices(t, sizes, []int{3, 8}, "sizes of the batches")
	})
}

func TestProgressResetsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 20, &target{answer: func(_ int, ids []string) error {
			each := make(failure.EventErrors, len(ids)) // one is accepted with each attempt
			for i := range ids[1:] {
				each[i+1] = failure.Unavailable(failure.ScopeTarget, "503 service unavailable")
			}
			return each
		}})
		stop := f.start()
		time.Sleep(20 * time.Second) // at most 0.75 s for each of 20 attempts
		stop()
		f.expectAccepted(t, numbers(1, 20))
	})
}

func TestResultsOfEventsDecideHowTheSinkIsRetried(t *testing.T) {
	refused := failure.Errorf(failure.Halted, "401 unauthorized")
	for name, c := range map[string]struct {
		each        failure.EventErrors
		state       sinks.State
		text        string
		least, most int // attempts in an hour
	}{
		"all fail for a time: with backoff":   {failure.EventErrors{errors.New("503"), errors.New("503"), errors.New("503")}, sinks.StateRetrying, "503", 50, 400},
		"one finds the sink at fault":         {failure.EventErrors{errors.New("503"), refused, failure.ErrNotTried}, sinks.StateHalted, "401 unauthorized", 118, 122},
		"the first that finds it is reported": {failure.EventErrors{refused, failure.Errorf(failure.Halted, "403"), errors.New("503")}, sinks.StateHalted, "401 unauthorized", 118, 122},
		"none was tried: with backoff":        {failure.EventErrors{failure.ErrNotTried, failure.ErrNotTried, failure.ErrNotTried}, sinks.StateRetrying, "not tried: an event before it failed", 50, 400},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFixture(t, 3, &target{answer: func(_ int, ids []string) error { return c.each[:len(ids)] }})
			stop := f.start()
			pass(time.Hour)
			s := f.runner.Status()
			assert.True(t, s.State == c.state && s.Error == c.text, "status", s, c.state, c.text)
			stop()
			assert.True(t, f.attempts >= c.least, c.least, "to", c.most, f.attempts, "attempts in an hour")
			assert.True(t, f.attempts <= c.most, c.least, "to", c.most)
		})
	}
}

func TestLongestRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, &target{answer: func(int, []string) error {
			each := make(failure.EventErrors, 3)
			for i, wait := range []time.Duration{time.Minute, time.Hour, time.Second} {
				each[i] = &failure.Error{Class: failure.Throttled, RetryAfter: wait, Err: errors.New("429")}
			}
			return each
		}})
		f.run(59 * time.Minute)
		assert.Equal(t, f.attempts, 1, "attempts within the hour")
	})
}

func TestShutdownWaitsForTheBatchInFlight(t *testing.T) {
	for _, c := range []struct {
		name     string
		duration time.Duration
		cursor   uint64
	}{
		{"a Send that returns in time is committed", 10 * time.Second, 8},
		{"one that does not is given up and repeated", time.Minute, 0},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := &target{hold: make(chan struct{}), answer: acceptAll}
			f := newFixture(t, 20, s)
			stop := f.start()
			time.Sleep(time.Second)
			release := time.AfterFunc(c.duration, func() { close(s.hold) })
			begun := time.Now()
			stop()
			release.Stop()
			took := time.Since(begun)
			assert.True(t, took <= 20*time.Second, "stopping took", took, "want at most 20 s")
			f.expectCursor(t, c.cursor)
		})
	}
}

// divided is a target that accepts the first event of a batch and is late with the others.
type divided struct{ *target }

func (s divided) Send(ctx context.Context, events []transform.Event) error {
	each := make(failure.EventErrors, len(events))
	if err := s.target.Send(ctx, events); err != nil {
		for i := range each[1:] {
			each[i+1] = err
		}
	}
	return each
}

// slow is a target that accepts the first event of a batch after a while and tries no
// other.
type slow struct{ *target }

func (s slow) Send(_ context.Context, events []transform.Event) error {
	time.Sleep(5 * time.Second)
	each := make(failure.EventErrors, len(events))
	for i := range each[1:] {
		each[i+1] = failure.ErrNotTried
	}
	return each
}

// contrary is a target that rejects all events once its context is done.
type contrary struct{ *target }

func (s contrary) Send(ctx context.Context, events []transform.Event) error {
	<-ctx.Done()
	each := make(failure.EventErrors, len(events))
	for i := range each {
		each[i] = failure.Errorf(failure.Rejected, "422")
	}
	return each
}

func TestInterruptedSendsCountAgainstNoEvent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sinks.Options, *target)
		cursor uint64
	}{
		"a Send": {
			func(_ *sinks.Options, s *target) { s.hold = make(chan struct{}) }, 0,
		},
		"a Send that reports the outcome of each event": {
			func(o *sinks.Options, s *target) {
				s.hold = make(chan struct{})
				o.Open = func() (sinks.Sink, error) { return divided{s}, nil }
			}, 1,
		},
		"a Send to a sink that rejects everything": {
			func(o *sinks.Options, s *target) {
				o.Batch.MaxEvents = 20
				o.Open = func() (sinks.Sink, error) { return contrary{s}, nil }
			}, 0,
		},
		"a batch that is no longer begun": {
			func(o *sinks.Options, s *target) {
				o.Open = func() (sinks.Sink, error) { return slow{s}, nil }
			}, 1,
		},
		"a wait for the rate limit": {
			func(o *sinks.Options, _ *target) { o.RateLimit = 0.01 }, 1,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := &target{answer: acceptAll}
			f := newFixtureWith(t, 20, s, func(o *sinks.Options) {
				o.MaxAttempts = 1
				c.change(o, s)
			})
			f.run(time.Second)
			f.expectDead(t, nil)
			f.expectCursor(t, c.cursor)
			f.expectState(t, sinks.StateRunning)
		})
	}
}
