package appliance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const testKey = "k3y-for/tests+\"<&"

// newClient returns a client of a server with handler. The test fails if a key appears
// in an error. The client trusts the Date of the first answer, so it sends no requests
// of its own.
func newClient(t *testing.T, handler http.HandlerFunc, change ...func(*Options)) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClientOf(t, append([]func(*Options){func(o *Options) { o.URL = server.URL }}, change...)...)
}

func newClientOf(t testing.TB, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Key: func() (string, error) { return testKey, nil }, Timeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c := require.Value(New(o))(t)
	t.Cleanup(c.Close)
	c.link.clock.agree = 1
	return c
}

// failureOf returns err as an *Error, and checks that it is fit to be shown.
func failureOf(t *testing.T, err error, hidden ...string) *Error {
	t.Helper()
	require.True(t, err != nil, "no")
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok, err, "is not an *Error", err)
	for _, secret := range append(hidden, testKey) {
		assert.True(t, !strings.Contains(err.Error(), secret) && !strings.Contains(e.Excerpt, secret), "the error holds", secret, err)
	}
	assert.True(t, e.Method != "" && strings.HasPrefix(e.Path, "/"), "the error does not say what was tried", e)
	n := len([]rune(e.Excerpt))
	assert.True(t, n <= maxExcerpt, "the excerpt", n, "characters")
	return e
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

var anySearch = Search{ModTime: 1, Limit: 10}

func TestRequests(t *testing.T) {
	type sent struct {
		method, path, auth, body string
	}
	search := func(s Search) func(*Client) error {
		return func(c *Client) error { return c.SearchDetections(t.Context(), s, new(Page)) }
	}
	for name, test := range map[string]struct {
		change func(*Options)
		call   func(*Client) error
		answer string
		want   sent
	}{
		"a search always says how to sort": {
			call:   search(Search{ModTime: 1700000000001, Limit: 1000}),
			answer: `[]`,
			want: sent{"POST", "/api/v1/detections/search", "Service apikey=" + testKey,
				`{"mod_time":1700000000001,"limit":1000,"offset":0,"sort":[{"field":"mod_time","direction":"asc"},{"field":"id","direction":"asc"}]}`},
		},
		"a search sends offset and filter": {
			call:   search(Search{ModTime: 5, Limit: 2, Offset: 7, Filter: json.RawMessage(`{"status": [".none"]}`)}),
			answer: `[]`,
			want: sent{"POST", "/api/v1/detections/search", "Service apikey=" + testKey,
				`{"mod_time":5,"limit":2,"offset":7,"sort":[{"field":"mod_time","direction":"asc"},{"field":"id","direction":"asc"}],"filter":{"status":[".none"]}}`},
		},
		"the newest are requested": {
			call:   search(Search{ModTime: 1, Limit: 100, Newest: true}),
			answer: `[]`,
			want: sent{"POST", "/api/v1/detections/search", "Service apikey=" + testKey,
				`{"mod_time":1,"limit":100,"offset":0,"sort":[{"field":"mod_time","direction":"desc"},{"field":"id","direction":"asc"}]}`},
		},
		"only ids are requested": {
			call: func(c *Client) error {
				ids, err := c.SearchDetectionIDs(t.Context(), Search{ModTime: 5, Limit: 2})
				if err == nil && fmt.Sprint(ids) != "[25769804127 2]" {
					err = fmt.Errorf("got %d", ids)
				}
				return err
			},
			answer: `[25769804127, {"id": 2}]`,
			want: sent{"POST", "/api/v1/detections/search", "Service apikey=" + testKey,
				`{"mod_time":5,"limit":2,"offset":0,"sort":[{"field":"mod_time","direction":"asc"},{"field":"id","direction":"asc"}],"id_only":true}`},
		},
		"a detection is requested by id": {
			call:   func(c *Client) error { return c.Detection(t.Context(), 25769804127, new(Page)) },
			answer: `{"id": 25769804127}`,
			want:   sent{"GET", "/api/v1/detections/25769804127", "Service apikey=" + testKey, ""},
		},
		"the default product is capitalized in the scheme": {
			change: func(o *Options) { o.Product = "service" },
			call:   func(c *Client) error { _, err := c.Firmware(t.Context()); return err },
			answer: `{"version": "26.3.0.1234"}`,
			want:   sent{"GET", "/api/v1/service/version", "Service apikey=" + testKey, ""},
		},
		"a vendor's product is written as it is in the scheme and lower case in paths": {
			change: func(o *Options) { o.Product = "ExtraHop" },
			call:   func(c *Client) error { _, err := c.Firmware(t.Context()); return err },
			answer: `{"version": "26.3.0.1234"}`,
			want:   sent{"GET", "/api/v1/extrahop/version", "ExtraHop apikey=" + testKey, ""},
		},
		"the scheme's word can be set alone": {
			change: func(o *Options) { o.Product, o.SchemeWord = "Acme", "Token" },
			call:   func(c *Client) error { _, err := c.Firmware(t.Context()); return err },
			answer: `{"version": "26.3.0.1234"}`,
			want:   sent{"GET", "/api/v1/acme/version", "Token apikey=" + testKey, ""},
		},
		"white space around the key is dropped": {
			change: func(o *Options) { o.Key = func() (string, error) { return " abc\n", nil } },
			call:   func(c *Client) error { _, err := c.Firmware(t.Context()); return err },
			answer: `{"version": "26.3.0.1234"}`,
			want:   sent{"GET", "/api/v1/service/version", "Service apikey=abc", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*Options) {}
			}
			var got sent
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = sent{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), string(body)}
				assert.Equal(t, r.Header.Get("Accept"), "application/json", "Accept")
				assert.Equal(t, r.Header.Get("Content-Type"), map[bool]string{true: "application/json"}[len(body) > 0], "Content-Type")
				assert.Equal(t, r.UserAgent(), "ndrbridge", "User-Agent")
				_, sent := r.Header["Idempotency-Key"]
				assert.False(t, sent, "an idempotency key was sent")
				io.WriteString(w, test.answer)
			}, change)
			require.NoError(t, test.call(c))
			assert.Equal(t, got, test.want, "sent")
		})
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	key := func() (string, error) { return testKey, nil }
	oauth := &OAuth{TokenURL: "https://x.example/oauth2/token", ClientID: "id", ClientSecret: key}
	for name, o := range map[string]Options{
		"no scheme":             {URL: "sensor.example", Key: key},
		"another scheme":        {URL: "ftp://sensor.example", Key: key},
		"no host":               {URL: "https://", Key: key},
		"a path":                {URL: "https://sensor.example/api/v1", Key: key},
		"a query":               {URL: "https://sensor.example?x=y", Key: key},
		"a user":                {URL: "https://u:hunter2@sensor.example", Key: key},
		"a user and no URL":     {URL: "https://u:hunter2@sensor.example:port", Key: key},
		"no way to sign in":     {URL: "https://sensor.example"},
		"two ways to sign in":   {URL: "https://sensor.example", Key: key, OAuth: oauth},
		"a token URL of a file": {URL: "https://sensor.example", OAuth: &OAuth{TokenURL: "file:///x", ClientID: "id", ClientSecret: key}},
		"no client id":          {URL: "https://sensor.example", OAuth: &OAuth{TokenURL: oauth.TokenURL, ClientSecret: key}},
		"no client secret":      {URL: "https://sensor.example", OAuth: &OAuth{TokenURL: oauth.TokenURL, ClientID: "id"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(o)
			assert.True(t, err != nil && !strings.Contains(err.Error(), "hunter2"), err)
		})
	}
	_, err := New(Options{URL: "https://sensor.example/", OAuth: oauth})
	assert.NoError(t, err)
}

