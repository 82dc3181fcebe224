package pipeline

import (
	"context"
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

// source is a stream of an appliance that is polled.
type source struct {
	stream   string
	interval configs.Duration // between polls while idle
	open     func(*streams) poller.Source
	// verify compares the appliance since a time with the journal; nil for what is read beside the
	// streams.
	verify func(ctx context.Context, s *streams, since time.Time, report poller.VerifyReport) (poller.Verification, error)
	// yields means that polls wait while the detections are catching up.
	yields bool
}

// sourcesOf returns the streams of an appliance that are configured, and what is read beside them, in
// the order in which they are shown. Requests for detections take precedence under the rate limit.
func sourcesOf(config *configs.Config, a configs.Appliance) (all []source) {
	if a.Detections.Enabled {
		all = append(all, source{
			stream: transform.StreamDetections, interval: a.Detections.Interval,
			open: func(s *streams) poller.Source { return poller.NewDetections(s.client, s.store, s.detections()) },
			verify: func(ctx context.Context, s *streams, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyDetections(ctx, s.client, s.store, s.detections(), since, report)
			},
		})
	}
	if a.Audit.Enabled {
		all = append(all, source{
			stream: transform.StreamAudit, interval: a.Audit.Interval,
			open: func(s *streams) poller.Source { return poller.NewAudit(s.client.Background(), s.store, s.audit()) },
			verify: func(ctx context.Context, s *streams, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyAudit(ctx, s.client.Background(), s.store, s.audit(), since, report)
			},
		})
	}
	for _, q := range a.Records {
		all = append(all, source{
			stream: transform.StreamRecords + "/" + q.Name, interval: q.Interval,
			open: func(s *streams) poller.Source { return poller.NewRecords(s.client.Background(), s.store, s.records(q)) },
			verify: func(ctx context.Context, s *streams, since time.Time, report poller.VerifyReport) (poller.Verification, error) {
				return poller.VerifyRecords(ctx, s.client.Background(), s.store, s.store, s.records(q), since, report)
			},
		})
	}
	return append(all, followUpsOf(config, a)...)
}

// StreamsOf returns the names of the streams that an appliance of config is polled for.
func StreamsOf(config *configs.Config, a configs.Appliance) (names []string) {
	for _, s := range sourcesOf(config, a) {
		names = append(names, s.stream)
	}
	return names
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

func (s *streams) detections() poller.DetectionsOptions {
	d := s.appliance.Detections
	o := poller.DetectionsOptions{
		StreamOptions:  s.options("detections", d.Start, d.PageSize),
		Filter:         endpoint.Filter(d.Filter),
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
	return o
}

// lifecycle returns the source that looks for detections that are no longer shown.
func (s *streams) lifecycle() poller.Source {
	o := s.detections()
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

func (s *streams) records(q configs.RecordQuery) poller.RecordsOptions {
	return poller.RecordsOptions{
		StreamOptions: s.options("records/"+q.Name, q.Start, q.PageSize),
		Query:         q.Name, Types: q.Types, Filter: endpoint.Filter(q.Filter),
		Window:           time.Duration(q.Window),
		Delay:            time.Duration(q.Delay),
		Recheck:          time.Duration(q.Recheck),
		ContextTTL:       time.Duration(q.ContextTTL),
		MaxWindowRecords: q.MaxWindowRecords,
		Store:            poller.RecordStore(q.Store),
	}
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
	for _, source := range sourcesOf(p.config, a) {
		if source.verify == nil {
			continue
		}
		v, err := source.verify(ctx, &s, r.Since, r.Report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}
