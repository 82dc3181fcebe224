package pipeline

import (
	"context"
	"errors"
	"time"

	"ndrbridge/checkpoint"
)

// Run runs the parts until ctx is cancelled or the state becomes unusable, then stops
// them within shutdown_timeout: first the sources, then the sinks, each of which may
// finish its batch in flight. At the end of shutdown_timeout remaining work is cut
// short; anything that still runs shortly after is abandoned. If the state of a cluster
// becomes unusable, most likely because another member owns it now, work is cut short at
// once, also while the parts are being stopped. Once all parts are started, Run calls
// running with the number of streams that are polled and of sinks, as attributes for the log.
func (p *Pipeline) Run(ctx context.Context, running func(attributes ...any)) *Stop {
	ctx, unwatch := p.untilStateFails(ctx)
	defer unwatch()
	all := p.current.Load()
	p.start(ctx, all.parts())
	p.parts.start(ctx, &part{name: "the monitor of the journal", tasks: []task{prompt(p.watchSpace), prompt(p.keepHistory), prompt(p.watchHalts)}})
	if owned := p.options.Ownership; owned != nil && owned.Snapshots != nil {
		snapshots := func(ctx context.Context) { owned.Snapshots(ctx, p.store) }
		p.parts.start(ctx, &part{name: "the snapshots of the state", tasks: []task{prompt(snapshots)}})
	}
	if owned := p.options.Ownership; owned != nil && owned.Archives != nil {
		archives := func(ctx context.Context) { owned.Archives(ctx, p.archive) }
		p.parts.start(ctx, &part{name: "the archives of the state", tasks: []task{prompt(archives)}})
	}
	streams := 0
	for _, a := range all.appliances {
		streams += len(a.streams)
	}
	running("streams", streams, "sinks", len(all.sinks))

	p.turn <- ctx
	<-ctx.Done()
	timeout := time.Duration(p.Config().ShutdownTimeout)
	if p.options.Ownership != nil && p.Err() != nil {
		timeout = 0
	}
	s := NewStop(timeout)
	p.options.Log.Info("stopping; batches in flight are finished first", "shutdown_timeout", timeout)
	if !p.awaitChange(s.half()) {
		s.Left = append(s.Left, "a reload or another change of the parts")
	}
	s.Left = append(s.Left, sortedNames(stopParts(context.WithoutCancel(ctx), p.parts.all(), s))...)
	return s
}

// untilStateFails returns a context that is cancelled with ctx or when the state
// becomes unusable: from then on deliveries could not be recorded. The caller must call
// stop once nothing runs any more.
func (p *Pipeline) untilStateFails(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.store.Failed(): // also while the parts are being stopped
			p.reportFailure()
			if l := p.lease(); l != nil {
				l.End()
			}
			cancel()
		case <-stopped:
		}
	}()
	return ctx, func() {
		cancel()
		close(stopped)
		<-done
	}
}

// reportFailure logs that the state is unusable.
func (p *Pipeline) reportFailure() {
	switch err := p.store.Err(); {
	case p.options.Ownership == nil:
		p.options.Log.Error("the state is unusable; the bridge stops", "error", err)
	case errors.Is(err, checkpoint.ErrNotOwner):
		p.options.Log.Warn("another member is the owner now; this one stops its work at once", "error", err)
	default:
		p.options.Log.Error("the state is unusable; this member stops its work at once", "error", err)
	}
}