func TestASearchWithoutATimeIsNotSent(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	for _, s := range []Search{{}, {ModTime: -1}, {ModTime: 1, Filter: json.RawMessage("{")}} {
		failureOf(t, c.SearchDetections(t.Context(), s, new(Page)))
		_, err := c.SearchDetectionIDs(t.Context(), s)
		failureOf(t, err)
	}
}

func TestAPageIsUsedAgain(t *testing.T) {
	var body atomic.Value
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
		io.WriteString(w, body.Load().(string))
	})
	var page Page
	for _, want := range [][]string{
		{`{"id":1,"n":18446744073709551616,"v":1.10}`, `{ "id" : 2 }`},
		{},
		{`{"id":3,"description":"` + strings.Repeat("long ", 50000) + `"}`},
		{`{"a":1,"a":2}`, `{}`, `{"deep":[{"er":[]}]}`},
	} {
		body.Store(" [" + strings.Join(want, " ,\n") + "]\n ")
		require.NoError(t, c.SearchDetections(t.Context(), anySearch, &page))
		require.Equal(t, len(page.Objects), len(want), "objects")
		for i, o := range page.Objects {
			assert.Equal(t, string(o.Raw), want[i], "object", i)
			assert.False(t, o.Repaired, "object", i, "repaired")
		}
		want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
		assert.True(t, page.Date.Equal(want), "date", page.Date)
	}
	body.Store("{}")
	failureOf(t, c.SearchDetections(t.Context(), anySearch, &page))
	assert.True(t, len(page.Objects) == 0 && page.Date.IsZero(), "after an error the page holds", len(page.Objects), "objects of", page.Date)
}

func TestTheSizeOfAnswersIsLimited(t *testing.T) {
	const limit = 4000
	object := func(size int) string { return `{"mod_time":7,"pad":"` + strings.Repeat("x", size-22-1) + `"}` }
	write := func(w http.ResponseWriter, r *http.Request, body string) {
		switch r.Header.Get("User-Agent") {
		case "chunked":
			w.(http.Flusher).Flush()
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			io.WriteString(z, body)
			return
		}
		io.WriteString(w, body)
	}
	for _, encoding := range []string{"with a length", "chunked", "gzip"} {
		for _, test := range []struct {
			size int
			ok   bool
		}{{limit, true}, {limit + 1, false}, {50 * limit, false}} {
			t.Run(fmt.Sprintf("%d bytes %s", test.size, encoding), func(t *testing.T) {
				c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
					write(w, r, object(test.size))
				}, func(o *Options) { o.MaxAnswer, o.UserAgent = limit, encoding })
				var page Page
				err := c.Detection(t.Context(), 1, &page)
				switch {
				case test.ok && (err != nil || len(page.Objects) != 1 || len(page.Objects[0].Raw) != test.size):
					t.Error(err)
				case !test.ok && (!errors.Is(err, ErrTooLarge) || failureOf(t, err).Status != 200):
					t.Error(err)
				}
				assert.Equal(t, require.Value(c.DetectionModTime(t.Context(), 1))(t), 7, "mod_time")
			})
		}
	}
}

