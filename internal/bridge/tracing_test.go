package bridge_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"ndrbridge/internal/traceparent"
	"ndrbridge/test/collector"
	"ndrbridge/test/loopback"
)

// startCollector serves a collector, and is the configuration that traces to it.
func startCollector(t *testing.T, sample string) (*collector.Collector, string) {
	t.Helper()
	c := new(collector.Collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, fmt.Sprintf("tracing: {endpoint: %q, sample: %s}\n", s.URL, sample)
}

// headers is a webhook that stores the headers of its requests.
type headers struct {
	url string

	mu  sync.Mutex
	all []http.Header
}

func startHeaders(t *testing.T) *headers {
	t.Helper()
	h := new(headers)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, r.Header.Clone())
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

func (h *headers) received() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// spansNamed are the spans of a name, by their ids.
func spansNamed(c *collector.Collector, name string) map[string]collector.Span {
	spans := make(map[string]collector.Span)
	for _, s := range c.Spans() {
		if s.Name == name {
			spans[s.ID] = s
		}
	}
	return spans
}

func TestAnEventIsTracedFromItsPollToItsDelivery(t *testing.T) {
	t.Parallel()
	const backlog = 60
	_, url := startAppliance(t, backlog)
	traces, tracing := startCollector(t, "1")
	soc, binary := startInbox(t), startHeaders(t)
	soc.Answer(http.StatusServiceUnavailable)
	yaml := tracing + configuration(t, url, webhookSink("soc", soc.URL)+
		strings.Replace(webhookSink("binary", binary.url), "{name", "{mode: binary, name", 1))
	r := run(t, yaml)
	await(t, "a failed delivery", func() bool { return strings.Contains(r.log.String(), "sink is retrying") })
	soc.Answer(0)
	await(t, "the backlog", func() bool { return soc.count("") == backlog && len(binary.received()) == backlog })
	r.stop()

	polls := spansNamed(traces, "poll detections")
	requests := spansNamed(traces, "POST /api/v1/detections/search")
	commits, deliveries := spansNamed(traces, "commit"), spansNamed(traces, "send soc")
	var parents []string
	for _, e := range soc.of("") {
		span, ok := traceparent.Parse(e.TraceParent)
		poll, made := polls[span.SpanID().String()]
		if !ok || !made || poll.Trace != span.TraceID().String() || !span.IsSampled() {
			t.Fatalf("event %s has the trace parent %q, which is not a poll's", e.ID, e.TraceParent)
		}
		parents = append(parents, e.TraceParent)
	}
	span, _ := traceparent.Parse(parents[0])
	poll := polls[span.SpanID().String()]

	t.Run("a poll is the root of its trace and says of what stream", func(t *testing.T) {
		if poll.Parent != "" || poll.Failed || poll.Attributes["ndrbridge.appliance"] != "hq" || poll.Attributes["ndrbridge.stream"] != "detections" {
			t.Errorf("%+v", poll)
		}
	})
	t.Run("its requests are its children, without their query", func(t *testing.T) {
		n := 0
		for _, s := range requests {
			if s.Parent != poll.ID {
				continue
			}
			n++
			want := map[string]string{
				"http.request.method": "POST", "http.response.status_code": "200", "url.full": url + "/api/v1/detections/search",
				"url.template": "/api/v1/detections/search", "server.address": "127.0.0.1", "server.port": url[strings.LastIndex(url, ":")+1:],
			}
			if fmt.Sprint(s.Attributes) != fmt.Sprint(want) || s.Trace != poll.Trace || !s.Client || s.Failed {
				t.Errorf("%+v, want %v", s, want)
			}
		}
		if n == 0 {
			t.Errorf("the poll made no request of %v", requests)
		}
	})
	t.Run("its commits are its children, and count what they wrote", func(t *testing.T) {
		events := ""
		for _, s := range commits {
			if s.Parent == poll.ID && s.Attributes["ndrbridge.events"] != "0" {
				events += s.Attributes["ndrbridge.events"]
			}
		}
		if events != fmt.Sprint(backlog) {
			t.Errorf("the poll committed %q events in %v", events, commits)
		}
	})
	t.Run("a delivery is a trace of its own that is linked to the polls", func(t *testing.T) {
		delivered := 0
		for _, s := range deliveries {
			if s.Parent != "" || !s.Client || !slices.Contains(s.Links, collector.Link{Trace: poll.Trace, ID: poll.ID}) {
				t.Errorf("%+v", s)
			}
			for name, want := range map[string]string{
				"ndrbridge.sink": "soc", "messaging.system": "webhook", "messaging.operation.type": "send", "server.address": "127.0.0.1",
			} {
				if s.Attributes[name] != want {
					t.Errorf("%s is %q, want %q", name, s.Attributes[name], want)
				}
			}
			if s.Attributes["ndrbridge.outcome"] == "delivered" {
				delivered++
			}
		}
		if delivered == 0 {
			t.Errorf("no delivery succeeded: %v", deliveries)
		}
	})
	t.Run("an attempt that failed says its class, and the next counts on", func(t *testing.T) {
		first, next := false, false
		for _, s := range deliveries {
			switch {
			case s.Attributes["ndrbridge.attempt"] == "1" && s.Failed:
				first = s.Attributes["ndrbridge.outcome"] == "transient" && s.Attributes["error.type"] == "transient" && strings.Contains(s.Said, "503")
			case s.Attributes["ndrbridge.attempt"] != "1":
				next = true
			}
		}
		if !first || !next {
			t.Errorf("%+v", deliveries)
		}
	})
	t.Run("a webhook's requests name the delivery, and binary mode the poll", func(t *testing.T) {
		deliveries := spansNamed(traces, "send binary")
		for _, header := range binary.received() {
			span, ok := traceparent.Parse(header.Get("Traceparent"))
			if s, made := deliveries[span.SpanID().String()]; !ok || !made || s.Trace != span.TraceID().String() {
				t.Fatalf("traceparent %q is not a delivery's", header.Get("Traceparent"))
			}
			if !slices.Contains(parents, header.Get("Ce-Traceparent")) {
				t.Fatalf("ce-traceparent %q is not an event's", header.Get("Ce-Traceparent"))
			}
		}
	})
}

func TestAPollThatFailsIsTracedAsSuch(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(down.Close)
	traces, tracing := startCollector(t, "1")
	r := run(t, tracing+configuration(t, down.URL, webhookSink("soc", startInbox(t).URL)))
	await(t, "a failed poll of detections", func() bool { return r.log.hasLine("stream=detections", "502") })
	r.stop()
	failed := false
	for _, poll := range spansNamed(traces, "poll detections") {
		for _, request := range spansNamed(traces, "GET /api/v1/service/version") {
			failed = failed || request.Parent == poll.ID && request.Failed && request.Attributes["error.type"] == "502" &&
				poll.Failed && poll.Attributes["error.type"] == "failed" && strings.Contains(poll.Said, "502")
		}
	}
	if !failed {
		t.Errorf("%+v", traces.Spans())
	}
}

func TestUnsampledEventsHaveNoTrace(t *testing.T) {
	t.Parallel()
	const backlog = 20
	_, url := startAppliance(t, backlog)
	traces, tracing := startCollector(t, "0")
	soc := startInbox(t)
	r := run(t, tracing+configuration(t, url, webhookSink("soc", soc.URL)))
	await(t, "the backlog", func() bool { return soc.count("") == backlog })
	r.stop()
	if spans := traces.Spans(); len(spans) > 0 {
		t.Errorf("%+v", spans)
	}
	for _, e := range soc.of("") {
		if bytes.Contains(e.Structured(), []byte("traceparent")) {
			t.Fatalf("%s", e.Structured())
		}
	}
}

func TestTracingChangesNothingButTheTraceParent(t *testing.T) {
	t.Parallel()
	const backlog = 100
	_, url := startAppliance(t, backlog)
	deliver := func(tracing string) (ids []string) {
		soc := startInbox(t)
		r := run(t, tracing+configuration(t, url, webhookSink("soc", soc.URL)))
		await(t, "the backlog", func() bool { return soc.count("") == backlog })
		r.stop()
		for _, e := range soc.of("") {
			ids = append(ids, e.Source+" "+e.ID+" "+string(e.Data()))
		}
		slices.Sort(ids) // requests overtake each other
		return ids
	}
	_, tracing := startCollector(t, "1")
	if with, without := deliver(tracing), deliver(""); !slices.Equal(with, without) {
		t.Errorf("with tracing\n%q\nwithout\n%q", with, without)
	}
}

func TestACollectorThatIsDeadChangesNothingButTheLog(t *testing.T) {
	t.Parallel()
	const backlog = 100
	_, url := startAppliance(t, backlog)
	soc := startInbox(t)
	tracing := fmt.Sprintf("tracing: {endpoint: %q, headers: {X-Api-Key: sesame001-sesame001}}\n", "http://"+loopback.Closed(t))
	r := run(t, tracing+configuration(t, url, webhookSink("soc", soc.URL)))
	await(t, "the backlog", func() bool { return soc.count("") == backlog })
	await(t, "spans to be dropped", func() bool {
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		_, value, _ := strings.Cut(metrics, "\nndrbridge_trace_spans_dropped_total ")
		return value != "" && value[0] != '0'
	})
	r.stop()
	soc.refuseDuplicates(t)
	if n := strings.Count(r.log.String(), "does not accept spans"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, r.log)
	}
	if strings.Contains(r.log.String(), "sesame") {
		t.Errorf("a secret was logged: %s", r.log)
	}
}

