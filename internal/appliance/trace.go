package appliance

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced is a transport that creates a client span for each request sent within a
// recorded span, following OpenTelemetry's conventions for HTTP clients (1.43.0). The
// span ends when the answer's header was received. It contains no query, header, body
// or error text.
type traced struct {
	http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip implements http.RoundTripper.
func (t *traced) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() {
		return t.RoundTripper.RoundTrip(r)
	}
	template := templateOf(r.URL.Path)
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", r.Method),
		attribute.String("url.template", template),
		attribute.String("url.full", (&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}).String()),
		attribute.String("server.address", r.URL.Hostname()),
	}
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		attributes = append(attributes, attribute.Int("server.port", port))
	}
	_, span := t.tracer.Start(r.Context(), r.Method+" "+template,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	defer span.End()
	resp, err := t.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
		kind, _ := diagnose(err)
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, kind)
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if resp.StatusCode >= http.StatusBadRequest {
			span.SetAttributes(attribute.String("error.type", strconv.Itoa(resp.StatusCode)))
			span.SetStatus(codes.Error, "")
		}
	}
	return resp, err
}

// templateOf returns a path with its numbers replaced by {id}, so that requests of one
// kind share a name.
func templateOf(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if _, err := strconv.ParseInt(part, 10, 64); err == nil {
			parts[i] = "{id}"
		}
	}
	return strings.Join(parts, "/")
}
