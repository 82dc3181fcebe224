package traceparent_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/internal/traceparent"
)

const example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"the example of the recommendation is read", example, true},
		{"one that is not sampled is read", example[:len(example)-1] + "0", true},
		{"nothing is none", "", false},
		{"another version is none", "01" + example[2:], false},
		{"a trace of zeros is none", "00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
		{"a span of zeros is none", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		{"capitals are none", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false},
		{"flags in capitals are none", example[:len(example)-2] + "0A", false},
		{"what has more behind it is none", example + "-x", false},
		{"what has other marks between its parts is none", "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			span, ok := traceparent.Parse(c.text)
			if ok != c.ok || ok != span.IsValid() {
				t.Errorf("%q: %v, valid %v; want %v", c.text, ok, span.IsValid(), c.ok)
			}
		})
	}
}

func TestOf(t *testing.T) {
	sampled, ok := traceparent.Parse(example)
	if !ok {
		t.Fatal("the example is not read")
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"outside of spans there is none", t.Context(), ""},
		{"a sampled span is written as it was read", trace.ContextWithSpanContext(t.Context(), sampled), example},
		{"a span that nobody records is not written", trace.ContextWithSpanContext(t.Context(), sampled.WithTraceFlags(0)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := traceparent.Of(c.ctx); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	t.Run("where nothing is traced it costs nothing", func(t *testing.T) {
		ctx := t.Context()
		if n := testing.AllocsPerRun(100, func() { traceparent.Of(ctx) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// What is read is what OpenTelemetry's own propagator reads, and is written as it was.
func FuzzParse(f *testing.F) {
	for _, text := range []string{example, "", "00-", example[:54] + "3", "00-" + example} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		span, ok := traceparent.Parse(text)
		if !ok {
			return
		}
		if span.IsSampled() {
			if again := traceparent.Of(trace.ContextWithSpanContext(t.Context(), span)); again != text {
				t.Errorf("%q was written as %q", text, again)
			}
		}
		read := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": text}))
		if span.TraceFlags() <= trace.FlagsSampled && !read.Equal(span) {
			t.Errorf("%q: the propagator reads %v", text, read)
		}
	})
}
