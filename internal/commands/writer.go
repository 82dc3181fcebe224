package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/hiding"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/notes"
	"ndrbridge/internal/poison"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// WriterOptions configure a Writer.
type WriterOptions struct {
	Appliance string // its name
	Kind      Kind   // of the commands that the Writer carries out
	// RetryInitial and RetryMax limit the wait before a retry.
	RetryInitial, RetryMax time.Duration
	// Probe is how often a halted writer tries again.
	Probe time.Duration
	// Lease is that of the state's owner; nil: it never ends. Nothing is written to the
	// appliance without it.
	Lease   *lease.Lease
	Log     *slog.Logger
	Metrics *WriterMetrics
}

// writerStore is the part of the state that a Writer uses. *checkpoint.Store implements it,
// and documents the methods.
type writerStore interface {
	Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error)
	Command(ctx context.Context, id uint64) (c checkpoint.Command, found bool, err error)
	WaitCommands(ctx context.Context, after uint64) error
	Note(ctx context.Context, id uint64, note []byte, expect []checkpoint.Entry) error
	Finish(ctx context.Context, o checkpoint.Outcome) error
	DropExpected(ctx context.Context, appliance string, before int64) error
	HasSpace(ctx context.Context) (bool, error)
}

// Writer carries out the commands of one kind for one appliance. Invariants:
//
//   - An accepted command is written at least once, or ends as rejected with a
//     reason. An interrupted command is written again.
//   - Of two commands for the same ticket, detection or rule, the one accepted
//     first is carried out first. No other command waits for one that is retried.
//   - Nothing is written before the state holds it.
type Writer struct {
	client    client
	store     writerStore
	ownWrites *OwnWrites
	o         WriterOptions
	events    transform.Encoder
	retry     backoff.BackOff // for failures that concern all commands

	waiting   orderedTasks
	received  uint64 // id up to which commands were read from the state
	done      uint64 // number of commands carried out
	untracked bool   // ticket tracking may be off: ask before the next write

	mu     sync.Mutex
	status Status
}

// Status is the status of a Writer.
type Status struct {
	State sinks.State
	Since time.Time // of State
	// Error is the last failure; it is empty while State is sinks.StateRunning.
	Error string
	Cause string // Error in a few words, as failure.CauseOf returns it
}

// NewWriter returns a Writer that continues from the commands in store. It shares
// ownWrites with the pollers of the appliance's detections; for rules, it is nil.
func NewWriter(client client, store writerStore, ownWrites *OwnWrites, o WriterOptions) *Writer {
	w := &Writer{
		client: client, store: store, ownWrites: ownWrites, o: o,
		events:    transform.Encoder{Appliance: o.Appliance},
		untracked: o.Kind == KindTicket,
		status:    Status{State: sinks.StateRunning, Since: time.Now()},
	}
	w.retry = w.newRetry()
	return w
}

func (w *Writer) newRetry() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(w.o.RetryInitial),
		backoff.WithMaxInterval(w.o.RetryMax),
		backoff.WithMaxElapsedTime(0),
	)
}

// Kind returns the kind of the commands that w carries out.
func (w *Writer) Kind() Kind { return w.o.Kind }

