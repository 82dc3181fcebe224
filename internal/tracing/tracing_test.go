package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/internal/tracing"
	"ndrbridge/test/collector"
)

// scene is a Tracing that sends to a collector.
type scene struct {
	*tracing.Tracing
	collector *collector.Collector
	log       bytes.Buffer
	metrics   *prometheus.Registry

	mu  sync.Mutex
	now time.Time
}

const token = "sesame001-sesame001"

func begin(t *testing.T, change func(*tracing.Options)) *scene {
	t.Helper()
	s := &scene{collector: new(collector.Collector), metrics: prometheus.NewRegistry(), now: time.Unix(1e9, 0)}
	server := httptest.NewServer(s.collector)
	t.Cleanup(server.Close)
	o := tracing.Options{
		Endpoint: server.URL, Headers: map[string]string{"Authorization": "Bearer " + token}, Sample: 1,
		Version: "1.2.3", Log: slog.New(slog.NewTextHandler(&s.log, nil)), Metrics: s.metrics,
		Now: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.now
		},
	}
	if change != nil {
		change(&o)
	}
	made, err := tracing.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Tracing = made
	return s
}

func (s *scene) span(ctx context.Context, name string, o ...trace.SpanStartOption) trace.SpanContext {
	_, span := s.Tracer().Start(ctx, name, o...)
	span.End()
	return span.SpanContext()
}

func (s *scene) end(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (s *scene) dropped(t *testing.T, want int) {
	t.Helper()
	if err := s.compareDropped(want); err != nil {
		t.Error(err)
	}
}

func (s *scene) compareDropped(want int) error {
	text := fmt.Sprintf("# HELP ndrbridge_trace_spans_dropped_total Spans dropped because the collector did not accept them or too many were waiting.\n"+
		"# TYPE ndrbridge_trace_spans_dropped_total counter\nndrbridge_trace_spans_dropped_total %d\n", want)
	return testutil.GatherAndCompare(s.metrics, strings.NewReader(text))
}

func TestSpansReachTheCollector(t *testing.T) {
	t.Run("with who made them, and the headers that are configured", func(t *testing.T) {
		s := begin(t, nil)
		made := s.span(t.Context(), "poll detections")
		s.end(t)
		got := s.collector.Spans()
		if len(got) != 1 || got[0].Name != "poll detections" || got[0].Trace != made.TraceID().String() || got[0].Parent != "" {
			t.Fatalf("%+v", got)
		}
		for name, want := range map[string]string{"service.name": "ndrbridge", "service.version": "1.2.3", "telemetry.sdk.language": "go"} {
			if got[0].Of[name] != want {
				t.Errorf("%s is %q, want %q", name, got[0].Of[name], want)
			}
		}
		if header := s.collector.Headers()[0].Get("Authorization"); header != "Bearer "+token {
			t.Errorf("Authorization is %q", header)
		}
		s.dropped(t, 0)
	})
	t.Run("whatever other programs' variables say", func(t *testing.T) {
		for name, value := range map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/x",
			"OTEL_EXPORTER_OTLP_HEADERS": "authorization=other", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
			"OTEL_TRACES_SAMPLER": "always_off", "OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_SERVICE_NAME": "other",
			"OTEL_EXPORTER_OTLP_COMPRESSION": "none", "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
		} {
			t.Setenv(name, value)
		}
		s := begin(t, nil)
		for range 5 {
			s.span(t.Context(), "poll audit")
		}
		s.end(t)
		got := s.collector.Spans()
		if len(got) != 5 || got[0].Of["service.name"] != "ndrbridge" {
			t.Fatalf("%+v", got)
		}
		if header := s.collector.Headers()[0]; header.Get("Authorization") != "Bearer "+token || header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v", header)
		}
	})
	t.Run("behind a path of its own", func(t *testing.T) {
		var asked string
		s := begin(t, nil)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path }))
		defer server.Close()
		s.end(t)
		s = begin(t, func(o *tracing.Options) { o.Endpoint = server.URL + "/tenants/a/" })
		s.span(t.Context(), "poll audit")
		s.end(t)
		if asked != "/tenants/a/v1/traces" {
			t.Errorf("asked %q", asked)
		}
	})
}

