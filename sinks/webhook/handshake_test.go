package webhook_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

const origin = "ndrbridge.soc.example"

// strictReceiver accepts events only from a sender that performed the handshake, and
// records what is wrong with a request.
type strictReceiver struct {
	url string

	mu        sync.Mutex
	refusals  int              // handshakes still to be refused
	answer    http.HandlerFunc // to a handshake; nil means consent
	asked     int
	agreed    bool
	delivered int
	wrong     []string
}

func startStrict(t *testing.T) *strictReceiver {
	s := new(strictReceiver)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *strictReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expect := func(what, got, want string) {
		if got != want {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: %s is %q, want %q", r.Method, what, got, want))
		}
	}
	expect("the target", r.RequestURI, "/events?tenant=7")
	expect("the authorization", r.Header.Get("Authorization"), "Bearer b3arersecret")
	if r.Method != http.MethodOptions {
		expect("the origin", r.Header.Get("Origin"), origin)
		if !s.agreed {
			s.wrong = append(s.wrong, "events came without a handshake")
		}
		s.delivered++
		return
	}
	s.asked++
	expect("WebHook-Request-Origin", r.Header.Get("WebHook-Request-Origin"), origin)
	expect("WebHook-Request-Rate", r.Header.Get("WebHook-Request-Rate"), "6000")
	expect("Origin", r.Header.Get("Origin"), "")
	expect("the content type", r.Header.Get("Content-Type"), "")
	expect("the body", string(body), "")
	switch {
	case s.refusals > 0:
		s.refusals--
		w.WriteHeader(http.StatusForbidden)
	case s.answer != nil:
		s.answer(w, r)
	default:
		consent(origin, "*")(w, r)
	}
	s.agreed = w.Header().Get("WebHook-Allowed-Origin") != ""
}

func (s *strictReceiver) options() webhook.Options {
	return webhook.Options{
		URL: s.url + "/events?tenant=7", Bearer: "b3arersecret", Mode: transform.Batch, Headers: map[string]string{"X-Key": "s3cretvalue"},
		Handshake: &webhook.Handshake{Origin: origin, Rate: 6000},
	}
}

// consent allows an origin and a rate; an empty text leaves the field out.
func consent(origin, rate string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "POST")
		if origin != "" {
			w.Header().Set("WebHook-Allowed-Origin", origin)
		}
		if rate != "" {
			w.Header().Set("WebHook-Allowed-Rate", rate)
		}
	}
}