// Status returns the current status. It is safe for concurrent use.
func (w *Writer) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Run carries out commands until ctx is done. A command that is in progress then may
// continue until late is done.
func (w *Writer) Run(ctx, late context.Context) {
	w.o.Metrics.begin(w.o.Appliance)
	for ctx.Err() == nil {
		if wait := w.step(ctx, late); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}

// step carries out the next command or waits for one. It returns how long to wait
// before the next step.
func (w *Writer) step(ctx, late context.Context) (pause time.Duration) {
	if w.untracked {
		if w.isTrackingOff(ctx) {
			w.enter(sinks.StateHalted, errTrackingOff)
			return w.o.Probe
		}
		w.untracked = false
		if len(w.waiting) == 0 {
			w.enter(sinks.StateRunning, nil)
		}
	}
	t, wait := w.waiting.next(time.Now())
	if t != nil {
		return w.carryOut(ctx, late, t)
	}
	return w.await(ctx, wait)
}

// readAhead limits the tasks in memory. It equals the number of commands that the state
// can hold, so however many commands wait for one ticket, those for others are found. A
// task is small.
const readAhead = checkpoint.MaxCommands

// readPage is how many commands are read from the state at once.
const readPage = 500

// receive adds the pending commands for the appliance among the selection of f with an id above
// after. It returns the last id read.
func (w *Writer) receive(ctx context.Context, f checkpoint.CommandFilter, after uint64) (last uint64, err error) {
	for len(w.waiting) < readAhead {
		commands, err := w.store.Commands(ctx, f, after, readPage)
		if err != nil {
			return after, err
		}
		for _, c := range commands {
			after = c.ID
			if c.Appliance != w.o.Appliance || c.State != checkpoint.CommandPending {
				continue
			}
			if t, kind := taskOf(c); kind == w.o.Kind {
				w.waiting.add(t)
			}
		}
		if len(commands) < readPage {
			break
		}
	}
	return after, nil
}

func taskOf(c checkpoint.Command) (*task, Kind) {
	t := &task{id: c.ID}
	var command Command
	// An unreadable command fails when it is carried out.
	_ = json.Unmarshal(c.Body, &command)
	add := func(what string, id int64) {
		if id != 0 {
			t.keys = append(t.keys, newOrderingKey(what+strconv.FormatInt(id, 10)))
		}
	}
	if c.Subject != "" {
		t.keys = append(t.keys, newOrderingKey("ticket "+c.Subject))
	}
	add("detection ", command.Detection())
	add("rule ", command.RuleID)
	return t, command.Kind()
}

// await waits for a new command, or until due has passed if it is above 0.
func (w *Writer) await(ctx context.Context, due time.Duration) (pause time.Duration) {
	if len(w.waiting) >= readAhead {
		return due
	}
	wait := w.o.Probe
	if due > 0 {
		wait = min(wait, due)
	}
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	err := w.store.WaitCommands(waiting, w.received)
	if err != nil && waiting.Err() == nil {
		return w.failState(ctx, fmt.Errorf("wait for commands: %w", err))
	}
	before := len(w.waiting)
	if w.received, err = w.receive(ctx, checkpoint.CommandFilter{}, w.received); err != nil {
		return w.failState(ctx, fmt.Errorf("read new commands: %w", err))
	}
	if len(w.waiting) > before {
		return 0
	}
	// Commands may have become pending again: their ids precede w.received.
	pending := checkpoint.CommandFilter{Appliance: w.o.Appliance, State: checkpoint.CommandPending}
	if _, err := w.receive(ctx, pending, 0); err != nil {
		return w.failState(ctx, fmt.Errorf("read the pending commands: %w", err))
	}
	return 0
}

// failState sets the status after an error of the state.
func (w *Writer) failState(ctx context.Context, err error) (pause time.Duration) {
	if ctx.Err() == nil {
		w.enter(sinks.StateRetrying, err)
	}
	return w.retry.NextBackOff()
}

// errJournalFull reports why no command is carried out: its result event would not fit.
var errJournalFull = &failure.Error{Class: failure.Transient, Cause: "journal full", Err: errors.New(
	"the journal is full, and so is its reserve for the results of commands; these are carried out once the slowest sink catches up")}

// carryOut carries out one command and handles its failure.
func (w *Writer) carryOut(ctx, late context.Context, t *task) (pause time.Duration) {
	c, found, err := w.store.Command(ctx, t.id)
	if err != nil {
		return w.failState(ctx, fmt.Errorf("read a pending command: %w", err))
	}
	if !found || c.State != checkpoint.CommandPending { // it was dropped
		w.waiting.remove(t)
		return 0
	}
	space, err := w.store.HasSpace(ctx)
	if err != nil {
		return w.failState(ctx, fmt.Errorf("check whether the journal is full: %w", err))
	}
	if !space {
		w.enter(sinks.StateRetrying, errJournalFull)
		return w.retry.NextBackOff()
	}
	err = w.write(late, c)
	if errors.Is(err, checkpoint.ErrFenced) { // it was dropped meanwhile
		err = nil
	}
	if err == nil {
		w.waiting.remove(t)
		w.done++
		w.retry.Reset()
		w.enter(sinks.StateRunning, nil)
		return 0
	}
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, lease.ErrExpired) || w.o.Lease.Check() != nil && !refused(err) {
		w.enter(sinks.StateRetrying, lease.ErrExpired)
		return w.o.RetryInitial // no failure of the command
	}
	class, retryAfter := w.classOf(ctx, err)
	if class == failure.Transient && t.failures.Add(w.done) {
		class = failure.Rejected
		err = fmt.Errorf("it failed %d times while other commands succeeded: %w", poison.GiveUpAfter, err)
	}
	if class == failure.Rejected {
		err := w.finish(late, c, result{reason: err.Error()})
		if err != nil && !errors.Is(err, checkpoint.ErrFenced) {
			return w.failState(ctx, err)
		}
		w.waiting.remove(t)
		w.retry.Reset()
		w.enter(sinks.StateRunning, nil)
		return 0
	}
	if w.untracked {
		err = fmt.Errorf("%w (%w)", errTrackingOff, err)
	}
	w.o.Metrics.retries.WithLabelValues(w.o.Appliance, string(class)).Inc()
	switch class {
	case failure.Halted:
		w.enter(sinks.StateHalted, err)
		return w.o.Probe
	case failure.Throttled:
		w.enter(sinks.StateRetrying, err)
		return max(w.retry.NextBackOff(), retryAfter)
	}
	w.enter(sinks.StateRetrying, err)
	if t.retry == nil {
		t.retry = w.newRetry()
	}
	t.due = time.Now().Add(max(t.retry.NextBackOff(), retryAfter))
	if answered(err) || errors.Is(err, errLookupSlow) || errors.Is(err, notes.ErrContended) {
		return 0 // other commands may succeed
	}
	return w.retry.NextBackOff()
}

