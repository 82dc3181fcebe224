package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// Options say how a Runner delivers.
type Options struct {
	Name  string // the sink's, under which its cursor is kept
	Open  Opener
	Batch checkpoint.Batch
	// Linger is how long a batch that is not full waits for more events.
	Linger time.Duration
	// RetryInitial and RetryMax bound the growing wait after a transient
	// failure.
	RetryInitial, RetryMax time.Duration
	Probe                  time.Duration // between two attempts of a halted sink
	// Grace is how long a Send may go on after Run was told to stop.
	Grace   time.Duration
	Log     *slog.Logger
	Metrics *Metrics
}

// Runner takes one sink from its cursor to the journal's end. It has one batch
// in flight, and moves the cursor when every event of it is acknowledged or
// among the dead letters.
type Runner struct {
	journal checkpoint.Journal
	o       Options
	metrics sinkMetrics
	retry   *backoff.ExponentialBackOff

	sink Sink // nil: to be opened

	mu     sync.Mutex
	status Status
}

// NewRunner returns a Runner that delivers from journal, which has been
// configured with the sink's name.
func NewRunner(journal checkpoint.Journal, o Options) *Runner {
	return &Runner{
		journal: journal,
		o:       o,
		metrics: o.Metrics.of(o.Name),
		retry: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(o.RetryInitial),
			backoff.WithMaxInterval(o.RetryMax),
			backoff.WithMaxElapsedTime(0), // never gives up
		),
		status: Status{Sink: o.Name, State: StateRunning, Since: time.Now()},
	}
}

// Status is safe for concurrent use.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Run delivers until ctx ends. A Send that is in flight then may go on for
// Grace, and what it acknowledged is settled before Run returns.
func (r *Runner) Run(ctx context.Context) {
	// Sends outlive ctx, by Grace at most.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(r.o.Grace):
			cancel()
		}
	})
	defer stop()
	defer r.close()

	var cursor uint64
	for read := false; ctx.Err() == nil; {
		if !read {
			var err error
			if cursor, err = r.journal.Cursor(ctx, r.o.Name); err != nil {
				r.pause(ctx, StateRetrying, fmt.Errorf("read the cursor: %w", err), r.retry.NextBackOff())
				continue
			}
			read = true
			r.resume()
		}
		b, err := r.next(ctx, cursor)
		if err != nil {
			if ctx.Err() == nil {
				r.pause(ctx, StateRetrying, fmt.Errorf("read the journal: %w", err), r.retry.NextBackOff())
			}
			continue
		}
		r.deliver(ctx, late, b, 0, len(b.records))
		settled, err := r.settle(ctx, cursor, b)
		if errors.Is(err, checkpoint.ErrFenced) {
			read = false // somebody moved the cursor: go on from there
		}
		cursor = settled
	}
}

// batch is what is in flight, and how far it has come.
type batch struct {
	records []checkpoint.Record
	events  []transform.Event // those of records
	done    []bool            // acknowledged, or in dead
	dead    []checkpoint.DeadLetter
}

// next waits for events after the cursor.
func (r *Runner) next(ctx context.Context, cursor uint64) (*batch, error) {
	if err := r.journal.Wait(ctx, cursor); err != nil {
		return nil, err
	}
	if r.o.Linger > 0 && r.o.Batch.MaxEvents > 1 {
		full, cancel := context.WithTimeout(ctx, r.o.Linger)
		_ = r.journal.Wait(full, cursor+uint64(r.o.Batch.MaxEvents)-1) // its end is no failure
		cancel()
	}
	records, err := r.journal.Read(ctx, cursor, r.o.Batch)
	if err != nil {
		return nil, err
	}
	b := &batch{records: records, events: make([]transform.Event, len(records)), done: make([]bool, len(records))}
	for i, record := range records {
		b.events[i] = record.Event
	}
	return b, nil
}

// deliver sends events from up to to of a batch until each is done, or ctx
// ends.
func (r *Runner) deliver(ctx, late context.Context, b *batch, from, to int) {
	for {
		pending := b.pending(from, to)
		if len(pending) == 0 || ctx.Err() != nil {
			return
		}
		err := r.send(late, b, pending)
		if err == nil {
			r.resume()
			continue
		}
		if each, ok := errors.AsType[EventErrors](err); ok && len(each) == len(pending) {
			if err = r.sort(b, pending, each); err == nil {
				continue
			}
		}
		switch class, retryAfter := ClassOf(err); class {
		case Rejected:
			if len(pending) == 1 {
				r.bury(b, pending[0], err)
				continue
			}
			// One of them is at fault, or each: halves of what is pending tell.
			middle := pending[len(pending)/2]
			r.deliver(ctx, late, b, from, middle)
			from = middle
		case Halted:
			r.close()
			r.metrics.retried(class)
			r.pause(ctx, StateHalted, err, r.o.Probe)
		default:
			r.metrics.retried(class)
			r.pause(ctx, StateRetrying, err, max(r.retry.NextBackOff(), retryAfter))
		}
	}
}

// pending returns the indexes between from and to that are not done.
func (b *batch) pending(from, to int) []int {
	pending := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		if !b.done[i] {
			pending = append(pending, i)
		}
	}
	return pending
}