func TestConnectionsAreKept(t *testing.T) {
	connections := make(map[string]bool)
	statuses := []int{200, 404, 500, 429, 200}
	i := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		answer(statuses[i], "application/json", `{"id":1}`+strings.Repeat(" ", 10000))(w, r)
		i++
	})
	for range statuses {
		c.Detection(t.Context(), 1, new(Page))
	}
	assert.Equal(t, len(connections), 1, "connections for", len(statuses), "requests")
}

func TestAConnectionClosedWhileIdleIsNotAFailure(t *testing.T) {
	server := httptest.NewServer(answer(200, "application/json", `[]`))
	defer server.Close()
	c := newClientOf(t, func(o *Options) { o.URL = server.URL })
	var page Page
	for range 20 {
		require.NoError(t, c.SearchDetections(t.Context(), anySearch, &page))
		server.CloseClientConnections()
	}
}

func TestAClientIsUsedByManyAtOnce(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"id":`+strings.TrimPrefix(r.URL.Path, "/api/v1/detections/")+`}`)
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var page Page
			for j := range 20 {
				id := int64(100*i + j)
				if err := c.Detection(t.Context(), id, &page); err != nil {
					t.Error(err)
				} else if want := fmt.Sprintf(`{"id":%d}`, id); string(page.Objects[0].Raw) != want {
					t.Errorf("got %s, want %s", page.Objects[0].Raw, want)
				}
			}
		})
	}
	wg.Wait()
}

// roundTrip is a transport without a network, for tests of time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(r *http.Request, status int, header http.Header, body string) (*http.Response, error) {
	h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for name, values := range header {
		h[name] = values
	}
	return &http.Response{
		StatusCode: status, Header: h, Request: r, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewBufferString(body)),
	}, nil
}

func TestTheRateIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		c := newClientOf(t, func(o *Options) {
			o.URL, o.RateLimit, o.Timeout = "http://sensor.example", 2, 100*time.Millisecond
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				at = append(at, time.Since(start))
				return respond(r, 200, nil, `[]`)
			})
		})
		for range 5 {
			require.NoError(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		}
		assert.Equal(t, fmt.Sprint(at), "[0s 0s 500ms 1s 1.5s]", "sent at", at)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		e := failureOf(t, c.SearchDetections(ctx, anySearch, new(Page)))
		assert.True(t, errors.Is(e, context.Canceled) && e.Status == 0, e)
		assert.Equal(t, time.Since(start), 1600*time.Millisecond, "the wait ended after")
	})
}

func TestTheTimeoutCoversTheBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a body that stalls": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "[")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"an error that stalls": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // only then does the server see that the client has gone
				handler(w, r)
			}, func(o *Options) { o.Timeout = 30 * time.Millisecond })
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
			assert.True(t, e.Status == 500 || errors.Is(e, context.DeadlineExceeded) && strings.Contains(e.Error(), "within 30ms"), e)
		})
	}
}

func TestAnAnswerThatSwitchesProtocolsHasNoBody(t *testing.T) {
	switched := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection) // until the client closes it
	}
	server := httptest.NewServer(http.HandlerFunc(switched))
	t.Cleanup(server.Close)
	for name, change := range map[string]func(*Options){
		"of the appliance": func(*Options) {},
		"of the token endpoint": func(o *Options) {
			o.Key, o.OAuth = nil, &OAuth{TokenURL: server.URL + "/token", ClientID: "id", ClientSecret: rightSecret}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, switched, change)
			e := failureOf(t, c.PatchDetection(t.Context(), 7, DetectionChange{}))
			assert.Equal(t, e.Status, http.StatusSwitchingProtocols, "status", e)
		})
	}
}

func TestRequestsAreObserved(t *testing.T) {
	var codes []string
	observe := func(o *Options) { o.Observe = func(code string) { codes = append(codes, code) } }
	status := 200
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) { answer(status, "application/json", "[]")(w, r) }, observe)
	for _, status = range []int{200, 401, 503} {
		c.SearchDetections(t.Context(), anySearch, new(Page))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.SearchDetections(ctx, anySearch, new(Page))
	gone := httptest.NewServer(nil)
	gone.Close()
	newClientOf(t, observe, func(o *Options) { o.URL = gone.URL }).SearchDetections(t.Context(), anySearch, new(Page))
	assert.Equal(t, fmt.Sprint(codes), "[200 401 503 canceled connect]", "observed", codes)
}
