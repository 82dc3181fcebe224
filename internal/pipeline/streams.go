package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// streams makes the sources of one appliance.
type streams struct {
	appliance configs.Appliance
	client    *appliance.Client
	store     *checkpoint.Store
	metrics   *poller.Metrics
	ownWrites *commands.OwnWrites // nil if tickets are disabled
	contexts  *poller.Contexts    // nil if they are disabled
	reused    func(context.Context, poller.ReusedID) error
	replaced  func(context.Context) (bool, error)
	log       *slog.Logger
}

// source is a stream that is polled, and can be verified unless it is optional.
type source struct {
	interval configs.Duration // between polls while idle
	open     func() poller.Source
	// optional is poller.Options.Optional.
	optional bool
	// yields means that polls wait while the detections are catching up.
	yields bool
	// verify compares the appliance since a time with the journal; nil if optional is set.
	verify func(ctx context.Context, since time.Time, report poller.VerifyReport) (poller.Verification, error)
}

func (s *streams) sources() ([]source, error) {
	var all []source
	if d := s.appliance.Detections; d.Enabled {
		o, err := s.detections()
		if err != nil {
			return nil, err
		}
		all = append(all, source{
			interval: d.Interval, open: func() poller.Source { return poller.NewDetections(s.client, s.store, o) },
			verify: func(ctx context.Context, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyDetections(ctx, s.client, s.store, o, since, report)
			},
		})
	}
	// Requests for detections take precedence under the rate limit.
	background := s.client.Background()
	if a := s.appliance.Audit; a.Enabled {
		o := s.audit()
		all = append(all, source{
			interval: a.Interval, open: func() poller.Source { return poller.NewAudit(background, s.store, o) },
			verify: func(ctx context.Context, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyAudit(ctx, background, s.store, o, since, report)
			},
		})
	}
	for _, q := range s.appliance.Records {
		o, err := s.records(q)
		if err != nil {
			return nil, fmt.Errorf("records %s: %w", q.Name, err)
		}
		all = append(all, source{
			interval: q.Interval, open: func() poller.Source { return poller.NewRecords(background, s.store, o) },
			verify: func(ctx context.Context, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyRecords(ctx, background, s.store, s.store, o, since, report)
			},
		})
	}
	return append(all, s.followUps()...), nil
}

func (s *streams) streamLog(stream string) *slog.Logger {
	return s.log.With("appliance", s.appliance.Name, "stream", stream)
}

func (s *streams) options(stream string, start configs.Start, pageSize int) poller.StreamOptions {
	return poller.StreamOptions{
		Appliance: s.appliance.Name, URL: s.appliance.URL, Start: start.At, PageSize: pageSize,
		Now: time.Now, Log: s.streamLog(stream), Metrics: s.metrics,
	}
}

func (s *streams) detections() (poller.DetectionsOptions, error) {
	d := s.appliance.Detections
	filter, err := endpoint.Filter(d.Filter)
	if err != nil {
		return poller.DetectionsOptions{}, fmt.Errorf("detections.filter: %w", err)
	}
	o := poller.DetectionsOptions{
		StreamOptions:  s.options("detections", d.Start, d.PageSize),
		Filter:         filter,
		Overlap:        time.Duration(d.Overlap),
		ReconcileEvery: time.Duration(d.Reconcile.Every),
		ReconcileBack:  time.Duration(d.Reconcile.Back),
		ForgetAfter:    time.Duration(d.ForgetAfter),
		Enrich:         s.enrich(),
		Contexts:       s.contexts,
		Reused:         s.reused,
	}
	if s.ownWrites != nil {
		o.OwnWrites = s.ownWrites
	}
	return o, nil
}

// lifecycle returns the source that looks for detections that are no longer shown.
func (s *streams) lifecycle() poller.Source {
	o, err := s.detections()
	if err != nil {
		panic(err) // sources has returned it
	}
	o.Log = s.streamLog(poller.StreamLifecycle)
	return poller.NewLifecycle(s.client, s.store, poller.LifecycleOptions{
		DetectionsOptions: o, Report: s.appliance.Detections.Reconcile.Report, Replaced: s.replaced,
	})
}

func (s *streams) audit() poller.AuditOptions {
	a := s.appliance.Audit
	return poller.AuditOptions{
		StreamOptions:  s.options("audit", a.Start, a.PageSize),
		ReconcileEvery: time.Duration(a.Reconcile.Every),
		ReconcileBack:  time.Duration(a.Reconcile.Back),
	}
}

func (s *streams) records(q configs.RecordQuery) (poller.RecordsOptions, error) {
	filter, err := endpoint.Filter(q.Filter)
	if err != nil {
		return poller.RecordsOptions{}, fmt.Errorf("filter: %w", err)
	}
	return poller.RecordsOptions{
		StreamOptions: s.options("records/"+q.Name, q.Start, q.PageSize),
		Query:         q.Name, Types: q.Types, Filter: filter,
		Window:           time.Duration(q.Window),
		Delay:            time.Duration(q.Delay),
		Recheck:          time.Duration(q.Recheck),
		ContextTTL:       time.Duration(q.ContextTTL),
		MaxWindowRecords: q.MaxWindowRecords,
		Store:            poller.RecordStore(q.Store),
	}, nil
}

// enrich returns the function that enriches detections, or nil if no enrichment is
// configured.
func (s *streams) enrich() func(context.Context, []transform.Detection) []transform.Enrichment {
	parts := s.appliance.Detections.Enrich
	if len(parts) == 0 {
		return nil
	}
	return poller.NewEnricher(s.client, poller.EnrichOptions{
		Devices: slices.Contains(parts, "devices"),
		Format:  slices.Contains(parts, "format"),
		Link:    slices.Contains(parts, "link"),
		URL:     s.appliance.URL,
		Product: s.appliance.Product,
		Log:     s.streamLog("detections"),
	}).Enrich
}

// verify compares an appliance since a time with the journal, stream by stream.
func (p *operator) verify(ctx context.Context, r admin.VerifyRequest) (all []poller.Verification, err error) {
	a, err := p.appliance(r.Appliance)
	if err != nil {
		return nil, err
	}
	client, err := p.client(a)
	if err != nil {
		return nil, err
	}
	s := streams{
		appliance: a, client: client.Background(), store: p.store,
		metrics: poller.NewMetrics(prometheus.NewRegistry()), log: p.log,
	}
	sources, err := s.sources()
	for _, source := range sources {
		if source.verify == nil {
			continue
		}
		v, err := source.verify(ctx, r.Since, r.Report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, err
}
