// Package collector is a stand-in for a trace collector: it receives spans by OTLP/HTTP
// (OpenTelemetry protocol 1.11, protobuf, optionally gzipped) and keeps them for a test.
package collector

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span. Ids are in hex; an absent id is empty.
type Span struct {
	Name              string
	Trace, ID, Parent string
	Client            bool // the span kind is client
	Failed            bool // the status is error
	Said              string
	Attributes, Of    map[string]string // of the span, and of the service that made it
	Links             []Link
	Began, Ended      uint64 // nanoseconds since the epoch
}

// Link is a link to another span.
type Link struct{ Trace, ID string }

// Collector receives spans at /v1/traces. Its methods are safe for concurrent use.
type Collector struct {
	mu      sync.Mutex
	spans   []Span
	headers []http.Header
	refuse  http.HandlerFunc
}

// Spans returns the spans received so far, in order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers returns the headers of the requests received so far.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Refuse makes answer serve all requests; nil accepts spans again.
func (c *Collector) Refuse(answer http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = answer
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse := c.refuse
	c.headers = append(c.headers, r.Header.Clone())
	c.mu.Unlock()
	if refuse != nil {
		refuse(w, r)
		return
	}
	spans, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.spans = append(c.spans, spans...)
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf") // of an empty message
}

func read(r *http.Request) ([]Span, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil, fmt.Errorf("%s %s of %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var request otlp.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &request); err != nil {
		return nil, err
	}
	var all []Span
	for _, of := range request.GetResourceSpans() {
		service := attributes(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				all = append(all, spanOf(s, service))
			}
		}
	}
	return all, nil
}

func spanOf(s *trace.Span, service map[string]string) Span {
	span := Span{
		Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()),
		Client: s.GetKind() == trace.Span_SPAN_KIND_CLIENT,
		Failed: s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR, Said: s.GetStatus().GetMessage(),
		Attributes: attributes(s.GetAttributes()), Of: service,
		Began: s.GetStartTimeUnixNano(), Ended: s.GetEndTimeUnixNano(),
	}
	for _, l := range s.GetLinks() {
		span.Links = append(span.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	return span
}

// attributes returns the string and integer attributes, the only types that the bridge uses.
func attributes(pairs []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, pair := range pairs {
		switch value := pair.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			all[pair.GetKey()] = fmt.Sprint(value.IntValue)
		default:
			all[pair.GetKey()] = pair.GetValue().GetStringValue()
		}
	}
	return all
}
