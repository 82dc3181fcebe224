package sinks

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/traceparent"
	"ndrbridge/transform"
)

// maxLinks bounds the number of links of a delivery's span.
const maxLinks = 32

// startSpan starts the span of one call of Send. The span is the root of a trace of
// its own and links to the polls that returned the events, because a batch combines
// many polls. If none of the polls is traced, the returned span records nothing.
// attempt counts the calls for one batch, from 1.
func (r *Runner) startSpan(ctx context.Context, events []transform.Event, attempt int) (context.Context, trace.Span) {
	var links []trace.Link
	if r.o.Tracer != nil {
		links = linksOf(events)
	}
	if len(links) == 0 {
		return ctx, trace.SpanFromContext(context.Background()) // records nothing
	}
	bytes := 0
	for _, e := range events {
		bytes += len(e.Payload())
	}
	return r.o.Tracer.Start(ctx, "send "+r.o.Name, trace.WithSpanKind(trace.SpanKindClient), trace.WithNewRoot(),
		trace.WithLinks(links...), trace.WithAttributes(r.o.SpanAttributes...), trace.WithAttributes(
			// OpenTelemetry's semantic conventions for messaging (1.43.0), as far as they go.
			attribute.String("messaging.operation.name", "send"),
			attribute.String("messaging.operation.type", "send"),
			attribute.Int("messaging.batch.message_count", len(events)),
			attribute.String("ndrbridge.sink", r.o.Name),
			attribute.Int("ndrbridge.bytes", bytes),
			attribute.Int("ndrbridge.attempt", attempt),
		))
}

// linksOf returns links to the traced polls of events, each once, at most maxLinks.
func linksOf(events []transform.Event) []trace.Link {
	var links []trace.Link
	var seen []string // short: the events of a page are usually contiguous
	for _, e := range events {
		parent := e.TraceParent
		if parent == "" || slices.Contains(seen, parent) {
			continue
		}
		if span, ok := traceparent.Parse(parent); ok {
			links = append(links, trace.Link{SpanContext: span})
		}
		if seen = append(seen, parent); len(seen) == maxLinks {
			break
		}
	}
	return links
}

// endSpan ends the span of a Send of the given number of events, which returned err.
func endSpan(span trace.Span, events int, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if err == nil {
		span.SetAttributes(attribute.String("ndrbridge.outcome", "delivered"))
		return
	}
	class, failed := outcomeOf(err, events)
	span.SetAttributes(
		attribute.String("ndrbridge.outcome", string(class)),
		attribute.Int("ndrbridge.failed_events", failed),
		attribute.String("error.type", string(class)),
	)
	span.SetStatus(codes.Error, err.Error())
}

// outcomeOf returns the most severe class of a failed Send of the given number of
// events, and how many of them failed.
func outcomeOf(err error, events int) (worst failure.Class, failed int) {
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok {
		worst, _ = failure.ClassOf(err)
		return worst, events
	}
	severity := []failure.Class{failure.Rejected, failure.Transient, failure.Throttled, failure.Halted}
	for _, err := range each {
		if err == nil {
			continue
		}
		failed++
		if class, _ := failure.ClassOf(err); slices.Index(severity, class) > slices.Index(severity, worst) {
			worst = class
		}
	}
	return worst, failed
}
