// Package tracing sends spans to a collector by OpenTelemetry's protocol over HTTP
// (OTLP/HTTP, protobuf). Nobody waits for it: what the collector does not take in time
// is dropped and counted.
package tracing

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans go. Beside them no variable OTEL_EXPORTER_OTLP_…,
// OTEL_TRACES_… or OTEL_BSP_… counts; the library adds what OTEL_RESOURCE_ATTRIBUTES
// says to the resource, though, and cuts spans as OTEL_SPAN_… and OTEL_ATTRIBUTE_… say.
type Options struct {
	// Endpoint is an http or https URL without user info, query or fragment, to whose
	// path /v1/traces is added.
	Endpoint string
	// Headers go with every request. Their values are taken for secrets.
	Headers map[string]string
	// Sample is the share of traces that are recorded, 0 to 1. A trace that begins with
	// links, as a delivery does, is recorded where a span that it is linked to is.
	Sample float64
	// TLS is how the collector is checked; nil: Go's defaults.
	TLS *tls.Config
	// Version is that of the service.
	Version string
	Log     *slog.Logger
	Now     func() time.Time // of the log's pace
	// Metrics is where ndrbridge_trace_spans_dropped_total is registered.
	Metrics prometheus.Registerer
}

const (
	// maxQueue bounds the spans that wait to be sent, and those under way.
	maxQueue = 4096
	maxBatch = 512
	// delay is how long a span waits for others at most.
	delay = 2 * time.Second
	// timeout bounds one request to the collector. What it did not take is not sent
	// again: those who wait for their turn matter as much.
	timeout = 5 * time.Second
)

// Tracing is what sends spans.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter *spanExporter
	client   *http.Transport
}

// New returns a Tracing, whose Close is to be called. It contacts nobody.
func New(o Options) (*Tracing, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS.Clone()
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport, Timeout: timeout,
			// Headers are for nobody but the collector.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		// Without these, variables of the environment would count.
		otlptracehttp.WithTLSClientConfig(nil),
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTimeout(timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of spans: %w", err)
	}
	identity, err := identityOf(o.Version)
	if err != nil {
		return nil, err
	}
	out := newExporter(exporter, o)
	processor := sdk.NewBatchSpanProcessor(out,
		sdk.WithMaxQueueSize(maxQueue), sdk.WithMaxExportBatchSize(maxBatch),
		sdk.WithBatchTimeout(delay), sdk.WithExportTimeout(timeout))
	return &Tracing{
		provider: sdk.NewTracerProvider(
			sdk.WithSampler(sampler{sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))}),
			sdk.WithResource(identity),
			sdk.WithSpanProcessor(&inlet{processor, out}),
		),
		exporter: out, client: transport,
	}, nil
}

// identityOf is what tells the service's spans from those of others.
func identityOf(version string) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", "ndrbridge"),
		attribute.String("service.version", version),
	}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, attribute.String("host.name", host))
	}
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(attributes...))
	if err != nil {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	return r, nil
}

// Tracer makes the bridge's spans.
func (t *Tracing) Tracer() trace.Tracer { return t.provider.Tracer("ndrbridge") }

// Close sends what is left, until ctx ends: what is left then is dropped. No span may
// end afterwards.
func (t *Tracing) Close(ctx context.Context) error {
	defer t.client.CloseIdleConnections()
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	// The end of ctx ends the requests, and with them this, which has to be waited for.
	if err := t.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// sampler records what is linked to what is recorded, and of all else a share.
type sampler struct{ sdk.Sampler }

// ShouldSample implements sdk.Sampler.
func (s sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdk.AlwaysSample().ShouldSample(p)
		}
	}
	return s.Sampler.ShouldSample(p)
}
