package webhook_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func TestEveryStatusHasItsClass(t *testing.T) {
	halted := []int{401, 402, 403, 404, 405, 407, 410, 415, 421, 426, 501, 505, 511}
	transient := []int{408, 425}
	target := []int{408, 425, 429, 502, 503, 504} // only what is not understood may be the fault of an event
	want := func(status int) failure.Class {
		switch {
		case slices.Contains(halted, status) || status/100 == 3:
			return failure.Halted
		case slices.Contains(transient, status) || status/100 == 5:
			return failure.Transient
		case status == 429:
			return failure.Throttled
		}
		return failure.Rejected
	}
	const secret = "s3cretvalue"
	r := newReceiver(t).start()
	s := open(t, webhook.Options{URL: r.server.URL + "/hooks/" + secret + "?key=" + secret, Bearer: secret})
	for status := 200; status < 600; status++ {
		r.answers(func(w http.ResponseWriter, request *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, request.Header.Get("Authorization"), " ", request.RequestURI)
		})
		err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
		if status < 300 {
			assert.NoError(t, err, status)
			continue
		}
		require.True(t, err != nil, status, "no")
		class, wait := failure.ClassOf(err)
		assert.Equal(t, class, want(status), status, "class")
		assert.Equal(t, wait, 0, status, "wait")
		scope := failure.ScopeOf(err)
		assert.True(t, class == failure.Halted || (scope == failure.ScopeTarget) == slices.Contains(target, status), status, "has the scope", scope)
		assert.Contains(t, err.Error(), fmt.Sprint(status), status, "is not in the error", err)
		assert.NotContains(t, err.Error(), secret, status, "the error shows a secret", err)
	}
	assert.Equal(t, r.connections(), 1, "connections for 400 answers")
}

func TestRefusalsNameThePathAndTheSize(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		path   string
		gzip   bool
		want   string
	}{
		{"404 names the path", 404, "/api/v2/logs", false, "404 Not Found at /api/v2/logs (check url)"},
		{"404 hides the query", 404, "/services/collector/event?token=s3cret", false, "404 Not Found at /services/collector/event (check url)"},
		{"404 hides keys in the path, as Slack's", 404, "/services/T0s3cret/B0s3cret/s3cret", false, "404 Not Found at /services/[redacted]/[redacted]/[redacted] (check url)"},
		{"404 hides a key of letters", 404, "/hooks/s3cret%2Fword/", false, "404 Not Found at /hooks/[redacted]/[redacted]/ (check url)"},
		{"404 names the root", 404, "/", false, "404 Not Found at / (check url)"},
		{"413 names the size", 413, "/s3cret", false, "413 Request Entity Too Large, for a body of %d bytes as sent"},
		{"413 names the compressed size", 413, "/s3cret", true, "413 Request Entity Too Large, for a body of %d bytes as sent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var length int64
			r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				length = r.ContentLength
				w.WriteHeader(test.status)
			}))
			defer r.Close()
			s := open(t, webhook.Options{URL: r.URL + test.path, Mode: transform.Batch, Gzip: test.gzip})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 4<<10))
			want := strings.Replace(test.want, "%d", strconv.FormatInt(length, 10), 1)
			require.True(t, err != nil, "it was accepted")
			assert.Contains(t, err.Error(), want)
			sinktest.ExpectHidden(t, err, "s3cret")
		})
	}
}

func TestAnInformationalAnswerIsNotFinal(t *testing.T) {
	var answer string
	addr := talk(t, func(c net.Conn) { fmt.Fprint(c, answer) })
	s := open(t, webhook.Options{URL: "http://" + addr, Mode: transform.Batch})
	for status := 100; status < 200; status++ {
		answer = fmt.Sprintf("HTTP/1.1 %d Wait\r\n\r\n", status)
		err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
		class, wait := failure.ClassOf(err)
		assert.True(t, err != nil && class == failure.Transient && wait == 0, status, "and no more: class", class, "wait", wait, err)
		if status == http.StatusSwitchingProtocols {
			continue // is final
		}
		answer += "HTTP/1.1 204 No Content\r\n\r\n"
		assert.NoError(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)), status, "then 204")
	}
}

func TestAnAnswerBeforeTheRequestWasReadCounts(t *testing.T) {
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	defer r.Close()
	events := webhook.PlainEvents(t, 4, 4, 600<<10)
	for _, concurrency := range []int{1, 4} {
		s := open(t, webhook.Options{URL: r.URL, Mode: transform.Batch, Concurrency: concurrency})
		err := s.Send(t.Context(), events)
		if each, apart := err.(failure.EventErrors); apart { // one event a request
			err = each[0]
		}
		sinktest.ExpectFailure(t, err, failure.Rejected)
	}
}