// result is how a command ended.
type result struct {
	reason string             // why it was rejected; empty: it was applied
	expect []checkpoint.Entry // the own writes of a ticket's
	rule   hiding.Rule        // that was made or changed; zero: none
}

// finish stores the result of a command and journals an event that reports it.
func (w *Writer) finish(ctx context.Context, c checkpoint.Command, r result) error {
	now, state := time.Now(), checkpoint.CommandApplied
	if r.reason != "" {
		state = checkpoint.CommandRejected
	}
	event, err := w.report(c, r, now)
	if err != nil {
		return err
	}
	outcome := checkpoint.Outcome{ID: c.ID, State: state, Reason: r.reason, Done: now, Events: []transform.Event{event}, Expect: r.expect}
	if err := w.store.Finish(ctx, outcome); err != nil {
		return fmt.Errorf("store the result of command %d: %w", c.ID, err)
	}
	w.o.Metrics.finished(w.o.Appliance, state, now.Sub(c.Accepted))
	if state == checkpoint.CommandRejected {
		w.o.Log.Warn("a command was rejected; 'ndrbridge tickets retry' retries it", "command", c.ID, "kind", w.o.Kind, "ticket", c.Subject, "reason", r.reason)
	}
	return nil
}

// report returns the event that reports how a command ended.
func (w *Writer) report(c checkpoint.Command, r result, now time.Time) (transform.Event, error) {
	var command Command
	// An unreadable command is reported by its ticket alone.
	_ = json.Unmarshal(c.Body, &command)
	switch command.Kind() {
	case KindRule:
		return w.reportRule(c, command, r, now)
	case KindNote:
		return w.reportNote(c, command, r, now)
	}
	ticket := transform.Ticket{
		Command: c.ID, TicketID: c.Subject, DetectionID: command.DetectionID,
		Status: command.Status, Resolution: command.Resolution, Assignee: command.Assignee, By: command.By, Reason: r.reason,
	}
	return w.events.TicketResult(ticket, now)
}

// enter sets the status and logs a change of state.
func (w *Writer) enter(state sinks.State, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.status
	w.status = Status{State: state, Since: time.Now(), Cause: failure.CauseOf(err)}
	if err != nil {
		w.status.Error = err.Error()
	}
	if was.State == state {
		w.status.Since = was.Since
		return
	}
	switch state {
	case sinks.StateHalted:
		w.o.Log.Error(fmt.Sprintf("%ss are not written until this is fixed; commands are kept", w.o.Kind), "error", err)
	case sinks.StateRetrying:
		w.o.Log.Warn(fmt.Sprintf("a %s could not be written; it is retried", w.o.Kind), "error", err)
	default:
		w.o.Log.Info(fmt.Sprintf("%ss are written again", w.o.Kind), "since", was.Since, "was", was.State)
	}
}
