package bridge

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
	"ndrbridge/transform"
)

// live implements admin.Control for a running bridge.
type live struct {
	operator
	bridge *Bridge
	all    *runtime
}

var _ admin.Control = (*live)(nil)

// control returns the admin.Control of the bridge, or nil until the state is open.
func (b *Bridge) control() admin.Control {
	all := b.current.Load()
	if all == nil {
		return nil
	}
	return &live{bridge: b, all: all, operator: operator{
		config: all.config, version: b.version, log: b.log,
		state:  func(access) (*checkpoint.Store, error) { return b.store, nil },
		client: func(a configs.Appliance) (*appliance.Client, error) { return all.appliance(a.Name).client, nil },
	}}
}

// Pause implements admin.Control.
func (l *live) Pause(ctx context.Context, sink string) error { return l.control(ctx, sink, true) }

// Resume implements admin.Control.
func (l *live) Resume(ctx context.Context, sink string) error { return l.control(ctx, sink, false) }

// control pauses or resumes a sink. It changes the state first: otherwise a runner made
// meanwhile would miss it.
func (l *live) control(ctx context.Context, sink string, paused bool) error {
	return l.bridge.submit(ctx, "a pause or resume of sink "+sink, func(lifetimes) error {
		if err := l.pause(ctx, sink, paused); err != nil {
			return err
		}
		if paused {
			l.log.Info("sink paused on request", "sink", sink)
		} else {
			l.log.Info("sink resumed on request", "sink", sink)
		}
		p := l.bridge.current.Load().sink(sink)
		switch {
		case p == nil: // it is not configured
		case paused:
			p.runner.Pause()
		default:
			p.runner.Resume()
		}
		return nil
	})
}

// Reload implements admin.Control.
func (l *live) Reload(ctx context.Context) (admin.Reloaded, error) { return l.bridge.Reload(ctx) }

// Backup is operator.Backup limited to one at a time, because each needs disk space for
// a copy.
func (l *live) Backup(ctx context.Context, w io.Writer) error {
	if !l.bridge.backingUp.TryLock() {
		return fmt.Errorf("another backup is running; try again when it has ended: %w", admin.ErrBusy)
	}
	defer l.bridge.backingUp.Unlock()
	return l.operator.Backup(ctx, w)
}

// Verify is operator.Verify limited to one at a time, because each sends an appliance
// many requests.
func (l *live) Verify(ctx context.Context, name string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	if !l.bridge.verifying.TryLock() {
		return nil, fmt.Errorf("another verification is running; try again when it has ended: %w", admin.ErrBusy)
	}
	defer l.bridge.verifying.Unlock()
	return l.operator.Verify(ctx, name, since, report)
}

// Tail implements admin.Control. It reads the journal no faster than yield returns.
func (l *live) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	after, err := l.before(ctx, from)
	for err == nil {
		if err = l.bridge.store.Wait(ctx, after); err != nil {
			break
		}
		err = l.bridge.tails.read(ctx, l.bridge.store, after, func(e checkpoint.Record) error {
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
func (l *live) before(ctx context.Context, from admin.From) (uint64, error) {
	if !from.Since.IsZero() {
		first, err := l.bridge.store.Since(ctx, from.Since)
		return first - 1, err
	}
	stats, err := l.bridge.store.Stats(ctx)
	return stats.Last - min(from.Last, stats.Last+1-stats.First), err
}
