package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/poison"
	"ndrbridge/transform"
)

// Options configure a Runner.
type Options struct {
	Name  string // of the sink; its cursor is stored under this name
	Open  opener
	Batch checkpoint.Batch
	// Linger is how long a batch that is not full waits for more events.
	Linger time.Duration
	// RetryInitial and RetryMax bound the exponential backoff after a transient
	// failure.
	RetryInitial, RetryMax time.Duration
	// MaxAttempts is the number of passes after which an event is dead-lettered if it was in
	// a request in each that failed, and not because the target or a part of it was down;
	// 0: never.
	MaxAttempts int
	// Poison is when an event is given up that fails while others are accepted; zero: after
	// 20 failures over at least an hour.
	Poison poison.Rule
	Probe  time.Duration // between two attempts of a halted sink
	// RateLimit is in events per second; 0: no limit.
	RateLimit float64
	Lag       Lag
	// Lease is that of the journal's owner; nil: it never ends. Nothing is sent without
	// it, and a Send in flight is cancelled when it ends. That counts neither as an
	// attempt nor as a failure. Delivery goes on when the lease is renewed.
	Lease *lease.Lease
	// PausedSince is when an operator paused the sink; zero: it is not paused.
	PausedSince time.Time
	// Selection selects the events that are sent. Filtered events count as done, and requeued
	// dead letters are sent in any case. Of the failures of Match, which must be safe for
	// concurrent use, only the first is logged; all are counted.
	Selection
	// Prepare returns the event as it is sent; nil: events are sent unchanged. An
	// event for which it fails is dead-lettered. It must be safe for concurrent use.
	Prepare func(transform.Event) (transform.Event, error)
	// Poll reads from the target between two Sends, and returns how long to wait before the next
	// call. It is not called while the sink is paused or deliveries fail. After an error, which is
	// logged, it is called again when RetryMax has passed. Nil: nothing is read.
	Poll func(ctx context.Context, s Sink) (wait time.Duration, err error)

	Log     *slog.Logger
	Metrics *Metrics
}

// Journal is the part of the state that a Runner uses: the events after the sink's cursor,
// what the sink's lag policy skips of them, its redelivery queue, and the events that it has
// parked. *checkpoint.Store implements it, and documents the methods.
type Journal interface {
	Cursor(ctx context.Context, sink string) (uint64, error)
	Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error)
	Wait(ctx context.Context, after uint64) error
	CommitDelivery(ctx context.Context, d checkpoint.Delivery) error

	Over(ctx context.Context, sink string, b checkpoint.Budget) (checkpoint.Excess, error)
	Skip(ctx context.Context, s checkpoint.Skip) error

	Redeliver(ctx context.Context, sink string, after checkpoint.RedeliveryOffset, max checkpoint.Batch) (checkpoint.Redelivery, error)
	CommitRedelivery(ctx context.Context, c checkpoint.RedeliveryCommit) error
	WaitRedelivery(ctx context.Context, sink string) error

	ParkedHeads(ctx context.Context, sink string, after uint64) ([]checkpoint.ParkedHead, error)
	Parked(ctx context.Context, sink string, numbers []uint64, max checkpoint.Batch) ([]checkpoint.Parked, error)
	CommitParked(ctx context.Context, c checkpoint.ParkedCommit) error
}

// Runner delivers to one sink. One worker delivers the journal from the sink's
// cursor to its end, another the redeliveries that operators ask for, and a third one
// the events that these two have parked. Each has one batch in flight and commits
// events once they are acknowledged, dead-lettered or parked.
type Runner struct {
	o       Options
	metrics sinkMetrics
	limiter *rate.Limiter // nil: none
	prepare *preparer
	workers []*worker
	parts   *parts

	metricMu sync.Mutex    // serializes updates of the state metric
	sendSlot chan struct{} // holds an element while a worker uses sink: one at a time
	sink     Sink          // nil: to be opened
	running  bool          // Run has not returned; guarded by sendSlot, as sink is

	mu           sync.Mutex
	paused       time.Time     // since when; zero: not paused
	pauseChanged chan struct{} // closed and replaced by Pause and Resume; ends waits
	sending      time.Time     // when the Send in flight began; zero: none is
	delivered    time.Time     // when an event was last acknowledged; zero: none was
}

