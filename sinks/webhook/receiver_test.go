package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// receiver is a webhook's receiver: it decodes the requests it accepts, and answers as
// configured.
type receiver struct {
	server *httptest.Server

	mu     sync.Mutex
	events []event.Event
	wrong  error // a request that was no CloudEvent
	conns  int
	answer http.HandlerFunc // nil: accept
	refuse string           // the id of an event that is answered with 422
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.server = httptest.NewUnstartedServer(r)
	r.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.mu.Lock()
			r.conns++
			r.mu.Unlock()
		}
	}
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) start() *receiver {
	r.server.Start()
	return r
}

// answers makes the receiver answer every request alike; nil: accept it.
func (r *receiver) answers(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

func (r *receiver) received() ([]event.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)], r.wrong
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := presettest.Body(request)
	if err != nil {
		return // the sink gave up
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, request)
		return
	}
	events, err := decode(request, body)
	if err != nil {
		r.wrong = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, e := range events {
		if e.ID() == r.refuse {
			http.Error(w, "no such ticket", http.StatusUnprocessableEntity)
			return
		}
	}
	r.events = append(r.events, events...)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, `{"accepted": true}`)
}

func decode(request *http.Request, body []byte) ([]event.Event, error) {
	switch request.Header.Get("Content-Type") {
	case transform.ContentTypeStructured:
		e, err := sinktest.Structured(body)
		return []event.Event{e}, err
	case transform.ContentTypeBatch:
		return sinktest.Batch(body)
	case transform.ContentTypeData:
		headers := func(yield func(name, value string) bool) {
			for name, values := range request.Header {
				for _, value := range values {
					if !yield(name, value) {
						return
					}
				}
			}
		}
		e, err := sinktest.Binary("ce-", true, headers, bytes.Clone(body))
		return []event.Event{e}, err
	}
	return nil, fmt.Errorf("content type %q", request.Header.Get("Content-Type"))
}

// open returns a sink that sends several requests at a time at once.
func open(t testing.TB, o webhook.Options) *webhook.Sink {
	t.Helper()
	s := require.Value(webhook.New(o))(t)
	webhook.OpenWindow(s)
	t.Cleanup(func() { s.Close() })
	return s
}

var modes = []transform.Mode{transform.Structured, transform.Binary, transform.Batch}

func TestConformance(t *testing.T) {
	run := func(name string, modes []transform.Mode, o webhook.Options) {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, modes, func(t *testing.T, mode transform.Mode) sinktest.Target {
				o.Mode = mode
				return target(t, o)
			})
		})
	}
	// Faults are tested in the first mode alone.
	each := []transform.Mode{transform.Structured, transform.Binary}
	batch := []transform.Mode{transform.Batch}
	run("an event a request, one at a time", each, webhook.Options{})
	run("an event a request, 32 at a time", each, webhook.Options{Concurrency: 32})
	run("a batch a request, one at a time", batch, webhook.Options{})
	run("a batch a request, eight at a time and compressed", batch, webhook.Options{Concurrency: 8, Gzip: true})
}

// target is a receiver behind a relay.
func target(t *testing.T, o webhook.Options) sinktest.Target {
	r := newReceiver(t).start()
	relay := sinktest.NewRelay(t, r.server.Listener.Addr().String())
	o.URL = "http://" + relay.Addr() + "/hooks/T0PSECRET?token=qu3rysecret"
	o.Bearer = "b3arersecret"
	status := func(status int, retryAfter string) {
		r.answers(func(w http.ResponseWriter, request *http.Request) {
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "not now: "+request.Header.Get("Authorization")+" for "+request.RequestURI, status)
		})
	}
	return sinktest.Target{
		Open: func(l *lease.Lease) (sinks.Sink, error) {
			o.Lease = l
			return webhook.New(o)
		},
		Received: r.received,
		Down:     relay.Down,
		Hang:     relay.Hang,
		Stall:    relay.Stall,
		Resume:   relay.Resume,
		Halt:     func() { status(http.StatusForbidden, "") },
		Throttle: func() time.Duration {
			status(http.StatusTooManyRequests, "7")
			return 7 * time.Second
		},
		Reject: func(id string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refuse = id
		},
		Restore: func() {
			r.answers(nil)
			relay.Restore()
		},
		Secrets: []string{"T0PSECRET", "qu3rysecret", "b3arersecret"},
	}
}

