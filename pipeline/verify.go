package pipeline

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/poller"
)

// Verify compares what an appliance shows since a time with what was journalled, stream
// by stream.
func (p *operator) Verify(ctx context.Context, name string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	a, err := p.appliance(name)
	if err != nil {
		return nil, err
	}
	client, err := p.client(a)
	if err != nil {
		return nil, err
	}
	s := streams{
		appliance: a, prefix: p.config.Events.TypePrefix, client: client.Background(), store: p.store,
		metrics: poller.NewMetrics(prometheus.NewRegistry()), log: p.log,
	}
	var all []poller.Verification
	if a.Detections.Enabled {
		o, err := s.detections()
		if err != nil {
			return all, err
		}
		v, err := poller.VerifyDetections(ctx, s.client, s.store, o, since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	if a.Audit.Enabled {
		v, err := poller.VerifyAudit(ctx, s.client, s.store, s.audit(), since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	for _, q := range a.Records {
		o, err := s.records(q)
		if err != nil {
			return all, err
		}
		v, err := poller.VerifyRecords(ctx, s.client, s.store, p.store, o, since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}
