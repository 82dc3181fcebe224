package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

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
			if err := s.Send(t.Context(), events); err != nil {
				t.Fatal(err)
			}
			got, err := r.received()
			if len(got) != len(events) || err != nil {
				t.Errorf("%d events, %v", len(got), err)
			}
			size := int64(0)
			for _, e := range events {
				size += int64(len(e.Structured()))
			}
			for _, encoding := range encodings {
				if encoding != test.encoding {
					t.Errorf("content encoding %q", encoding)
				}
			}
			if sent.Load() != length.Load() {
				t.Errorf("%d bytes came, and %d were announced", sent.Load(), length.Load())
			}
			if test.encoding == "gzip" && sent.Load() > size/2 {
				t.Errorf("%d bytes of %d", sent.Load(), size)
			}
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
