// Package tracing exports spans to a collector by OpenTelemetry's protocol over HTTP
// (OTLP/HTTP, protobuf). It never blocks: spans that the collector does not accept in
// time are dropped and counted.
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

// Options configure a Tracing. The environment variables OTEL_EXPORTER_OTLP_…,
// OTEL_TRACES_… and OTEL_BSP_… have no effect; the library does apply
// OTEL_RESOURCE_ATTRIBUTES to the resource, and the limits OTEL_SPAN_… and
// OTEL_ATTRIBUTE_… to spans.
type Options struct {
	// Endpoint is an http or https URL without user info, query or fragment. /v1/traces
	// is appended to its path.
	Endpoint string
	// Headers are sent with every request. Their values are treated as secrets.
	Headers map[string]string
	// Sample is the share of traces that are recorded, 0 to 1. A trace that begins with
	// links, such as a delivery, is recorded if one of the linked spans is.
	Sample float64
	// TLS is used to verify the collector; nil means Go's defaults.
	TLS *tls.Config
	// Version is the service's version.
	Version string
	Log     *slog.Logger
	Now     func() time.Time // for the interval between log messages
	// Metrics is where ndrbridge_trace_spans_dropped_total is registered.
	Metrics prometheus.Registerer
}

const (
	// maxQueue limits the spans that are waiting or being sent.
	maxQueue = 4096
	maxBatch = 512
	// delay is the maximum time that a span waits for a batch to fill.
	delay = 2 * time.Second
	// timeout bounds one request to the collector. Rejected spans are not sent again:
	// those waiting matter as much.
	timeout = 5 * time.Second
)

// Tracing exports spans.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter *spanExporter
	client   *http.Transport
}

// New returns a Tracing, which must be closed. It does not contact the collector.
func New(o Options) (*Tracing, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS.Clone()
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport, Timeout: timeout,
			// Headers must not be sent to anyone but the collector.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		// These options override variables of the environment.
		otlptracehttp.WithTLSClientConfig(nil),
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTimeout(timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("create the span exporter: %w", err)
	}
	res, err := newResource(o.Version)
	if err != nil {
		return nil, err
	}
	out := newSpanExporter(exporter, o)
	processor := sdk.NewBatchSpanProcessor(out,
		sdk.WithMaxQueueSize(maxQueue), sdk.WithMaxExportBatchSize(maxBatch),
		sdk.WithBatchTimeout(delay), sdk.WithExportTimeout(timeout))
	return &Tracing{
		provider: sdk.NewTracerProvider(
			sdk.WithSampler(sampler{sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))}),
			sdk.WithResource(res),
			sdk.WithSpanProcessor(&boundedProcessor{processor, out}),
		),
		exporter: out, client: transport,
	}, nil
}

// newResource returns the attributes that identify the service.
func newResource(version string) (*resource.Resource, error) {
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

// Tracer returns the tracer for the bridge's spans.
func (t *Tracing) Tracer() trace.Tracer { return t.provider.Tracer("ndrbridge") }

// Close exports the remaining spans until ctx is done, and drops the rest. No span may
// end after Close was called.
func (t *Tracing) Close(ctx context.Context) error {
	defer t.client.CloseIdleConnections()
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	// When ctx is done, its requests are cancelled; Shutdown must still return first.
	if err := t.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// sampler samples traces linked to a sampled span, and a share of all others.
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
