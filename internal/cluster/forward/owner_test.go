package forward

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/require"
)

// slowBody is a request's body whose Read blocks until Close, and returns a minute later.
type slowBody struct {
	head   *bytes.Reader // is read first
	closed chan struct{}
	once   atomic.Bool
	inside atomic.Bool // Read has not returned
}

func (b *slowBody) Read(p []byte) (int, error) {
	if n, err := b.head.Read(p); err == nil {
		return n, nil
	}
	b.inside.Store(true)
	defer b.inside.Store(false)
	<-b.closed
	time.Sleep(time.Minute)
	return 0, io.ErrClosedPipe
}

func (b *slowBody) Close() error {
	if !b.once.Swap(true) {
		close(b.closed)
	}
	return nil
}

func TestNothingRunsOnAfterARequest(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/silent" {
			_, _ = io.WriteString(w, "a")
			http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/complete" {
			<-r.Context().Done()
		}
	}
	for _, test := range []struct {
		name, path string
		end        func(t *testing.T, c *http.Client, cancel context.CancelFunc, r *http.Request)
	}{
		{"whose response is closed early", "/", func(t *testing.T, c *http.Client, _ context.CancelFunc, r *http.Request) {
			resp, err := c.Do(r)
			require.NoError(t, err)
			synctest.Wait() // until the body's Read blocks
			resp.Body.Close()
		}},
		{"whose response is read to its end", "/complete", func(t *testing.T, c *http.Client, _ context.CancelFunc, r *http.Request) {
			resp, err := c.Do(r)
			require.NoError(t, err)
			synctest.Wait()
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
		}},
		{"whose context is done", "/", func(t *testing.T, c *http.Client, cancel context.CancelFunc, r *http.Request) {
			resp, err := c.Do(r)
			require.NoError(t, err)
			synctest.Wait()
			cancel()
			resp.Body.Close()
		}},
		{"that fails", "/silent", func(t *testing.T, c *http.Client, cancel context.CancelFunc, r *http.Request) {
			time.AfterFunc(time.Second, cancel)
			if _, err := c.Do(r); err == nil {
				t.Error("no error of a request without a response")
			}
		}},
	} {
		bubble(t, test.name, func(t *testing.T, b *memoryBus) {
			s, err := serve(b, subject, http.HandlerFunc(handler), quiet)
			require.NoError(t, err)
			defer s.Close()
			var aborting atomic.Bool
			b.set(func(_ string, m message) []message {
				if f, err := parseFrame(m.data); err == nil && f.kind == frameAbort {
					aborting.Store(true)
					time.Sleep(time.Minute)
					aborting.Store(false)
				}
				return []message{m}
			})
			transport := newTransport(b, subject)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body := &slowBody{head: bytes.NewReader(pattern(10)), closed: make(chan struct{})}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+test.path, body)
			require.NoError(t, err)
			test.end(t, &http.Client{Transport: transport}, cancel, r)
			if aborting.Load() || body.inside.Load() || len(transport.slots) > 0 {
				t.Errorf("aborting %t, body's Read runs %t, slots %d: something runs on", aborting.Load(), body.inside.Load(), len(transport.slots))
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if n := len(b.receivers["_INBOX.1"]); n > 0 {
				t.Error("the inbox is still subscribed to")
			}
		})
	}
}
