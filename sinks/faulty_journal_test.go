package sinks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// faultyJournal is a journal whose methods fail while they are set to.
type faultyJournal struct {
	*checkpoint.Store
	cursor, read, commit func() error // nil, or nil returned: no failure
	// commitRedelivery returns the error of a commit that was written.
	commitRedelivery func() error
}

func fault(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (j *faultyJournal) Cursor(ctx context.Context, sink string) (uint64, error) {
	if err := fault(j.cursor); err != nil {
		return 0, err
	}
	return j.Store.Cursor(ctx, sink)
}

func (j *faultyJournal) Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error) {
	if err := fault(j.read); err != nil {
		return nil, err
	}
	return j.Store.Read(ctx, after, max)
}

func (j *faultyJournal) CommitDelivery(ctx context.Context, d checkpoint.Delivery) error {
	if err := fault(j.commit); err != nil {
		return err
	}
	return j.Store.CommitDelivery(ctx, d)
}

func (j *faultyJournal) CommitRedelivery(ctx context.Context, c checkpoint.RedeliveryCommit) error {
	if err := j.Store.CommitRedelivery(ctx, c); err != nil {
		return err
	}
	return fault(j.commitRedelivery)
}

// newFixtureOver is like newFixtureWith, with a runner over a faulty journal that logs to
// log.
func newFixtureOver(t *testing.T, n int, s *target, j *faultyJournal, log *bytes.Buffer, change func(*sinks.Options)) *fixture {
	t.Helper()
	var o sinks.Options
	f := newFixtureWith(t, n, s, func(all *sinks.Options) {
		if all.Log = slog.New(slog.NewTextHandler(log, nil)); change != nil {
			change(all)
		}
		o = *all
	})
	j.Store = f.store
	f.runner = sinks.NewRunner(j, o)
	return f
}

func acceptAll(int, []string) error { return nil }

// until returns the answers of a sink that fails until it is well.
func until(well *atomic.Bool, err error) func(int, []string) error {
	return func(int, []string) error {
		if well.Load() {
			return nil
		}
		return err
	}
}

func TestAJournalThatFailsIsRetriedWithBackoffAndLogged(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(j *faultyJournal, f func() error)
		text string
	}{
		"its cursor cannot be read":  {func(j *faultyJournal, f func() error) { j.cursor = f }, "read the cursor: input/output error"},
		"it cannot be read":          {func(j *faultyJournal, f func() error) { j.read = f }, "read the journal: input/output error"},
		"its commits are not stored": {func(j *faultyJournal, f func() error) { j.commit = f }, "move the cursor: input/output error"},
	} {
		bubble(t, name, func(t *testing.T) {
			var calls atomic.Int32
			var j faultyJournal
			c.set(&j, func() error {
				if calls.Add(1) > 10 {
					return nil
				}
				return errors.New("input/output error")
			})
			var log bytes.Buffer
			f := newFixtureOver(t, 20, &target{answer: acceptAll}, &j, &log, nil)
			begun := time.Now()
			stop := f.start()
			pass(10 * time.Second)
			s := f.runner.Status()
			assert.True(t, s.State == sinks.StateRetrying && strings.Contains(s.Error, c.text) && s.Since.Sub(begun) <= time.Second, "status", s, c.text)
			if n := calls.Load(); n > 8 { // 0.25, 0.375, 0.56 s … at least
				t.Errorf("%d attempts in 10 s", n)
			}
			pass(time.Hour)
			f.expectState(t, sinks.StateRunning)
			stop()
			f.expectAccepted(t, numbers(1, 20))
			f.expectCursor(t, 20)
			n := strings.Count(log.String(), c.text)
			assert.True(t, n == 1 && strings.Count(log.String(), "delivers again") == 1, "the failure is logged", n, "times, want once, and the recovery once", log.String())
		})
	}
}

func TestARunnerContinuesFromACursorThatWasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{hold: make(chan struct{}), answer: acceptAll}
		f := newFixture(t, 20, s)
		stop := f.start()
		time.Sleep(time.Second) // events 1 to 8 are in flight
		event, err := transform.New(transform.Attributes{ID: "skipped", Source: "ndrbridge://hq/detections", Type: "t", RecordedTime: time.Now()}, []byte(`{}`))
		require.NoError(t, err)
		require.NoError(t, f.store.Skip(t.Context(), checkpoint.Skip{Sink: "lake", Cursor: 3, Event: event}))
		close(s.hold)
		time.Sleep(time.Minute)
		stop()
		f.expectAccepted(t, slices.Concat(numbers(1, 8), numbers(4, 20), []string{"skipped"}))
		f.expectCursor(t, 21)
	})
}

func TestACommitOfRedeliveriesThatWasWrittenButFailedIsRecognized(t *testing.T) {
	for name, queued := range map[string]int{"the queue is empty then": 1, "others follow": 2} {
		bubble(t, name, func(t *testing.T) {
			failed := false
			j := faultyJournal{commitRedelivery: func() error {
				if failed {
					return nil
				}
				failed = true
				return errors.New("input/output error")
			}}
			var log bytes.Buffer
			f := newFixtureOver(t, 3, &target{answer: acceptAll}, &j, &log, nil)
			stop := f.start()
			time.Sleep(time.Second)
			want := numbers(1, 3)
			f.runner.Pause()
			for n := range queued {
				f.replay(t)
				for _, id := range numbers(1, 3) {
					want = append(want, id+" again "+string(rune('1'+n)))
				}
			}
			f.runner.Resume()
			time.Sleep(time.Hour)
			stop()
			f.expectAccepted(t, want)
			assert.NotContains(t, log.String(), "will be delivered again", "log")
		})
	}
}
