package bridge

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/internal/tracing"
)

// openTracing returns nil if tracing is off.
func (b *Bridge) openTracing(t configs.Tracing) (*tracing.Tracing, error) {
	if t.Endpoint.Value() == "" {
		return nil, nil
	}
	tlsConfig, err := endpoint.TLS(t.TLS)
	if err != nil {
		return nil, err
	}
	headers, err := endpoint.ReadHeaders(t.Headers)
	if err != nil {
		return nil, err
	}
	return tracing.New(tracing.Options{
		Endpoint: t.Endpoint.Value(), Headers: headers, Sample: t.Sample, TLS: tlsConfig,
		Version: b.version, Log: b.log, Now: time.Now, Metrics: b.registry,
	})
}

// tracer returns nil if tracing is off.
func (b *Bridge) tracer() trace.Tracer {
	if b.tracing == nil {
		return nil
	}
	return b.tracing.Tracer()
}

// maxFlush limits the wait for an unresponsive collector.
const maxFlush = 5 * time.Second

// closeTracing flushes the last spans within ctx and maxFlush. Unsent spans are lost.
func (b *Bridge) closeTracing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxFlush)
	defer cancel()
	if err := b.tracing.Close(ctx); err != nil {
		b.log.Warn("the last spans may be lost", "error", err)
	}
}