func TestEventsAreSentAfterConsent(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"to this origin, at any rate", consent(origin, "*")},
		{"to any origin, at the rate asked for", consent("*", "6000")},
		{"in upper case, without a rate", consent(strings.ToUpper(origin), "")},
		{"at a higher rate, without content", func(w http.ResponseWriter, r *http.Request) {
			consent(origin, "100000")(w, r)
			w.WriteHeader(http.StatusNoContent)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startStrict(t)
			r.answer = test.answer
			s := open(t, r.options())
			for range 3 {
				if err := s.Send(t.Context(), sinktest.Events(2, 2, 0)); err != nil {
					t.Fatal(err)
				}
			}
			if r.asked != 1 || r.delivered != 3 || r.wrong != nil {
				t.Errorf("asked %d times, %d deliveries; %q", r.asked, r.delivered, r.wrong)
			}
		})
	}
	t.Run("a sink that is opened again asks again", func(t *testing.T) {
		r := startStrict(t)
		for range 2 {
			if err := open(t, r.options()).Send(t.Context(), sinktest.Events(1, 1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if r.asked != 2 || r.wrong != nil {
			t.Errorf("asked %d times; %q", r.asked, r.wrong)
		}
	})
	t.Run("several requests at once do, too", func(t *testing.T) {
		r := startStrict(t)
		o := r.options()
		o.Mode, o.Concurrency = transform.Structured, 8
		if err := open(t, o).Send(t.Context(), sinktest.Events(20, 20, 0)); err != nil || r.asked != 1 || r.delivered != 20 || r.wrong != nil {
			t.Errorf("asked %d times, %d deliveries; %v, %q", r.asked, r.delivered, err, r.wrong)
		}
	})
}

func TestNoEventIsSentWithoutConsent(t *testing.T) {
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "9")
			http.Error(w, "not you: "+r.Header.Get("Authorization"), status)
		}
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		class  failure.Class
		want   string // part of the error
	}{
		{"an answer that does not speak of it", consent("", ""), failure.Halted, "did not consent: its answer has no WebHook-Allowed-Origin"},
		{"a rate alone", consent("", "100"), failure.Halted, "did not consent"},
		{"consent to another", consent("elsewhere.example", "100"), failure.Halted, `allows the origin "elsewhere.example", not "` + origin + `"`},
		{"a rate of nothing", consent(origin, "0"), failure.Halted, `allows "0" requests per minute`},
		{"a rate that is not a number", consent(origin, "lots"), failure.Halted, `allows "lots" requests per minute`},
		{"a receiver that knows no handshake", status(405), failure.Halted, "remove handshake if the receiver does not support it"},
		{"a refusal", status(403), failure.Halted, "handshake (OPTIONS, before any event)"},
		{"a bad request, which is not an event's fault", status(400), failure.Halted, "400"},
		{"a redirect", status(307), failure.Halted, "redirects are not followed"},
		{"a receiver that is busy", status(429), failure.Throttled, "429"},
		{"a receiver that is down", status(502), failure.Transient, "502"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startStrict(t)
			r.answer = test.answer
			err := open(t, r.options()).Send(t.Context(), sinktest.Events(2, 2, 0))
			class, wait := failure.ClassOf(err)
			if class != test.class || !strings.Contains(fmt.Sprint(err), test.want) || !strings.Contains(fmt.Sprint(err), r.url) {
				t.Fatalf("class %s: %v", class, err)
			}
			if class == failure.Throttled && wait != 9*time.Second {
				t.Errorf("it waits %v", wait)
			}
			if strings.Contains(err.Error(), "secret") || r.delivered != 0 || r.asked != 1 || r.wrong != nil {
				t.Errorf("%d deliveries, %d questions; %v; %q", r.delivered, r.asked, err, r.wrong)
			}
		})
	}
	t.Run("an answer that holds secrets shows none", func(t *testing.T) {
		for _, answer := range []http.HandlerFunc{consent("s3cretvalue", ""), consent(origin, "s3cretvalue")} {
			r := startStrict(t)
			r.answer = answer
			if err := open(t, r.options()).Send(t.Context(), sinktest.Events(1, 1, 0)); err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %v", err)
			}
		}
	})
	t.Run("no answer in time is transient", func(t *testing.T) {
		addr := talk(t, func(c net.Conn) { io.Copy(io.Discard, c) })
		o := startStrict(t).options()
		o.URL, o.Timeout = "http://"+addr, 50*time.Millisecond
		err := open(t, o).Send(t.Context(), sinktest.Events(1, 1, 0))
		if class, _ := failure.ClassOf(err); class != failure.Transient || !strings.Contains(err.Error(), "no answer within") {
			t.Errorf("class %s: %v", class, err)
		}
	})
}

func TestTheAllowedRateIsKept(t *testing.T) {
	r := startStrict(t)
	r.answer = consent(origin, "1")
	o := r.options()
	o.Mode = transform.Structured
	err := open(t, o).Send(t.Context(), sinktest.Events(3, 3, 0))
	results, ok := err.(failure.EventErrors)
	if !ok || len(results) != 3 || results[0] != nil {
		t.Fatalf("error %v", err)
	}
	for _, err := range results[1:] {
		if class, wait := failure.ClassOf(err); class != failure.Throttled || wait <= 0 || wait > time.Minute || !strings.Contains(err.Error(), "the rate that the receiver allows is exceeded") {
			t.Errorf("class %s, %v: %v", class, wait, err)
		}
	}
	if r.delivered != 1 || r.wrong != nil {
		t.Errorf("%d deliveries in a minute for which one was allowed; %q", r.delivered, r.wrong)
	}
}

func TestAHaltedSinkRepeatsTheHandshakeUntilItIsAllowed(t *testing.T) {
	r := startStrict(t)
	r.refusals = 3
	dead, _ := deliver(t, r.options(), checkpoint.Batch{MaxEvents: 10, MaxBytes: 1 << 20}, sinktest.Events(5, 5, 0))
	if dead != nil || r.asked < 4 || r.delivered == 0 || r.wrong != nil {
		t.Errorf("%d dead letters, asked %d times, %d deliveries; %q", len(dead), r.asked, r.delivered, r.wrong)
	}
}
