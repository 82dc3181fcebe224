package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// PlainEvents makes n events of a size, at little cost. They have the given
// number of keys in turn.
func PlainEvents(t require.T, n, keys, size int) []transform.Event {
	data := fmt.Appendf(nil, `{"detection":%q}`, bytes.Repeat([]byte{'x'}, size))
	events := make([]transform.Event, n)
	for i := range events {
		var err error
		events[i], err = transform.New(transform.Attributes{
			ID: fmt.Sprint(i), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", PartitionKey: fmt.Sprint(i % keys),
		}, data)
		require.NoError(t, err)
	}
	return events
}

func TestSplitIsEven(t *testing.T) {
	for _, test := range []struct {
		name          string
		events        []transform.Event
		requests      int
		parts         int
		least, atMost int // events of a part
	}{
		{"few events are one request", PlainEvents(t, 100, 100, 2<<10), 8, 1, 100, 100},
		{"many events are as many requests as allowed", PlainEvents(t, 2000, 2000, 2<<10), 8, 8, 245, 255},
		{"events in between are as many requests as are worth it", PlainEvents(t, 800, 800, 2<<10), 8, 3, 260, 270},
		{"one at a time is one request", PlainEvents(t, 2000, 2000, 2<<10), 1, 1, 2000, 2000},
		{"events of one key are one request", PlainEvents(t, 2000, 1, 2<<10), 8, 1, 2000, 2000},
		{"two keys are two requests", PlainEvents(t, 2000, 2, 2<<10), 8, 2, 1000, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			parts := split(test.events, test.requests)
			require.Equal(t, len(parts), test.parts, "parts")
			for _, p := range parts {
				n := len(p.events)
				assert.True(t, n >= test.least && n <= test.atMost, "a part of", n, "events")
			}
		})
	}
}

// pipes is a listener on connections in memory, which a synctest bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

// OpenWindow lets s send as many requests at a time as if one had succeeded.
func OpenWindow(s *Sink) { s.window.size, s.window.open = s.window.max, true }

const cutOff = 0 // a status

func TestAnOverloadedReceiverGetsFewerRequestsAtATime(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		bytes   int // of an event
		status  int
		want    int // requests at a time after status
	}{
		{"after 429", Options{}, 0, 429, 4},
		{"after 503, whether it asks for a wait or not", Options{}, 0, 503, 4},
		{"after 504", Options{}, 0, 504, 4},
		{"after an answer that was cut off", Options{}, 0, cutOff, 4},
		{"but not after 500, which may be due to the event", Options{}, 0, 500, 8},
		{"but not after 422, which is", Options{}, 0, 422, 8},
		{"after 429 to a part of a batch", Options{Mode: transform.Batch}, 600 << 10, 429, 4},
		{"after 503 to a part of a batch", Options{Mode: transform.Batch}, 600 << 10, 503, 4},
		{"but not after 500 to a part of a batch", Options{Mode: transform.Batch}, 600 << 10, 500, 8},
		{"but not after 422 to a part of a batch", Options{Mode: transform.Batch}, 600 << 10, 422, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waiting, answers, sent := 0, make(chan int), make(chan error)
				begun := make(chan int)
				go func() {
					for n := range begun {
						waiting += n
					}
				}()
				defer close(begun)
				listener := make(pipes)
				server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					begun <- 1
					status := <-answers
					begun <- -1
					if status != cutOff {
						w.WriteHeader(status)
					} else if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
						_, _ = io.WriteString(c, "HTTP/1.1 20")
						c.Close()
					}
				})}
				go server.Serve(listener)
				defer server.Close()

				test.options.URL, test.options.Concurrency = "http://receiver.example/", 8
				s := require.Value(New(test.options))(t)
				defer s.Close()
				s.transport.DialContext = listener.dial
				send := func() {
					go func() { sent <- s.Send(t.Context(), PlainEvents(t, 40, 40, test.bytes)) }()
				}
				atOnce := func(want int) {
					t.Helper()
					if synctest.Wait(); waiting != want {
						t.Fatalf("%d requests at a time, want %d", waiting, want)
					}
				}
				answer := func(n, status int) {
					for range n {
						answers <- status
					}
				}
				finish := func() {
					for {
						select {
						case answers <- http.StatusNoContent:
						case <-sent:
							return
						}
					}
				}

				send()
				atOnce(1)
				finish()
				send()
				atOnce(8)
				answer(1, test.status)
				synctest.Wait()
				answer(min(waiting, 7), test.status)
				finish()
				send()
				atOnce(test.want)
				if test.options.Mode == transform.Batch {
					finish()
					send()
					atOnce(min(8, test.want+1))
					finish()
					return
				}
				for n := test.want; n < 8; n++ {
					answer(n, http.StatusNoContent)
					atOnce(n + 1)
				}
				answer(8, http.StatusNoContent)
				atOnce(8)
				finish()
			})
		})
	}
}