func TestACollectorThatNeverAnswersDoesNotDelayTheStop(t *testing.T) {
	t.Parallel()
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(stuck.Close)
	_, url := startAppliance(t, 10)
	soc := startInbox(t)
	r := run(t, fmt.Sprintf("shutdown_timeout: 2s\ntracing: {endpoint: %q}\n", stuck.URL)+configuration(t, url, webhookSink("soc", soc.URL)))
	await(t, "the backlog", func() bool { return soc.count("") == 10 })
	r.stop() // which would wait for ever
}

func TestTheDeliveryOfManyPollsIsLinkedToSomeOfThem(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 0)
	traces, tracing := startCollector(t, "1")
	soc := startInbox(t)
	soc.Answer(http.StatusServiceUnavailable)
	journal := startInbox(t)
	r := run(t, tracing+configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("journal", journal.URL)))
	const polls = 40 // above what one delivery is linked to
	for n := range polls {
		a.AddMany(1)
		await(t, "one more event", func() bool { return journal.count("") == n+1 })
	}
	soc.Answer(0)
	await(t, "all of them", func() bool { return soc.count("") == polls })
	r.stop()
	most := 0
	for _, s := range spansNamed(traces, "send soc") {
		most = max(most, len(s.Links))
	}
	if most < 2 || most > 32 {
		t.Errorf("a delivery has %d links at most", most)
	}
	known := make(map[string]bool)
	for _, e := range soc.of("") {
		known[e.TraceParent] = true
	}
	if len(known) < polls/2 || known[""] {
		t.Errorf("%d events were shown by %d polls", polls, len(known))
	}
}
