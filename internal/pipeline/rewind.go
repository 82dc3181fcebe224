package pipeline

import (
	"context"
	"errors"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// countTimeout is how long the appliance is asked for what a rewind would read again.
const countTimeout = 15 * time.Second

// PlanRewind returns what Rewind would do. It returns admin.ErrUnknown if the appliance has
// no such stream.
func (p *operator) PlanRewind(ctx context.Context, source checkpoint.Source, to time.Time) (admin.RewindPlan, error) {
	a, err := p.polled(source)
	if err != nil {
		return admin.RewindPlan{}, err
	}
	plan := admin.RewindPlan{Sinks: []string{}}
	for _, s := range p.config.Sinks {
		plan.Sinks = append(plan.Sinks, s.Name)
	}
	if plan.Position, err = poller.ReadUpTo(ctx, p.store, source); err != nil {
		return admin.RewindPlan{}, err
	}
	s, err := p.streams(a)
	if err != nil {
		return admin.RewindPlan{}, err
	}
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n, err := s.reread(counting, source.Stream, to)
	switch {
	case errors.Is(err, poller.ErrNoPosition):
		return admin.RewindPlan{}, err
	case ctx.Err() != nil:
		return admin.RewindPlan{}, ctx.Err()
	case counting.Err() != nil:
		plan.Error = "the appliance has not returned all of them within " + countTimeout.String()
	case err != nil:
		plan.Error = err.Error()
	}
	if err == nil || n.Objects > 0 {
		plan.Objects, plan.AtLeast = &n.Objects, n.AtLeast
	}
	return plan, nil
}

// reread counts what a stream would read again after a rewind to a time.
func (s *streams) reread(ctx context.Context, stream string, to time.Time) (poller.Reread, error) {
	switch stream {
	case transform.StreamDetections:
		o, err := s.detections()
		if err != nil {
			return poller.Reread{}, err
		}
		return poller.RereadDetections(ctx, s.client, s.store, o, to)
	case transform.StreamAudit:
		return poller.RereadAudit(ctx, s.client, s.store, s.audit(), to)
	}
	for _, q := range s.appliance.Records {
		if strings.TrimPrefix(stream, transform.StreamRecords+"/") == q.Name {
			o, err := s.records(q)
			if err != nil {
				return poller.Reread{}, err
			}
			return poller.RereadRecords(ctx, s.client, s.store, o, to)
		}
	}
	return poller.Reread{}, errors.New("the appliance has no stream " + stream)
}