// NewRunner returns a Runner that delivers from journal, which must have been
// configured with the sink's name.
func NewRunner(journal Journal, o Options) *Runner {
	r := &Runner{
		o: o, metrics: o.Metrics.of(o.Name), paused: o.PausedSince,
		sendSlot: make(chan struct{}, 1), pauseChanged: make(chan struct{}),
	}
	r.prepare = newPreparer(&r.o, r.metrics)
	if o.Poison == (poison.Rule{}) {
		r.o.Poison = poison.Rule{Attempts: poison.GiveUpAfter, After: time.Hour}
	}
	if o.RateLimit > 0 {
		burst := max(1, int(o.RateLimit))
		r.limiter = rate.NewLimiter(rate.Limit(o.RateLimit), burst)
		if r.o.Batch.MaxEvents == 0 || r.o.Batch.MaxEvents > burst {
			r.o.Batch.MaxEvents = burst
		}
	}
	r.parts = newParts(o.RetryInitial, o.RetryMax)
	parked := newParkedIndex(journal, &r.o, r.parts)
	base := func() queueBase {
		return queueBase{journal: journal, o: &r.o, preparer: r.prepare, parked: parked}
	}
	r.workers = []*worker{
		newWorker(r, &journalQueue{queueBase: base()}, &lagPolicy{journal: journal, sink: o.Name, Lag: o.Lag}, o.Log),
		newWorker(r, &redeliveryQueue{queueBase: base()}, nil, o.Log.With("redelivery", true)),
		newWorker(r, &parkedQueue{base()}, nil, o.Log.With("parked", true)),
	}
	r.updateStateMetric()
	return r
}

// Run delivers until ctx is done. A Send that is in flight then may go on until
// late is done; what it acknowledged is committed before Run returns.
func (r *Runner) Run(ctx, late context.Context) {
	r.setRunning(true)
	defer r.setRunning(false)

	var running sync.WaitGroup
	for _, w := range r.workers {
		running.Go(func() { w.run(ctx, late) })
	}
	if r.o.Poll != nil {
		running.Go(func() { r.poll(ctx) })
	}
	running.Wait()
}

// Status returns the sink's status: paused, or else the most severe of the
// statuses of its workers. It is safe for concurrent use.
func (r *Runner) Status() Status {
	r.mu.Lock()
	paused, sending, last := r.paused, r.sending, r.delivered
	r.mu.Unlock()
	delivered := counterValue(r.metrics.delivered)
	if !paused.IsZero() {
		return Status{
			Sink: r.o.Name, State: StatePaused, Since: paused, Error: "paused by an operator, until it is resumed",
			Delivered: delivered, LastDelivery: last, Match: r.prepare.matchStatus(),
		}
	}
	var worst Status
	for _, w := range r.workers {
		w.mu.Lock()
		if s := w.status; worst.Sink == "" || s.State.Severity() > worst.State.Severity() {
			worst = s
		}
		w.mu.Unlock()
	}
	if err := r.o.Lease.Check(); err != nil && worst.State == StateRunning { // it has nothing to send yet
		worst.State, worst.Error = StateRetrying, err.Error()
	}
	worst = worst.orStuck(sending)
	worst.Delivered, worst.LastDelivery, worst.Match = delivered, last, r.prepare.matchStatus()
	return worst
}

// setDelivered records that an event was acknowledged at a time.
func (r *Runner) setDelivered(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = at
}

// Pause stops delivery until Resume, once the Send in flight has returned. It is
// safe for concurrent use.
func (r *Runner) Pause() { r.setPaused(time.Now()) }

// Resume ends a pause, and a backoff too: the next attempt is made at once. It is
// safe for concurrent use.
func (r *Runner) Resume() { r.setPaused(time.Time{}) }

func (r *Runner) setPaused(paused time.Time) {
	r.mu.Lock()
	if r.paused.IsZero() || paused.IsZero() {
		r.paused = paused
	}
	close(r.pauseChanged)
	r.pauseChanged = make(chan struct{})
	r.mu.Unlock()
	r.updateStateMetric()
}

// updateStateMetric sets the metric of the sink's state.
func (r *Runner) updateStateMetric() {
	r.metricMu.Lock() // covers reading the state, so that no older state overwrites a newer one
	defer r.metricMu.Unlock()
	r.metrics.state.Set(float64(r.Status().State.Severity()))
}

// pauseState reports whether the sink is paused. The next Pause or Resume closes
// changed.
func (r *Runner) pauseState() (paused bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.paused.IsZero(), r.pauseChanged
}

// send sends events in one call of Send, after waiting for the rate limit and for
// the other workers. It returns the part of the target that each event goes to as partsOf
// does, also if it fails.
func (r *Runner) send(ctx context.Context, events []transform.Event) (names []string, err error) {
	if r.limiter != nil {
		for left := len(events); left > 0; left -= r.limiter.Burst() {
			if err := r.limiter.WaitN(ctx, min(left, r.limiter.Burst())); err != nil {
				return nil, fmt.Errorf("wait for the rate limit: %w", err)
			}
		}
	}
	select {
	case r.sendSlot <- struct{}{}:
		defer func() { <-r.sendSlot }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for the worker that sends: %w", err)
	}
	return r.openAndSend(ctx, events)
}

