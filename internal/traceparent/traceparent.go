// Package traceparent formats and parses span contexts as a W3C Trace Context traceparent
// (version 00, section 3.2), which events and requests carry.
package traceparent

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// length is the length of a traceparent of version 00.
const length = len("00-") + 32 + len("-") + 16 + len("-00")

// Of returns the traceparent of ctx's span, or "" if there is none or it is not
// sampled, since nobody could look it up.
func Of(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return ""
	}
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String()
}

// Parse parses the result of Of. ok is false if text is not a traceparent of version
// 00.
func Parse(text string) (span trace.SpanContext, ok bool) {
	if len(text) != length || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return trace.SpanContext{}, false
	}
	traceID, err := trace.TraceIDFromHex(text[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	spanID, err := trace.SpanIDFromHex(text[36:52])
	if err != nil {
		return trace.SpanContext{}, false
	}
	var flags [1]byte
	if _, err := hex.Decode(flags[:], []byte(text[53:])); err != nil || text[53:] != trace.TraceFlags(flags[0]).String() {
		return trace.SpanContext{}, false // upper-case hex is invalid
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true,
	}), true
}
