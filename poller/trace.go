package poller

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/checkpoint"
)

// poll polls the source once, within a span.
func (p *Poller) poll(ctx context.Context) (Next, error) {
	if p.o.Tracer == nil {
		return p.source.Poll(ctx)
	}
	source := p.source.Source()
	kind, _, _ := strings.Cut(source.Stream, "/")
	ctx, span := p.o.Tracer.Start(ctx, "poll "+kind, trace.WithAttributes(attributesOf(source)...))
	defer span.End()
	next, err := p.source.Poll(ctx)
	if err != nil && ctx.Err() == nil { // a cancelled poll has not failed
		span.SetAttributes(attribute.String("error.type", classOf(err)))
		span.SetStatus(codes.Error, err.Error())
	}
	return next, err
}

func attributesOf(s checkpoint.Source) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("ndrbridge.appliance", s.Appliance),
		attribute.String("ndrbridge.stream", s.Stream),
	}
}

// tracedStore creates a span for every commit.
type tracedStore struct {
	Store
	tracer trace.Tracer
}

// Traced returns a store that creates a span for every commit, as a child of the poll that
// commits; it returns store itself if tracer is nil.
func Traced(store Store, tracer trace.Tracer) Store {
	if tracer == nil {
		return store
	}
	return &tracedStore{store, tracer}
}

// Commit implements Store.
func (s *tracedStore) Commit(ctx context.Context, c checkpoint.Commit) error {
	ctx, span := s.tracer.Start(ctx, "commit", trace.WithAttributes(attributesOf(c.Source)...), trace.WithAttributes(
		attribute.Int("ndrbridge.events", len(c.Events)),
		attribute.Int("ndrbridge.dead_letters", len(c.Dead)),
	))
	defer span.End()
	err := s.Store.Commit(ctx, c)
	if err != nil && ctx.Err() == nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