func TestRequests(t *testing.T) {
	var mu sync.Mutex
	var requests []*http.Request
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		requests, bodies = append(requests, r), append(bodies, string(body))
	}))
	defer server.Close()
	events := sinktest.Events(2, 2, 600)

	for _, test := range []struct {
		name     string
		options  webhook.Options
		requests int
		body     string
		header   map[string]string
	}{
		{
			"structured mode sends the JSON event format, one event a request",
			webhook.Options{}, 2, string(events[0].Structured()),
			map[string]string{"Content-Type": "application/cloudevents+json", "User-Agent": "ndrbridge", "Authorization": "", "Accept-Encoding": ""},
		},
		{
			"binary mode sends data as the body and attributes as headers",
			webhook.Options{Mode: transform.Binary, Method: "PUT"}, 2, string(events[0].Data()),
			map[string]string{"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": events[0].ID, "Ce-Severitynumber": "13"},
		},
		{
			"batch mode sends all events in one request",
			webhook.Options{Mode: transform.Batch, UserAgent: "soc/1"}, 1,
			"[" + string(events[0].Structured()) + "," + string(events[1].Structured()) + "]",
			map[string]string{"Content-Type": "application/cloudevents-batch+json", "User-Agent": "soc/1"},
		},
		{
			"a bearer token and headers go with every request",
			webhook.Options{Bearer: "abc", Headers: map[string]string{"x-team": "soc", "Content-Type": "application/json"}}, 2,
			string(events[0].Structured()),
			map[string]string{"Authorization": "Bearer abc", "X-Team": "soc", "Content-Type": "application/json", "Idempotency-Key": ""},
		},
		{
			"a user name and password are sent by the Basic scheme",
			webhook.Options{Username: "Aladdin", Password: "open sesame"}, 2, string(events[0].Structured()),
			map[string]string{"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		},
		{
			"credentials in the URL are sent by the Basic scheme",
			webhook.Options{URL: strings.Replace(server.URL, "http://", "http://Aladdin:open%20sesame@", 1)}, 2, string(events[0].Structured()),
			map[string]string{"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			requests, bodies = nil, nil
			if test.options.URL == "" {
				test.options.URL = server.URL
			}
			test.options.URL += "/a%2Fb?c=d#e"
			require.NoError(t, open(t, test.options).Send(t.Context(), events))
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, len(requests), test.requests, "requests")
			r := requests[0]
			method := strings.ToUpper(test.options.Method)
			if method == "" {
				method = "POST"
			}
			assert.True(t, r.Method == method && r.RequestURI == "/a%2Fb?c=d" && "http://"+r.Host == server.URL, r.Method, r.RequestURI, r.Host)
			assert.Equal(t, bodies[0], test.body, "body")
			assert.Equal(t, r.ContentLength, int64(len(test.body)), "content length")
			for name, want := range test.header {
				assert.Equal(t, strings.Join(r.Header.Values(name), "|"), want, name)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	const secret = "s3cretvalue"
	for _, test := range []struct {
		name    string
		options webhook.Options
		want    string // part of the error
	}{
		{"no URL", webhook.Options{}, "url must be"},
		{"a URL of another scheme", webhook.Options{URL: "ftp://host/" + secret}, "url must be"},
		{"a URL without a host", webhook.Options{URL: "https:///" + secret}, "url must be"},
		{"a password with a slash in the URL", webhook.Options{URL: "https://user:" + secret + "/x@host/"}, "url must be"},
		{"a header value with a line break", webhook.Options{URL: "http://host", Headers: map[string]string{"X-Y": secret + "\r\nZ: 1"}}, "X-Y: it contains a line break"},
		{"a header of HTTP's framing", webhook.Options{URL: "http://host", Headers: map[string]string{"content-length": "1"}}, "Content-Length"},
		{"a header of the binding", webhook.Options{URL: "http://host", Headers: map[string]string{"ce-id": "1"}}, "Ce-Id"},
		{"a bearer token with a line break", webhook.Options{URL: "http://host", Bearer: secret + "\n"}, "bearer token contains"},
		{"a bearer token beside credentials in the URL", webhook.Options{URL: "http://u:" + secret + "@host", Bearer: "t"}, "url has credentials"},
		{"a key of a preset with a line break", webhook.Options{URL: "http://host", Preset: lines{secret: secret + "\nb"}.preset()}, "preset: X-Key"},
		{"a secret to sign with that is none", webhook.Options{URL: "http://host", SignSecrets: []string{oldSecret, secret}}, "sign: secret 2 is not valid base64 after the optional whsec_"},
		{"a signature among the headers", webhook.Options{URL: "http://host", SignSecrets: []string{oldSecret}, Headers: map[string]string{"webhook-id": secret}}, "Webhook-Id is set by the bridge"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := webhook.New(test.options)
			require.True(t, err != nil && strings.Contains(err.Error(), test.want), err, test.want, "in it")
			assert.NotContains(t, err.Error(), secret, "the error shows a secret", err)
		})
	}
}
