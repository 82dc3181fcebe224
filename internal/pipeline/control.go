package pipeline

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// control carries out an operator's requests on a running pipeline.
type control struct {
	operator
	pipeline *Pipeline
	all      *runtime
}

// Control returns a client of the pipeline with its current parts, or nil until the pipeline
// is open.
func (p *Pipeline) Control() *admin.Client {
	parts := p.current.Load()
	if parts == nil {
		return nil
	}
	c := &control{pipeline: p, all: parts, operator: operator{
		config: parts.config, version: p.options.Version, log: p.options.Log, store: p.store,
		writable: func() (*checkpoint.Store, error) { return p.store, nil },
		client:   func(a configs.Appliance) (*appliance.Client, error) { return parts.appliance(a.Name).client, nil },
	}}
	all := c.operator.operations()
	admin.API.GetStatus.By(all, c.status)
	admin.API.GetHistory.By(all, c.history)
	admin.API.Reload.By(all, func(ctx context.Context, _ admin.None) (admin.Reloaded, error) { return p.options.Reload(ctx) })
	// Each verification sends an appliance many requests, each search for a detection reads much of
	// the state, and each backup needs disk space for a copy.
	admin.API.Verify.By(all, alone(&p.verifying, "verification", c.verify))
	admin.API.GetDetection.By(all, c.detection)
	admin.API.TailEvents.By(all, c.tail)
	admin.API.Backup.Operation.By(all, alone(&p.backingUp, "backup", func(ctx context.Context, r admin.BackupRequest) (admin.None, error) {
		return admin.None{}, c.backup(ctx, r)
	}))
	admin.API.PollAppliance.By(all, c.poll)
	admin.API.PauseSink.By(all, func(ctx context.Context, r admin.OfSink) error { return c.control(ctx, r, true) })
	admin.API.ResumeSink.By(all, func(ctx context.Context, r admin.OfSink) error { return c.control(ctx, r, false) })
	// A button pressed often must not send a target many events.
	admin.API.SendTest.By(all, alone(&p.testing, "test", c.sendTest))
	admin.API.ForgetAppliance.By(all, c.forgetAppliance)
	return admin.NewLocal(all)
}

// control pauses or resumes a sink. It changes the state first: otherwise a runner made
// meanwhile would miss it.
func (c *control) control(ctx context.Context, r admin.OfSink, paused bool) error {
	done, apply := "resumed", (*sinks.Runner).Resume
	if paused {
		done, apply = "paused", (*sinks.Runner).Pause
	}
	return c.pipeline.change(ctx, func(context.Context) error {
		if err := c.pause(ctx, r.Sink, paused); err != nil {
			return err
		}
		c.log.Info("sink "+done+" on request", "sink", r.Sink)
		if p := c.pipeline.current.Load().sink(r.Sink); p != nil { // it is configured
			apply(p.runner)
		}
		return nil
	})
}

// poll makes the streams of an appliance be polled at once.
func (c *control) poll(_ context.Context, r admin.OfAppliance) error {
	a, err := c.operator.appliance(r.Appliance)
	if err != nil {
		return err
	}
	for _, s := range c.all.appliance(a.Name).streams {
		s.poller.PollNow()
	}
	return nil
}

// alone returns do limited to one call at a time: another one returns admin.ErrBusy.
func alone[Request, Answer any](running *sync.Mutex, what string, do func(context.Context, Request) (Answer, error)) func(context.Context, Request) (Answer, error) {
	return func(ctx context.Context, r Request) (answer Answer, err error) {
		if !running.TryLock() {
			return answer, fmt.Errorf("another %s is running; try again when it has ended: %w", what, admin.ErrBusy)
		}
		defer running.Unlock()
		return do(ctx, r)
	}
}

// detection is operator.detection limited to one search at a time, because each reads much of
// the state.
func (c *control) detection(ctx context.Context, r admin.DetectionRequest) (admin.Detection, error) {
	if err := c.pipeline.searching.Acquire(ctx, 1); err != nil {
		return admin.Detection{}, err
	}
	defer c.pipeline.searching.Release(1)
	return c.operator.detection(ctx, r)
}

// tail reads the journal no faster than yield returns.
func (c *control) tail(ctx context.Context, r admin.TailRequest) error {
	journal := c.pipeline.store
	after, err := catchUp(ctx, journal, c.pipeline.tails, r.From, r.Yield)
	for err == nil {
		if err = journal.Wait(ctx, after); err == nil {
			after, err = c.pipeline.tails.read(ctx, journal, after, r.Yield)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// catchUp yields the events that from selects and then calls from.Live. It returns the
// sequence number after which to go on. If from.Live is nil, it yields nothing.
func catchUp(ctx context.Context, journal *checkpoint.Store, t tails, from admin.From, yield func(transform.Event) error) (uint64, error) {
	after, last, err := before(ctx, journal, from)
	if err != nil || from.Live == nil {
		return after, err
	}
	for after < last {
		at, err := t.read(ctx, journal, after, yield)
		if err != nil {
			return at, err
		}
		if at == after { // the others were trimmed meanwhile
			break
		}
		after = at
	}
	return after, from.Live()
}

// before returns the sequence number preceding the first event that from selects, or
// the journal's last if it selects none; and the journal's last.
func before(ctx context.Context, journal *checkpoint.Store, from admin.From) (after, last uint64, err error) {
	stats, err := journal.Stats(ctx)
	if err == nil && !from.Since.IsZero() {
		first, err := journal.Since(ctx, from.Since)
		return first - 1, stats.Last, err
	}
	return stats.Last - min(from.Last, stats.Last+1-stats.First), stats.Last, err
}

// tailBytes is how much of the journal a tail reads at once. A single event may be larger.
const tailBytes = 1 << 20

// tails limits the memory that all tails of the journal use together. A tail holds the
// events it has read until its consumer has taken them, so only one tail at a time may
// hold more than tailBytes.
type tails struct {
	reading *semaphore.Weighted // of the tail that reads
	large   *semaphore.Weighted // of the tail that holds a large event
}

func newTails() tails { return tails{semaphore.NewWeighted(1), semaphore.NewWeighted(1)} }

// read yields events of the journal after a sequence number, at most one batch, and returns
// the sequence number of the last one. It returns the error of the store, of yield, or of
// ctx.
func (t tails) read(ctx context.Context, journal *checkpoint.Store, after uint64, yield func(transform.Event) error) (uint64, error) {
	records, err := t.fetch(ctx, journal, after)
	if err != nil {
		return after, err
	}
	if size(records) > tailBytes { // read it again under the semaphore
		records = nil
		if err := t.large.Acquire(ctx, 1); err != nil {
			return after, err
		}
		defer t.large.Release(1)
		if records, err = t.fetch(ctx, journal, after); err != nil {
			return after, err
		}
	}
	for _, r := range records {
		if err := ctx.Err(); err != nil {
			return after, err
		}
		if err := yield(r.Event); err != nil {
			return after, err
		}
		after = r.Seq
	}
	return after, nil
}

// fetch reads a batch while no other tail reads.
func (t tails) fetch(ctx context.Context, journal *checkpoint.Store, after uint64) ([]checkpoint.Record, error) {
	if err := t.reading.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer t.reading.Release(1)
	return journal.Read(ctx, after, checkpoint.Batch{MaxEvents: 500, MaxBytes: tailBytes})
}

func size(records []checkpoint.Record) (bytes int) {
	for _, r := range records {
		bytes += len(r.Event.Structured())
	}
	return bytes
}
