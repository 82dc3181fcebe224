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

// inlet lets spans in to the processor while there is space, and counts those for which
// there is none: the processor would drop them without a word.
type inlet struct {
	sdk.SpanProcessor
	out *spanExporter
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (i *inlet) OnEnd(s sdk.ReadOnlySpan) {
	if i.out.waiting.Add(1) > maxQueue {
		i.out.waiting.Add(-1)
		i.out.dropped.Inc()
		return
	}
	i.SpanProcessor.OnEnd(s)
}

// reportEvery is how often failures are told at most.
const reportEvery = time.Minute

// exporter hands spans to an exporter, and tells what becomes of them.
type spanExporter struct {
	exporter sdk.SpanExporter
	secrets  redact.Secrets
	log      *slog.Logger
	now      func() time.Time
	dropped  prometheus.Counter

	// waiting are the spans that were let in and not exported yet; never more than
	// maxQueue.
	waiting atomic.Int64
	given   context.Context // ends with giveUp
	giveUp  context.CancelFunc

	mu       sync.Mutex
	failing  bool      // and it was told
	reported time.Time // when a failure was last told
	lost     int       // spans since then
}

func newExporter(exporter sdk.SpanExporter, o Options) *spanExporter {
	out := &spanExporter{
		exporter: exporter, log: o.Log, now: o.Now,
		secrets: secretsOf(o),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ndrbridge_trace_spans_dropped_total",
			Help: "Spans that never reached the collector: it did not take them, or too many waited for it.",
		}),
	}
	o.Metrics.MustRegister(out.dropped)
	out.given, out.giveUp = context.WithCancel(context.Background())
	return out
}

// ExportSpans implements sdk.SpanExporter. It tells a failure itself, and returns none.
func (o *spanExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.given, cancel)()
	err := o.exporter.ExportSpans(ctx, spans)
	o.waiting.Add(-int64(len(spans)))
	o.report(len(spans), err)
	if err != nil {
		o.dropped.Add(float64(len(spans)))
	}
	return nil
}

// secretsOf are the values of the headers and their words, and the parts of the
// endpoint's path, but for what is too short to be secret.
func secretsOf(o Options) redact.Secrets {
	const shortest = 6
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
	return redact.New(slices.DeleteFunc(parts, func(part string) bool { return len(part) < shortest })...)
}

func (o *spanExporter) report(spans int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		if o.failing {
			o.log.Info("the collector takes spans again")
		}
		o.failing = false
		return
	}
	o.lost += spans
	if now := o.now(); o.reported.IsZero() || now.Sub(o.reported) >= reportEvery {
		o.log.Warn("the collector does not take spans; they are dropped, and nothing else is lost",
			"spans", o.lost, "error", excerpt(o.secrets.Hide(err.Error())))
		o.reported, o.lost, o.failing = now, 0, true
	}
}

// excerpt is the beginning of a text, which may hold a page of HTML.
func excerpt(text string) string {
	const enough = 300
	return strings.ToValidUTF8(text[:min(len(text), enough)], "")
}

// Shutdown implements sdk.SpanExporter.
func (o *spanExporter) Shutdown(ctx context.Context) error {
	defer o.giveUp()
	return o.exporter.Shutdown(ctx)
}
