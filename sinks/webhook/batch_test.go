package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// documents returns n events with the documents {"n":0,\n "x":"…"} and so on, or with
// lines of text, each of the given size at least.
func documents(n int, of format.Name, size int) []transform.Event {
	events := sinktest.Events(n, n, 0)
	padding := strings.Repeat("x", size)
	for i := range events {
		if of.IsText() {
			events[i] = events[i].WithDocument("text/plain; charset=utf-8", fmt.Appendf(nil, "CEF:0|%d|%s", i, padding))
		} else {
			events[i] = events[i].WithDocument("application/json", fmt.Appendf(nil, "{\"n\":%d,\n  \"x\":%q}", i, padding))
		}
	}
	return events
}

func TestDocumentsAreSentInsteadOfCloudEvents(t *testing.T) {
	for _, test := range []struct {
		name        string
		options     webhook.Options
		contentType string
		bodies      []string
	}{
		{"a document per request", webhook.Options{Format: format.OCSF}, "application/json",
			[]string{"{\"n\":0,\n  \"x\":\"\"}", "{\"n\":1,\n  \"x\":\"\"}"}},
		{"a line per request", webhook.Options{Format: format.CEF}, "text/plain; charset=utf-8",
			[]string{"CEF:0|0|", "CEF:0|1|"}},
		{"a batch is an array", webhook.Options{Format: format.ECS, Mode: transform.Batch}, "application/json",
			[]string{"[{\"n\":0,\n  \"x\":\"\"},{\"n\":1,\n  \"x\":\"\"}]"}},
		{"a batch of lines has one document on each", webhook.Options{Format: format.ECS, Mode: transform.Batch, Lines: true}, "application/x-ndjson",
			[]string{"{\"n\":0,\"x\":\"\"}\n{\"n\":1,\"x\":\"\"}\n"}},
		{"a batch of text is lines", webhook.Options{Format: format.LEEF, Mode: transform.Batch}, "text/plain; charset=utf-8",
			[]string{"CEF:0|0|\nCEF:0|1|\n"}},
		{"a configured content type is sent", webhook.Options{Format: format.CEF, Headers: map[string]string{"content-type": "text/x-cef"}}, "text/x-cef",
			[]string{"CEF:0|0|", "CEF:0|1|"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, received := startPosts(t)
			test.options.URL = url
			require.NoError(t, open(t, test.options).Send(t.Context(), documents(2, test.options.Format, 0)))
			var want []post
			for _, body := range test.bodies {
				want = append(want, post{test.contentType, body})
			}
			assert.EqualSlices(t, received(), want, "received")
		})
	}
	t.Run("CloudEvents can be lines", func(t *testing.T) {
		url, received := startPosts(t)
		events := sinktest.Events(2, 2, 0)
		require.NoError(t, open(t, webhook.Options{URL: url, Mode: transform.Batch, Lines: true}).Send(t.Context(), events))
		want := []post{{"application/x-ndjson", string(events[0].Structured()) + "\n" + string(events[1].Structured()) + "\n"}}
		assert.EqualSlices(t, received(), want, "received")
	})
}

// The size of what is sent counts, not that of the CloudEvents.
func TestBatchesOfDocumentsStayWithinTheLimitOfABody(t *testing.T) {
	for _, test := range []struct {
		name    string
		options webhook.Options
	}{
		{"arrays", webhook.Options{Format: format.OCSF}},
		{"lines", webhook.Options{Format: format.OCSF, Lines: true}},
		{"text", webhook.Options{Format: format.CEF}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const size, limit = 10_000, 35_000
			url, received := startPosts(t)
			test.options.URL, test.options.Mode, test.options.MaxBodyBytes = url, transform.Batch, limit
			events := documents(10, test.options.Format, size)
			events[4] = documents(1, test.options.Format, limit)[0]
			each, ok := open(t, test.options).Send(t.Context(), events).(failure.EventErrors)
			require.True(t, ok, "no error for the document that does not fit")
			for i, err := range each {
				class, _ := failure.ClassOf(err)
				assert.Equal(t, err != nil && class == failure.Rejected, i == 4, "event", i, err)
			}
			got := received()
			if len(got) != 4 { // 3 and 1 before the large one, 3 and 2 behind it
				t.Errorf("%d requests", len(got))
			}
			for _, p := range got {
				assert.True(t, len(p.body) <= limit, "a body of", len(p.body), "bytes")
			}
		})
	}
	t.Run("a limit that a batch meets exactly", func(t *testing.T) {
		for _, of := range []format.Name{format.OCSF, format.CEF} {
			events := documents(3, of, 100)
			exact := 3*(len(events[0].Payload())+1) + 1
			if of.IsText() {
				exact--
			}
			for limit, requests := range map[int]int{exact: 1, exact - 1: 2} {
				url, received := startPosts(t)
				require.NoError(t, open(t, webhook.Options{URL: url, Mode: transform.Batch, Format: of, MaxBodyBytes: limit}).Send(t.Context(), events))
				assert.Equal(t, len(received()), requests, of, limit, "bytes:  requests")
			}
		}
	})
	t.Run("a large batch is split by the size of the documents", func(t *testing.T) {
		url, received := startPosts(t)
		s := open(t, webhook.Options{URL: url, Mode: transform.Batch, Format: format.OCSF, Concurrency: 4})
		require.NoError(t, s.Send(t.Context(), documents(40, format.OCSF, 64<<10)))
		assert.Equal(t, len(received()), 4, "requests")
	})
}

func TestLargeBodiesAreCompressed(t *testing.T) {
	var mu sync.Mutex
	var encodings []string
	var sent, length atomic.Int64
	r := newReceiver(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mu.Lock()
		encodings = append(encodings, request.Header.Get("Content-Encoding"))
		mu.Unlock()
		length.Add(request.ContentLength)
		request.Body = io.NopCloser(counting{request.Body, &sent})
		r.ServeHTTP(w, request)
	}))
	defer server.Close()
	for _, test := range []struct {
		name     string
		gzip     bool
		mode     transform.Mode
		size     int
		encoding string
	}{
		{"a large event is", true, transform.Structured, 4 << 10, "gzip"},
		{"the data of a large event is", true, transform.Binary, 4 << 10, "gzip"},
		{"a batch of small events is", true, transform.Batch, 0, "gzip"},
		{"a small event is not", true, transform.Structured, 0, ""},
		{"the data of a small event is not", true, transform.Binary, 0, ""},
		{"nothing is unless it was asked for", false, transform.Batch, 4 << 10, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			encodings = nil
			sent.Store(0)
			length.Store(0)
			r.events, r.wrong = nil, nil
			events := sinktest.Events(20, 10, test.size)
			s := open(t, webhook.Options{URL: server.URL, Mode: test.mode, Gzip: test.gzip, Concurrency: 4})
			require.NoError(t, s.Send(t.Context(), events))
			got := require.Value(r.received())(t)
			assert.Equal(t, len(got), len(events), "events")
			size := int64(0)
			for _, e := range events {
				size += int64(len(e.Structured()))
			}
			for _, encoding := range encodings {
				assert.Equal(t, encoding, test.encoding, "content encoding")
			}
			assert.Equal(t, sent.Load(), length.Load(), "bytes came, and", "were announced")
			assert.True(t, test.encoding != "gzip" || sent.Load() <= size/2, sent.Load(), "bytes of", size)
		})
	}
}

// counting counts what is read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
