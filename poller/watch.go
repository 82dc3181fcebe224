package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// Watch reports, by events in the journal, when an appliance cannot be polled and when it
// can be again. The pollers of the appliance's streams share one.
type Watch struct {
	store  Store
	source checkpoint.Source
	o      WatchOptions
	events transform.Encoder

	mu      sync.Mutex
	streaks map[checkpoint.Source]failureStreak
	state   reachState // after the last poll
	polls   bool       // state is based on polls since the start
	since   time.Time  // when the appliance was first reached, or reached again
	outage  outage     // since the last successful poll of any stream
	failed  int        // polls of all streams since the start
	ended   int        // failed, when the last outage ended
	changed chan struct{}

	reported int // failed, when reachState.Failures was committed; only Run uses it
}

// outage is a time without a successful poll.
type outage struct {
	since    time.Time // when the first poll failed
	failures int       // polls of all streams
}

// WatchOptions configures a Watch.
type WatchOptions struct {
	Appliance string // its name
	// After is how many polls of one stream must fail in a row before the appliance
	// counts as unreachable, provided that no poll of any stream succeeds meanwhile and
	// the last poll of each stream failed; at least 1.
	After int
	// Reached, if set, is called when a poll succeeds for the first time or after the
	// appliance was unreachable. It must not block, nor call the Watch.
	Reached func()
	Log     *slog.Logger
}

// failureStreak counts the failed polls of a stream since any of the appliance's streams
// was last read.
type failureStreak struct {
	failed   bool // whether the last poll failed
	failures int
	last     time.Time // when the last poll failed, if failed
	reason   string    // why it failed
	cause    string    // the same in a few words
}

// reachState is whether an appliance can be polled. It is the position of the events that
// a Watch commits.
type reachState struct {
	Unreachable bool      `json:"unreachable"`
	Since       time.Time `json:"since,omitzero"`     // while unreachable
	Failures    int       `json:"failures,omitempty"` // failed polls until it was committed
	Reason      string    `json:"reason,omitempty"`
}

// Reach is whether an appliance can be polled.
type Reach struct {
	// Known is false until a poll has succeeded or enough of them have failed.
	Known     bool
	Reachable bool
	// Since is the time of the first of the failed polls, or of the first successful
	// one.
	Since time.Time
	// Error describes the latest failure among the streams whose last poll failed;
	// empty if there is none. Cause is the same in a few words.
	Error, Cause string
}

// NewWatch returns a Watch that has seen no poll yet.
func NewWatch(store Store, o WatchOptions) *Watch {
	return &Watch{
		store: store, o: o,
		source:  checkpoint.Source{Appliance: o.Appliance, Stream: transform.StreamEvents},
		events:  transform.Encoder{Appliance: o.Appliance},
		streaks: make(map[checkpoint.Source]failureStreak),
		changed: make(chan struct{}, 1),
	}
}

// Reach reports whether the appliance can be polled. It is safe for concurrent use.
func (w *Watch) Reach() Reach {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Reach{Known: w.polls, Reachable: w.polls && !w.state.Unreachable, Since: w.since}
	if w.state.Unreachable {
		r.Since = w.state.Since
	}
	var last time.Time
	for _, s := range w.streaks {
		if s.failed && !s.last.Before(last) {
			last, r.Error, r.Cause = s.last, s.reason, s.cause
		}
	}
	return r
}

// polled records the result of a poll. It never blocks. A failure that has nothing to do
// with the appliance, such as a full disk, is ignored.
func (w *Watch) polled(source checkpoint.Source, err error) {
	e, ok := errors.AsType[*appliance.Error](err)
	if w == nil || err != nil && !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if err == nil {
		for source, s := range w.streaks {
			w.streaks[source] = failureStreak{failed: s.failed, last: s.last, reason: s.reason, cause: s.cause}
		}
		w.streaks[source] = failureStreak{}
		w.outage = outage{}
		if w.polls && !w.state.Unreachable {
			return
		}
		w.polls, w.state, w.since, w.ended = true, reachState{}, now, w.failed
		if w.o.Reached != nil {
			w.o.Reached()
		}
	} else {
		s := w.streaks[source]
		w.streaks[source] = failureStreak{failed: true, failures: s.failures + 1, last: now, reason: e.Error(), cause: failure.CauseOf(e)}
		if w.outage.failures == 0 {
			w.outage.since = now
		}
		w.outage.failures++
		w.failed++
		if s.failures+1 < w.o.After || w.state.Unreachable || !w.isOut() {
			return
		}
		w.polls = true
		w.state = reachState{Unreachable: true, Since: w.outage.since, Failures: w.outage.failures, Reason: e.Error()}
	}
	select {
	case w.changed <- struct{}{}:
	default: // Run has not handled the last change yet
	}
}

// isOut reports whether the last poll of every stream failed.
func (w *Watch) isOut() bool {
	for _, s := range w.streaks {
		if !s.failed {
			return false
		}
	}
	return len(w.streaks) > 0
}

// Run commits the events until ctx is done. A change that is reversed before it could be
// committed is not reported.
func (w *Watch) Run(ctx context.Context) {
	const pause = 5 * time.Second // after a commit that failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		for {
			err := w.report(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			w.o.Log.Warn("the event about the appliance's reachability could not be committed; retrying", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

// report commits the event of a change, if there is one.
func (w *Watch) report(ctx context.Context) error {
	committed, err := w.store.Position(ctx, w.source)
	if err != nil {
		return fmt.Errorf("read the position of %s: %w", w.source, err)
	}
	var reported reachState
	if committed != nil {
		if reported, err = parsePosition[reachState](committed); err != nil {
			return err
		}
	}
	w.mu.Lock()
	state, back, failed, ended := w.state, w.since, w.failed, w.ended
	if state.Unreachable {
		state.Failures = w.outage.failures
	}
	w.mu.Unlock()
	if state.Unreachable == reported.Unreachable {
		return nil
	}
	change, now := transform.Reachability{Since: state.Since, Failures: state.Failures, Reason: state.Reason}, time.Now()
	if state.Unreachable {
		w.o.Log.Error("the appliance cannot be polled; nothing is lost, polls are retried",
			"since", state.Since, "failures", state.Failures, "error", state.Reason)
	} else {
		// Polls of an earlier process count as far as it had committed them.
		change = transform.Reachability{Reachable: true, Since: reported.Since, For: back.Sub(reported.Since), Failures: reported.Failures + ended - w.reported}
		w.o.Log.Info("the appliance can be polled again", "was_unreachable_since", change.Since, "after_failures", change.Failures)
	}
	event, err := w.events.Reachability(change, now)
	if err != nil {
		return err
	}
	err = w.store.Commit(ctx, checkpoint.Commit{
		Source: w.source, Expect: committed, Position: encodePosition(state), Events: []transform.Event{event},
	})
	if err != nil {
		return fmt.Errorf("commit an event of %s: %w", w.source, err)
	}
	w.reported = failed
	return nil
}