// openAndSend sends events, opening the sink first if necessary. It leaves out those for parts
// of the target that are down. The caller holds sendSlot.
func (r *Runner) openAndSend(ctx context.Context, events []transform.Event) (names []string, err error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	if r.parts.areWatched() {
		names = partsOf(r.sink, events)
	}
	up, each := r.parts.leaveOutDown(events, names, time.Now())
	if len(up) == 0 {
		return names, each
	}
	err = r.sendWithLease(ctx, up)
	if each != nil {
		err = mergeResults(each, err, len(up))
	}
	if names != nil || err != nil { // now the sink may know more of them
		names = partsOf(r.sink, events)
	}
	return names, err
}

// open opens the sink unless it is open. The caller holds sendSlot.
func (r *Runner) open() error {
	if r.sink != nil {
		return nil
	}
	sink, err := r.o.Open()
	if err != nil {
		return &failure.Error{Class: failure.Halted, Err: fmt.Errorf("open: %w", err)}
	}
	r.sink = sink
	return nil
}

// SendTest sends an event that is not in the journal, between two Sends of the workers, also if
// the sink is paused or halted. The event is prepared, but neither filtered nor counted, and its
// result has no effect on the others. It is safe for concurrent use.
func (r *Runner) SendTest(ctx context.Context, e transform.Event) (err error) {
	if r.o.Prepare != nil {
		if e, err = r.o.Prepare(e); err != nil {
			return fmt.Errorf("prepare the event: %w", err)
		}
	}
	select {
	case r.sendSlot <- struct{}{}:
		defer func() { <-r.sendSlot }()
	case <-ctx.Done():
		return fmt.Errorf("the sink is sending other events: %w", ctx.Err())
	}
	if !r.running {
		return errors.New("the sink is being started or stopped; try again")
	}
	if r.Status().State == StateHalted { // the secrets may have been corrected
		r.closeSink()
	}
	if err := r.open(); err != nil {
		return err
	}
	return r.sendWithLease(ctx, []transform.Event{e})
}

// poll calls Options.Poll until ctx is done.
func (r *Runner) poll(ctx context.Context) {
	for failed := false; ; {
		wait, err := r.pollOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = r.o.RetryMax
			if !failed && !hadNoLease(err) {
				r.o.Log.Warn("cannot read from the target; it is tried again", "error", err)
			}
		}
		failed = err != nil
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// pollOnce calls Options.Poll if the sink is running.
func (r *Runner) pollOnce(ctx context.Context) (wait time.Duration, err error) {
	select {
	case r.sendSlot <- struct{}{}:
		defer func() { <-r.sendSlot }()
	case <-ctx.Done():
		return 0, nil
	}
	if r.Status().State != StateRunning {
		return r.o.RetryMax, nil
	}
	if err := r.open(); err != nil {
		return 0, err
	}
	err = r.o.Lease.Do(ctx, func(ctx context.Context) error {
		wait, err = r.o.Poll(ctx, r.sink)
		return err
	})
	if class, _ := failure.ClassOf(err); err != nil && class == failure.Halted { // the secrets may have been corrected
		r.closeSink()
	}
	return wait, err
}

// sendWithLease sends events while the lease lasts.
func (r *Runner) sendWithLease(ctx context.Context, events []transform.Event) error {
	err := r.o.Lease.Do(ctx, func(ctx context.Context) error {
		defer r.watchSend()()
		start := time.Now()
		err := r.sink.Send(ctx, events)
		r.metrics.send.Observe(time.Since(start).Seconds())
		return err
	})
	if hadNoLease(err) { // whatever the sink makes of it, the target is not at fault
		return &failure.Error{Class: failure.Transient, Err: err}
	}
	return err
}

// hadNoLease reports whether a Send failed because there was no lease. The results of
// its events other than an acknowledgement or a rejection prove nothing.
func hadNoLease(err error) bool { return errors.Is(err, lease.ErrExpired) }

// reopen closes the sink. The next send opens it again.
func (r *Runner) reopen() {
	r.sendSlot <- struct{}{}
	defer func() { <-r.sendSlot }()
	r.closeSink()
}

// setRunning records that Run begins or ends, and then closes the sink for good.
func (r *Runner) setRunning(running bool) {
	r.sendSlot <- struct{}{}
	defer func() { <-r.sendSlot }()
	if r.running = running; !running {
		r.closeSink()
	}
}

// closeSink closes the sink if it is open. The caller holds sendSlot.
func (r *Runner) closeSink() {
	if r.sink == nil {
		return
	}
	if err := r.sink.Close(); err != nil {
		r.o.Log.Warn("sink did not close cleanly", "error", err)
	}
	r.sink = nil
}