func TestSampling(t *testing.T) {
	traced := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
	for _, c := range []struct {
		name    string
		sample  float64
		options []trace.SpanStartOption
		want    bool
	}{
		{"with a share of 1 a trace is", 1, nil, true},
		{"with a share of 0 none is", 0, nil, false},
		{"what is linked to a traced poll is, whatever the share", 0, []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: traced})}, true},
		{"what is linked to another is not", 0, []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: traced.WithTraceFlags(0)})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, func(o *tracing.Options) { o.Sample = c.sample })
			made := s.span(t.Context(), "span", c.options...)
			s.end(t)
			if made.IsSampled() != c.want || (len(s.collector.Spans()) == 1) != c.want {
				t.Errorf("sampled %v, and the collector has %d spans", made.IsSampled(), len(s.collector.Spans()))
			}
		})
	}
	t.Run("a child is where its parent is", func(t *testing.T) {
		s := begin(t, func(o *tracing.Options) { o.Sample = 0 })
		made := s.span(trace.ContextWithSpanContext(t.Context(), traced), "commit")
		s.end(t)
		if got := s.collector.Spans(); len(got) != 1 || got[0].Trace != made.TraceID().String() || got[0].Parent != traced.SpanID().String() {
			t.Errorf("%+v", got)
		}
	})
}

func TestACollectorThatFails(t *testing.T) {
	closed := func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}
	t.Run("is logged, and its spans are counted as dropped", func(t *testing.T) {
		s := begin(t, func(o *tracing.Options) { o.Endpoint = closed(t) })
		for range 3 {
			s.span(t.Context(), "poll audit")
		}
		s.end(t)
		s.dropped(t, 3)
		if text := s.log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "spans=3") {
			t.Errorf("the log says %s", text)
		}
	})
	t.Run("may repeat the request without a secret being logged, and a page of HTML is truncated", func(t *testing.T) {
		s := begin(t, func(o *tracing.Options) { o.Endpoint += "/sesame002-sesame002" })
		s.collector.Refuse(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "no %s %s %s%s", r.Header.Get("Authorization"), token, r.URL, strings.Repeat("<p>", 10_000))
		})
		s.span(t.Context(), "poll audit")
		s.end(t)
		if text := s.log.String(); strings.Contains(text, "sesame") || !strings.Contains(text, "403") || len(text) > 1000 {
			t.Errorf("the log says %s", text)
		}
		s.dropped(t, 1)
	})
	t.Run("by sending elsewhere is not followed, since headers are for nobody else", func(t *testing.T) {
		other := new(collector.Collector)
		server := httptest.NewServer(other)
		defer server.Close()
		s := begin(t, nil)
		s.collector.Refuse(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, server.URL+"/v1/traces", http.StatusTemporaryRedirect)
		})
		s.span(t.Context(), "poll audit")
		s.end(t)
		if len(other.Headers()) > 0 {
			t.Errorf("it asked there: %v", other.Headers())
		}
		s.dropped(t, 1)
	})
	t.Run("by never answering holds nobody up, and not the end for longer than is allowed", func(t *testing.T) {
		s := begin(t, nil)
		asked := make(chan struct{}, 1)
		s.collector.Refuse(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case asked <- struct{}{}:
			default:
			}
			_, _ = io.Copy(io.Discard, r.Body) // until then the server does not see that the client has gone
			<-r.Context().Done()
		})
		const space = 4096
		for range space {
			s.span(t.Context(), "poll audit")
		}
		<-asked
		for range 7 { // beyond the capacity
			s.span(t.Context(), "poll audit")
		}
		s.dropped(t, 7)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		s.dropped(t, space+7)
	})
}

func TestFailuresAreLoggedAtMostOnceAMinute(t *testing.T) {
	s := begin(t, nil)
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	// A full batch is sent at once. Dropped spans were logged.
	const full = 512
	batch := func() {
		for range full {
			s.span(t.Context(), "poll audit")
		}
	}
	refused := func(batches int) {
		batch()
		for s.compareDropped(batches*full) != nil {
			time.Sleep(time.Millisecond)
		}
	}
	s.collector.Refuse(down)
	for n := range 3 {
		refused(n + 1)
	}
	s.mu.Lock()
	s.now = s.now.Add(time.Minute)
	s.mu.Unlock()
	refused(4)
	s.collector.Refuse(nil)
	batch()
	s.end(t)
	s.dropped(t, 4*full)
	var logged []string
	for line := range strings.Lines(s.log.String()) {
		logged = append(logged, line[strings.Index(line, "level="):])
	}
	want := []string{"spans=512 ", "spans=1536 ", "accepts spans again"}
	if !slices.EqualFunc(logged, want, strings.Contains) {
		t.Errorf("logged %q, want %q", logged, want)
	}
}
