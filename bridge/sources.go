package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
	"ndrbridge/pipeline/identity"
	"ndrbridge/poller"
	"ndrbridge/tickets"
)

// appliancePart is an appliance with its pollers and its ticket writer. Appliances
// share only the state.
type appliancePart struct {
	config      configs.Appliance
	fingerprint fingerprint
	client      *appliance.Client
	watch       *poller.Watch
	firmware    *firmware
	streams     []stream
	// ownWrites passes to the part that replaces this one, because the pollers have yet
	// to see what was written. ownWrites and writer are nil if tickets are disabled.
	ownWrites *tickets.OwnWrites
	writer    *tickets.Writer
}

// stream is a source with its poller.
type stream struct {
	source poller.Source
	poller *poller.Poller
}

// buildAppliance returns current if its configuration is unchanged, or a new part that
// replaces it.
func (b *Bridge) buildAppliance(ctx context.Context, a configs.Appliance, config *configs.Config, current *appliancePart) (*appliancePart, error) {
	var files []string
	if a.TLS.CAFile != "" {
		files = append(files, a.TLS.CAFile) // the others are read again on each use
	}
	fp, err := newFingerprint(files, a, config.Events.TypePrefix, config.Tickets.Enabled)
	if err != nil {
		return nil, err
	}
	if current != nil && current.fingerprint.equal(fp) {
		return current, nil
	}
	p := &appliancePart{config: a, fingerprint: fp}
	tracer := b.tracer()
	p.client, err = endpoint.NewClient(a, endpoint.ClientOptions{
		Version: b.version, Tracer: tracer, Log: b.log.With("appliance", a.Name),
		Observe: func(code string) { b.metrics.requests.WithLabelValues(a.Name, code).Inc() },
	})
	if err != nil {
		return nil, err
	}
	p.firmware = newFirmware(p.client, b.log.With("appliance", a.Name))
	known := identity.NewDetector(a.Name, b.store, b.log.With("appliance", a.Name))
	p.firmware.system = known.Observe
	p.watch = poller.NewWatch(b.store, poller.WatchOptions{
		Appliance: a.Name, After: a.UnreachableAfter, TypePrefix: config.Events.TypePrefix,
		Reached: p.firmware.reached, Now: time.Now, Log: b.log.With("appliance", a.Name),
	})
	if config.Tickets.Enabled && b.store != nil { // it is nil in a check, which reads no state
		if err := b.buildWriter(ctx, p, config, current); err != nil {
			return nil, err
		}
	}
	s := streams{
		appliance: a, prefix: config.Events.TypePrefix,
		client: p.client.Within(b.pages), store: poller.Traced(b.store, tracer), metrics: b.metrics.sources, log: b.log,
		ownWrites: p.ownWrites, reused: known.Reused,
	}
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		p.streams = append(p.streams, stream{source.Source, poller.New(source.Source, poller.Options{
			Interval:     time.Duration(source.interval),
			RetryInitial: time.Duration(a.Retry.Initial),
			RetryMax:     time.Duration(a.Retry.Max),
			AuthRetry:    time.Duration(a.AuthRetry),
			Tracer:       tracer,
			Watch:        p.watch,
			Log:          s.streamLog(source.Source.Source().Stream),
			Metrics:      b.metrics.sources,
		})})
	}
	return p, nil
}

func (p *appliancePart) name() string { return "appliance " + p.config.Name }

func (p *appliancePart) start(ctx context.Context, ps *parts) {
	tasks := []task{prompt(p.watch.Run), prompt(p.firmware.run)}
	if p.writer != nil {
		tasks = append(tasks, p.writer.Run)
	}
	for _, s := range p.streams {
		tasks = append(tasks, prompt(s.poller.Run))
	}
	ps.start(ctx, p.name(), sourcePhase, tasks...)
}

// has reports whether a stream of the appliance is polled.
func (p *appliancePart) has(stream string) bool {
	for _, s := range p.streams {
		if s.source.Source().Stream == stream {
			return true
		}
	}
	return false
}

