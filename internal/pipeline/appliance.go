package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
)

// appliancePart is an appliance with its pollers and its writers of commands. Appliances
// share only the state.
type appliancePart struct {
	part
	config  configs.Appliance
	client  *appliance.Client
	watch   *poller.Watch
	system  *system
	streams []stream
	// ownWrites passes to the part that replaces this one, because the pollers have yet
	// to see what was written. It is nil if tickets are disabled, and then there are no writers.
	ownWrites *commands.OwnWrites
	writers   []*commands.Writer
}

// stream is a source with its poller.
type stream struct {
	source poller.Source
	poller *poller.Poller
}

// newAppliance returns the part of an appliance, which replaces previous unless that is nil.
func (p *Pipeline) newAppliance(ctx context.Context, a configs.Appliance, config *configs.Config, previous *appliancePart) (_ *appliancePart, err error) {
	next, log := &appliancePart{config: a}, p.options.Log.With("appliance", a.Name)
	next.client, err = endpoint.NewClient(a, endpoint.ClientOptions{
		Version: p.options.Version, Log: log,
		Lease: p.lease(), Transport: p.options.Transport,
		Observe: func(code string) { p.metrics.requests.WithLabelValues(a.Name, code).Inc() },
	})
	if err != nil {
		return nil, err
	}
	next.close = next.client.Close
	next.system = newSystem(a.Name, next.client, p.store, log)
	next.watch = poller.NewWatch(p.store, poller.WatchOptions{
		Appliance: a.Name, After: a.UnreachableAfter,
		Reached: next.system.reached, Log: log,
	})
	if config.Tickets.Enabled && p.store != nil { // it is nil in a check, which reads no state
		if err := p.buildWriters(ctx, config, next, previous, log); err != nil {
			return nil, err
		}
	}
	s := streams{
		appliance: a,
		client:    next.client.Within(p.options.Pages), store: p.store, metrics: p.metrics.sources, log: p.options.Log,
		ownWrites: next.ownWrites, reused: next.system.reused, replaced: next.system.replaced,
	}
	s.contexts = s.newContexts()
	for _, from := range sourcesOf(config, a) {
		source, optional := from.open(&s), from.verify == nil
		var answered time.Time
		if p.store != nil {
			// An unreadable position is reported by the stream's polls.
			answered, _ = poller.LastAnswer(ctx, p.store, source.Source())
		}
		watch := next.watch
		if optional { // whether it can be read says nothing about the appliance
			watch = nil
		}
		var yield func() bool
		if from.yields {
			detections := next.streams[0].source
			yield = func() bool { return poller.CatchingUp(detections) }
		}
		next.streams = append(next.streams, stream{source, poller.New(source, poller.Options{
			Interval:     time.Duration(from.interval),
			RetryInitial: time.Duration(a.Retry.Initial),
			RetryMax:     time.Duration(a.Retry.Max),
			AuthRetry:    time.Duration(a.AuthRetry),
			Lease:        p.lease(),
			Optional:     optional,
			Yield:        yield,
			LastAnswer:   answered,
			Watch:        watch,
			Log:          s.streamLog(source.Source().Stream),
			Metrics:      p.metrics.sources,
		})})
	}
	next.tasks = []task{prompt(next.watch.Run), prompt(next.system.run)}
	for _, w := range next.writers {
		next.tasks = append(next.tasks, w.Run)
	}
	for _, s := range next.streams {
		next.tasks = append(next.tasks, prompt(s.poller.Run))
	}
	return next, nil
}

// buildWriters sets next's writers of commands. They take over the own writes of previous, which
// may continue to write until next starts.
func (p *Pipeline) buildWriters(ctx context.Context, config *configs.Config, next, previous *appliancePart, log *slog.Logger) (err error) {
	if previous != nil && previous.ownWrites != nil {
		next.ownWrites = previous.ownWrites
	} else if next.ownWrites, err = commands.LoadOwnWrites(ctx, p.store, next.config.Name); err != nil {
		return err
	}
	for _, kind := range kindsOf(config, next.config) {
		next.writers = append(next.writers, commands.NewWriter(next.client, p.store, next.ownWrites, commands.WriterOptions{
			Appliance:    next.config.Name,
			Kind:         kind,
			RetryInitial: time.Duration(next.config.Retry.Initial),
			RetryMax:     time.Duration(next.config.Retry.Max),
			Probe:        time.Duration(next.config.AuthRetry),
			Lease:        p.lease(),
			Log:          log,
			Metrics:      p.metrics.writers[kind],
		}))
	}
	return nil
}

// kinds are the kinds of commands.
var kinds = []commands.Kind{commands.KindTicket, commands.KindRule, commands.KindNote}

// kindsOf returns the kinds of commands that are written to an appliance if tickets are enabled.
func kindsOf(config *configs.Config, a configs.Appliance) []commands.Kind {
	of := []commands.Kind{commands.KindTicket}
	if a.Rules.Write {
		of = append(of, commands.KindRule)
	}
	if config.WritesNotes(a) {
		of = append(of, commands.KindNote)
	}
	return of
}

// writer returns the writer of a kind, or nil.
func (p *appliancePart) writer(kind commands.Kind) *commands.Writer {
	for _, w := range p.writers {
		if w.Kind() == kind {
			return w
		}
	}
	return nil
}

// polls reports whether a stream of the appliance is polled.
func (p *appliancePart) polls(name string) bool {
	return slices.ContainsFunc(p.streams, func(s stream) bool { return s.source.Source().Stream == name })
}