func TestARequestedWaitIsReported(t *testing.T) {
	const date = "Wed, 21 Oct 2026 07:28:00 GMT"
	for _, test := range []struct {
		name       string
		status     int
		retryAfter string
		class      failure.Class
		wait       time.Duration
	}{
		{"429 in seconds", 429, "120", failure.Throttled, 2 * time.Minute},
		{"503 in seconds", 503, "120", failure.Throttled, 2 * time.Minute},
		{"429 until a date by the server's clock", 429, "Wed, 21 Oct 2026 07:28:30 GMT", failure.Throttled, 30 * time.Second},
		{"503 until a date of an old form", 503, "Wednesday, 21-Oct-26 07:29:00 GMT", failure.Throttled, time.Minute},
		{"503 until a date that has passed", 503, "Wed, 21 Oct 2026 07:00:00 GMT", failure.Throttled, 0},
		{"503 with no wait at all", 503, "0", failure.Throttled, 0},
		{"503 that asks for nothing", 503, "", failure.Transient, 0},
		{"503 with a word", 503, "soon", failure.Transient, 0},
		{"503 with a negative number", 503, "-5", failure.Transient, 0},
		{"429 with a word", 429, "soon", failure.Throttled, 0},
		{"429 with the time of day in seconds", 429, "1790000000", failure.Throttled, 24 * time.Hour},
		{"429 with more digits than an int has", 429, "99999999999999999999", failure.Throttled, 24 * time.Hour},
		{"500 has no wait", 500, "120", failure.Transient, 0},
		{"404 has no wait", 404, "120", failure.Halted, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReceiver(t).start()
			r.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", date)
				w.Header().Set("Retry-After", test.retryAfter)
				w.WriteHeader(test.status)
			})
			s := open(t, webhook.Options{URL: r.server.URL, Mode: transform.Batch})
			class, wait := failure.ClassOf(s.Send(t.Context(), sinktest.Events(2, 2, 0)))
			assert.Equal(t, class, test.class, "class")
			assert.Equal(t, wait, test.wait, "wait")
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := newReceiver(t).start()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			r := newReceiver(t).start()
			r.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", elsewhere.server.URL+"/login?token=0123456789")
				w.WriteHeader(status)
			})
			s := open(t, webhook.Options{URL: r.server.URL, Bearer: "token", Mode: transform.Batch})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, failure.Halted)
			assert.True(t, strings.Contains(err.Error(), elsewhere.server.URL+"/login;") && !strings.Contains(err.Error(), "0123456789"), err)
			assert.Equal(t, elsewhere.connections(), 0, "connections to where it points")
		})
	}
}

func TestRequestsInFlightHaveAConnectionEach(t *testing.T) {
	for _, concurrency := range []int{1, 8, 32} {
		r := newReceiver(t).start()
		s := open(t, webhook.Options{URL: r.server.URL, Concurrency: concurrency})
		for range 10 {
			require.NoError(t, s.Send(t.Context(), sinktest.Events(200, 200, 0)))
		}
		// net/http closes a connection whose request is not written 50 ms after its answer.
		n := r.connections()
		assert.True(t, n <= 2*concurrency, n, "connections for", concurrency, "requests in flight")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	text := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", size)) }
	}
	for _, test := range []struct {
		name        string
		answer      http.HandlerFunc
		connections int
	}{
		{"after an empty answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 1},
		{"after a short answer", text(10), 1},
		{"after an answer of the size that is still read", text(60 << 10), 1},
		{"not after a large answer, which is cut off", text(1 << 20), 10},
		{"after an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", 500) }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReceiver(t).start()
			r.answers(test.answer)
			s := open(t, webhook.Options{URL: r.server.URL})
			for range 10 {
				_ = s.Send(t.Context(), sinktest.Events(1, 1, 0))
			}
			assert.Equal(t, r.connections(), test.connections, "connections")
		})
	}
	t.Run("a connection that the server closed while idle fails no event", func(t *testing.T) {
		r := newReceiver(t).start()
		s := open(t, webhook.Options{URL: r.server.URL})
		for _, e := range sinktest.Events(20, 20, 3000) {
			require.NoError(t, s.Send(t.Context(), []transform.Event{e}))
			r.server.CloseClientConnections()
		}
		assert.Equal(t, len(require.Value(r.received())(t)), 20, "events")
	})
}
