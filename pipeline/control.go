package pipeline

import (
	"context"
	"fmt"
	"io"
	"time"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Control carries out an operator's requests on a running pipeline. It implements
// admin.Control except for Reload, because the process loads the configuration.
type Control struct {
	operator
	pipeline *Pipeline
	all      *runtime
}

// Control returns the control of the pipeline with its current parts, or nil until the
// pipeline is open.
func (p *Pipeline) Control() *Control {
	all := p.current.Load()
	if all == nil {
		return nil
	}
	return &Control{pipeline: p, all: all, operator: operator{
		config: all.config, version: p.version, log: p.log, store: p.store,
		writable: func() (*checkpoint.Store, error) { return p.store, nil },
		client:   func(a configs.Appliance) (*appliance.Client, error) { return all.appliance(a.Name).client, nil },
	}}
}

// Pause implements admin.Control.
func (c *Control) Pause(ctx context.Context, sink string) error { return c.control(ctx, sink, true) }

// Resume implements admin.Control.
func (c *Control) Resume(ctx context.Context, sink string) error { return c.control(ctx, sink, false) }

// control pauses or resumes a sink. It changes the state first: otherwise a runner made
// meanwhile would miss it.
func (c *Control) control(ctx context.Context, sink string, paused bool) error {
	done, apply := "resumed", (*sinks.Runner).Resume
	if paused {
		done, apply = "paused", (*sinks.Runner).Pause
	}
	return c.pipeline.submit(ctx, "a pause or resume of sink "+sink, func(lifetimes) error {
		if err := c.pause(ctx, sink, paused); err != nil {
			return err
		}
		c.log.Info("sink "+done+" on request", "sink", sink)
		if p := c.pipeline.current.Load().sink(sink); p != nil { // it is configured
			apply(p.runner)
		}
		return nil
	})
}

// Backup is operator.Backup limited to one at a time, because each needs disk space for
// a copy.
func (c *Control) Backup(ctx context.Context, w io.Writer) error {
	if !c.pipeline.backingUp.TryLock() {
		return fmt.Errorf("another backup is running; try again when it has ended: %w", admin.ErrBusy)
	}
	defer c.pipeline.backingUp.Unlock()
	return c.operator.Backup(ctx, w)
}

// Verify is operator.Verify limited to one at a time, because each sends an appliance
// many requests.
func (c *Control) Verify(ctx context.Context, name string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	if !c.pipeline.verifying.TryLock() {
		return nil, fmt.Errorf("another verification is running; try again when it has ended: %w", admin.ErrBusy)
	}
	defer c.pipeline.verifying.Unlock()
	return c.operator.Verify(ctx, name, since, report)
}

// Tail implements admin.Control. It reads the journal no faster than yield returns.
func (c *Control) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	after, err := c.before(ctx, from)
	for err == nil {
		if err = c.pipeline.store.Wait(ctx, after); err != nil {
			break
		}
		err = c.pipeline.tails.read(ctx, c.pipeline.store, after, func(e checkpoint.Record) error {
			after = e.Seq
			return yield(e.Event)
		})
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// before returns the sequence number preceding the first event that from selects, or
// the journal's last if it selects none.
func (c *Control) before(ctx context.Context, from admin.From) (uint64, error) {
	if !from.Since.IsZero() {
		first, err := c.pipeline.store.Since(ctx, from.Since)
		return first - 1, err
	}
	stats, err := c.pipeline.store.Stats(ctx)
	return stats.Last - min(from.Last, stats.Last+1-stats.First), err
}

// tailBytes is how much of the journals a tail reads at once; in a cluster, a tail reads
// those of all shards. A single event may be larger.
const tailBytes = 1 << 20

// tails limits the memory that all tails of the journal use together. A tail holds the
// events it has read until its consumer has taken them, so only one tail at a time may
// hold more than tailBytes.
type tails struct {
	reading chan struct{} // semaphore of the tail that reads
	large   chan struct{} // semaphore of the tail that holds a large event
	batch   int           // bytes that a tail reads at once
}

// newTails returns the limits of the tails of a shard, which is nil outside a cluster.
func newTails(s *Shard) tails {
	t := tails{reading: make(chan struct{}, 1), large: make(chan struct{}, 1), batch: tailBytes}
	if s != nil {
		t.batch /= s.Of
	}
	return t
}

// read yields events of the journal after a sequence number, at most one batch. It
// returns the error of the store, of yield, or of ctx.
func (t tails) read(ctx context.Context, journal *checkpoint.Store, after uint64, yield func(checkpoint.Record) error) error {
	records, err := t.fetch(ctx, journal, after)
	if err != nil {
		return err
	}
	if size(records) > tailBytes { // read it again under the semaphore
		records = nil
		if err := acquire(ctx, t.large); err != nil {
			return err
		}
		defer func() { <-t.large }()
		if records, err = t.fetch(ctx, journal, after); err != nil {
			return err
		}
	}
	for _, r := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads a batch while no other tail reads.
func (t tails) fetch(ctx context.Context, journal *checkpoint.Store, after uint64) ([]checkpoint.Record, error) {
	if err := acquire(ctx, t.reading); err != nil {
		return nil, err
	}
	defer func() { <-t.reading }()
	return journal.Read(ctx, after, checkpoint.Batch{MaxEvents: 500, MaxBytes: t.batch})
}

func acquire(ctx context.Context, slot chan struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func size(records []checkpoint.Record) (bytes int) {
	for _, r := range records {
		bytes += len(r.Event.Structured())
	}
	return bytes
}
