package tracing

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"ndrbridge/internal/redact"
)

// boundedProcessor passes spans to the processor while it has capacity and counts the
// others, which the processor would drop silently.
type boundedProcessor struct {
	sdk.SpanProcessor
	out *spanExporter
}

// OnEnd implements sdk.SpanProcessor. It does not block.
func (i *boundedProcessor) OnEnd(s sdk.ReadOnlySpan) {
	if i.out.waiting.Add(1) > maxQueue {
		i.out.waiting.Add(-1)
		i.out.dropped.Inc()
		return
	}
	i.SpanProcessor.OnEnd(s)
}

// reportEvery is the minimum interval between logged failures.
const reportEvery = time.Minute

// spanExporter wraps an exporter and logs its failures.
type spanExporter struct {
	exporter sdk.SpanExporter
	secrets  redact.Secrets
	log      *slog.Logger
	now      func() time.Time
	dropped  prometheus.Counter

	// waiting counts the spans accepted and not exported yet, up to maxQueue.
	waiting atomic.Int64
	ctx     context.Context // cancelled by giveUp
	giveUp  context.CancelFunc

	mu       sync.Mutex
	failing  bool      // a failure was logged
	reported time.Time // when a failure was last logged
	lost     int       // spans dropped since then
}

func newSpanExporter(exporter sdk.SpanExporter, o Options) *spanExporter {
	out := &spanExporter{
		exporter: exporter, log: o.Log, now: o.Now,
		secrets: secretsOf(o),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ndrbridge_trace_spans_dropped_total",
			Help: "Spans dropped because the collector did not accept them or too many were waiting.",
		}),
	}
	o.Metrics.MustRegister(out.dropped)
	out.ctx, out.giveUp = context.WithCancel(context.Background())
	return out
}

// ExportSpans implements sdk.SpanExporter. It logs a failure and returns nil.
func (o *spanExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	err := o.exporter.ExportSpans(ctx, spans)
	o.waiting.Add(-int64(len(spans)))
	o.report(len(spans), err)
	if err != nil {
		o.dropped.Add(float64(len(spans)))
	}
	return nil
}

// secretsOf returns the values of the headers and their words, and the segments of the
// endpoint's path, except those too short to be secret.
func secretsOf(o Options) redact.Secrets {
	const minLength = 6
	var parts []string
	if u, err := url.Parse(o.Endpoint); err == nil {
		parts = strings.Split(u.EscapedPath(), "/")
	}
	for name, value := range o.Headers {
		if redact.HarmlessHeader(name) {
			continue
		}
		parts = append(append(parts, value), strings.Fields(value)...)
	}
	return redact.New(slices.DeleteFunc(parts, func(part string) bool { return len(part) < minLength })...)
}

func (o *spanExporter) report(spans int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		if o.failing {
			o.log.Info("the collector accepts spans again")
		}
		o.failing = false
		return
	}
	o.lost += spans
	if now := o.now(); o.reported.IsZero() || now.Sub(o.reported) >= reportEvery {
		o.log.Warn("the collector does not accept spans; they are dropped, events are not affected",
			"spans", o.lost, "error", excerpt(o.secrets.Hide(err.Error())))
		o.reported, o.lost, o.failing = now, 0, true
	}
}

// excerpt returns the beginning of a text, which may be a page of HTML.
func excerpt(text string) string {
	const maxLength = 300
	return strings.ToValidUTF8(text[:min(len(text), maxLength)], "")
}

// Shutdown implements sdk.SpanExporter.
func (o *spanExporter) Shutdown(ctx context.Context) error {
	defer o.giveUp()
	return o.exporter.Shutdown(ctx)
}
