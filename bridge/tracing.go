package bridge

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/configs"
	"ndrbridge/internal/tracing"
)

// openTracing returns nil if tracing is off.
func (b *Bridge) openTracing(t configs.Tracing) (*tracing.Tracing, error) {
	if t.Endpoint.Value() == "" {
		return nil, nil
	}
	tlsConfig, err := clientTLS(t.TLS)
	if err != nil {
		return nil, err
	}
	headers, err := readHeaders(t.Headers)
	if err != nil {
		return nil, err
	}
	return tracing.New(tracing.Options{
		Endpoint: t.Endpoint.Value(), Headers: headers, Sample: t.Sample, TLS: tlsConfig,
		Version: b.version, Log: b.log, Now: time.Now, Metrics: b.metrics.registry,
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

// spanAttributes returns the attributes of every delivery to a sink, by OpenTelemetry's
// semantic conventions for messaging (1.43.0). They include the server address if there
// is exactly one.
func spanAttributes(s configs.Sink) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.String("messaging.system", s.Kind())}
	host, port := "", ""
	switch {
	case s.Kafka != nil && len(s.Kafka.Brokers) == 1:
		host, port, _ = net.SplitHostPort(s.Kafka.Brokers[0])
	case s.NATS != nil:
		host, port = addressOf(s.NATS.URL)
	case s.Webhook != nil:
		host, port = addressOf(s.Webhook.URL)
	}
	if host != "" {
		attributes = append(attributes, attribute.String("server.address", host))
	}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, attribute.Int("server.port", n))
	}
	return attributes
}

// addressOf returns a URL's host and port, each empty if absent; both are empty if the
// URL has several hosts.
func addressOf(u configs.URL) (host, port string) {
	parsed, err := url.Parse(u.Value())
	if err != nil || strings.Contains(parsed.Host, ",") {
		return "", ""
	}
	return parsed.Hostname(), parsed.Port()
}

// readHeaders returns the values of headers, reading those that are in files.
func readHeaders(headers configs.Headers) (map[string]string, error) {
	read := make(map[string]string, len(headers))
	for name, value := range headers {
		text, err := value.Read()
		if err != nil {
			return nil, fmt.Errorf("headers.%s: %w", name, err)
		}
		read[name] = text
	}
	return read, nil
}
