// Package traceparent writes and reads spans as W3C Trace Context's traceparent does
// (version 00, section 3.2): the form in which events and requests carry them.
package traceparent

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// length is that of a traceparent of version 00.
const length = len("00-") + 32 + len("-") + 16 + len("-00")

// Of is the span that ctx is within; empty where there is none, or where it is not
// sampled: nobody could find it.
func Of(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return ""
	}
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String()
}

// Parse reads what Of returned. ok is false for anything that is no traceparent of
// version 00.
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
		return trace.SpanContext{}, false // hex in capitals is none
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true,
	}), true
}