// send sends the pending events of a batch in one call.
func (r *Runner) send(ctx context.Context, b *batch, pending []int) error {
	if r.sink == nil {
		sink, err := r.o.Open()
		if err != nil {
			return &Error{Class: Halted, Err: fmt.Errorf("open: %w", err)}
		}
		r.sink = sink
	}
	// Mostly nothing of the stretch is done yet, and it needs no copy.
	events := b.events[pending[0] : pending[len(pending)-1]+1]
	if len(events) != len(pending) {
		events = make([]transform.Event, len(pending))
		for i, index := range pending {
			events[i] = b.events[index]
		}
	}
	start := time.Now()
	err := r.sink.Send(ctx, events)
	end := time.Now()
	r.metrics.send.Observe(end.Sub(start).Seconds())
	if err == nil {
		for _, index := range pending {
			r.acknowledge(b, index, end)
		}
	}
	return err
}

// sort takes the fate of each pending event: what is acknowledged is done, what
// is rejected is buried. It returns the error that says how to go on with the
// others: the most severe of theirs, or nil where nothing hinders another
// attempt.
func (r *Runner) sort(b *batch, pending []int, each EventErrors) error {
	var transient, throttled, halted error
	var longest time.Duration
	now := time.Now()
	progress := false
	for i, err := range each {
		if err == nil {
			r.acknowledge(b, pending[i], now)
			progress = true
			continue
		}
		switch class, wait := ClassOf(err); {
		case class == Rejected:
			r.bury(b, pending[i], err)
			progress = true
		case class == Halted:
			halted = cmp.Or(halted, err)
		case class == Throttled:
			if throttled == nil || wait > longest {
				throttled, longest = err, wait
			}
		case transient == nil && !errors.Is(err, ErrNotTried):
			transient = err
		}
	}
	if progress {
		r.retry.Reset() // what failed is not what failed before
	}
	switch {
	case halted != nil:
		return halted
	case throttled != nil:
		return throttled
	case transient == nil && !progress:
		return ErrNotTried
	}
	return transient
}

func (r *Runner) acknowledge(b *batch, index int, now time.Time) {
	b.done[index] = true
	r.metrics.delivered.Inc()
	r.metrics.delivery.Observe(now.Sub(b.events[index].RecordedTime).Seconds())
}

// bury puts an event among the dead letters.
func (r *Runner) bury(b *batch, index int, err error) {
	e := b.events[index]
	b.done[index] = true
	b.dead = append(b.dead, checkpoint.DeadLetter{
		Key: fmt.Sprintf("%020d", b.records[index].Seq), Class: string(Rejected), Reason: err.Error(),
		Time: time.Now(), Body: e.Structured(),
	})
	r.metrics.dead.Inc()
	r.o.Log.Warn("event rejected; it is kept among the dead letters", "id", e.ID, "source", e.Source, "error", err)
}

// settle moves the cursor behind the leading events of the batch that are done.
// It tries until the store has it, or once where ctx has ended: the events have
// been delivered, and would be once more.
func (r *Runner) settle(ctx context.Context, cursor uint64, b *batch) (uint64, error) {
	s := checkpoint.Settlement{Sink: r.o.Name, Expect: cursor, Cursor: cursor}
	for i, done := range b.done {
		if !done {
			break
		}
		s.Cursor = b.records[i].Seq
	}
	for _, d := range b.dead {
		if d.Key <= fmt.Sprintf("%020d", s.Cursor) {
			s.Dead = append(s.Dead, d)
		}
	}
	if s.Cursor == cursor {
		return cursor, nil
	}
	for {
		// What took the whole of Grace is acknowledged all the same.
		err := r.journal.Settle(context.WithoutCancel(ctx), s)
		if err == nil {
			r.resume()
			return s.Cursor, nil
		}
		err = fmt.Errorf("move the cursor: %w", err)
		if errors.Is(err, checkpoint.ErrFenced) || ctx.Err() != nil {
			r.o.Log.Error("events were delivered but their cursor was not moved; they will come again", "error", err)
			return cursor, err
		}
		r.pause(ctx, StateRetrying, err, r.retry.NextBackOff())
	}
}

// pause tells a failure and waits, or until ctx ends.
func (r *Runner) pause(ctx context.Context, state State, err error, wait time.Duration) {
	if r.enter(state, err.Error()) {
		level := slog.LevelWarn
		if state == StateHalted {
			level = slog.LevelError
		}
		r.o.Log.Log(ctx, level, "sink is "+string(state)+"; its events are kept", "error", err, "next_attempt", wait)
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// resume ends a state of failure.
func (r *Runner) resume() {
	r.retry.Reset()
	if r.enter(StateRunning, "") {
		r.o.Log.Info("sink delivers again")
	}
}

// enter sets the state and says whether it is news.
func (r *Runner) enter(state State, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.status.State != state || r.status.Error != text
	if r.status.State != state {
		r.status.State, r.status.Since = state, time.Now()
		r.metrics.entered(state)
	}
	r.status.Error = text
	return news
}

func (r *Runner) close() {
	if r.sink == nil {
		return
	}
	if err := r.sink.Close(); err != nil {
		r.o.Log.Warn("sink did not close cleanly", "error", err)
	}
	r.sink = nil
}