// streams makes the sources of one appliance.
type streams struct {
	appliance configs.Appliance
	prefix    string
	client    *appliance.Client
	store     checkpoint.Sources
	metrics   *poller.Metrics
	ownWrites *tickets.OwnWrites // nil if tickets are disabled
	reused    func(context.Context, poller.ReusedID) error
	log       *slog.Logger
}

// source is a polled source with its interval.
type source struct {
	poller.Source
	interval configs.Duration // between polls while idle
}

func (s *streams) sources() ([]source, error) {
	var all []source
	if d := s.appliance.Detections; d.Enabled {
		o, err := s.detections()
		if err != nil {
			return nil, err
		}
		all = append(all, source{poller.NewDetections(s.client, s.store, o), d.Interval})
	}
	// Requests for detections take precedence under the rate limit.
	background := s.client.Background()
	if a := s.appliance.Audit; a.Enabled {
		all = append(all, source{poller.NewAudit(background, s.store, s.audit()), a.Interval})
	}
	for _, q := range s.appliance.Records {
		o, err := s.records(q)
		if err != nil {
			return nil, fmt.Errorf("records %s: %w", q.Name, err)
		}
		all = append(all, source{poller.NewRecords(background, s.store, o), q.Interval})
	}
	return all, nil
}

func (s *streams) streamLog(stream string) *slog.Logger {
	return s.log.With("appliance", s.appliance.Name, "stream", stream)
}

func (s *streams) detections() (poller.DetectionsOptions, error) {
	d := s.appliance.Detections
	filter, err := endpoint.Filter(d.Filter)
	if err != nil {
		return poller.DetectionsOptions{}, fmt.Errorf("detections.filter: %w", err)
	}
	o := poller.DetectionsOptions{
		Appliance: s.appliance.Name, URL: s.appliance.URL, Filter: filter,
		Start:          d.Start.At,
		Overlap:        time.Duration(d.Overlap),
		PageSize:       d.PageSize,
		ReconcileEvery: time.Duration(d.Reconcile.Every),
		ReconcileBack:  time.Duration(d.Reconcile.Back),
		ForgetAfter:    time.Duration(d.ForgetAfter),
		Enrich:         s.enrich(),
		Reused:         s.reused,
		TypePrefix:     s.prefix,
		Now:            time.Now,
		Log:            s.streamLog("detections"),
		Metrics:        s.metrics,
	}
	if s.ownWrites != nil {
		o.OwnWrites = s.ownWrites
	}
	return o, nil
}

func (s *streams) audit() poller.AuditOptions {
	a := s.appliance.Audit
	return poller.AuditOptions{
		Appliance: s.appliance.Name, URL: s.appliance.URL,
		Start:      a.Start.At,
		PageSize:   a.PageSize,
		TypePrefix: s.prefix,
		Now:        time.Now,
		Log:        s.streamLog("audit"),
		Metrics:    s.metrics,
	}
}

func (s *streams) records(q configs.RecordQuery) (poller.RecordsOptions, error) {
	filter, err := endpoint.Filter(q.Filter)
	if err != nil {
		return poller.RecordsOptions{}, fmt.Errorf("filter: %w", err)
	}
	return poller.RecordsOptions{
		Appliance: s.appliance.Name, URL: s.appliance.URL,
		Query: q.Name, Types: q.Types, Filter: filter,
		Start:            q.Start.At,
		Window:           time.Duration(q.Window),
		Delay:            time.Duration(q.Delay),
		Recheck:          time.Duration(q.Recheck),
		ContextTTL:       time.Duration(q.ContextTTL),
		PageSize:         q.PageSize,
		MaxWindowRecords: q.MaxWindowRecords,
		Store:            poller.RecordStore(q.Store),
		TypePrefix:       s.prefix,
		Now:              time.Now,
		Log:              s.streamLog("records/" + q.Name),
		Metrics:          s.metrics,
	}, nil
}
