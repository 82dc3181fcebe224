package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/require"
)

const subject = "ndr.test.shard.03"

var quiet = slog.New(slog.DiscardHandler)

// start serves h on the bus until the test ends and returns a client of it.
func start(t testing.TB, b *memoryBus, h http.HandlerFunc) *http.Client {
	t.Helper()
	s, err := serve(b, subject, h, quiet)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return client(b)
}

func client(b bus) *http.Client {
	return &http.Client{Transport: newTransport(b, subject)}
}

// bubble runs a test in a bubble on a bus in memory.
func bubble(t *testing.T, name string, test func(t *testing.T, b *memoryBus)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, new(memoryBus)) })
	})
}

// pattern returns n bytes whose order can be checked.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)
	}
	return b
}

// unsized hides the length of a reader from http.NewRequest.
type unsized struct{ io.Reader }

func TestBodiesArriveWhole(t *testing.T) {
	for _, size := range []int{0, 1, maxChunk - 1, maxChunk, maxChunk + 1, 5 << 20} {
		for _, sized := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				want := pattern(size)
				c := start(t, new(memoryBus), func(w http.ResponseWriter, r *http.Request) {
					if sized && r.ContentLength != int64(size) {
						t.Errorf("content length %d, want %d", r.ContentLength, size)
					}
					_, _ = io.Copy(w, r.Body)
				})
				var body io.Reader = bytes.NewReader(want)
				if !sized {
					body = unsized{body}
				}
				resp, err := c.Post("http://localhost/", "text/plain", body)
				require.NoError(t, err)
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, want) {
					t.Errorf("size %d, sized %t: %d bytes (%v), want the same", size, sized, len(got), err)
				}
			})
		}
	}
}

func TestASlowReaderSlowsTheWriterDown(t *testing.T) {
	bubble(t, "of a response", func(t *testing.T, b *memoryBus) {
		var wrote atomic.Int64
		c := start(t, b, func(w http.ResponseWriter, _ *http.Request) {
			for {
				n, err := w.Write(pattern(1000))
				if err != nil {
					return
				}
				wrote.Add(int64(n))
			}
		})
		resp, err := c.Get("http://localhost/")
		require.NoError(t, err)
		defer resp.Body.Close()
		for read := int64(0); read < 16*maxChunk; {
			synctest.Wait()
			if ahead := wrote.Load() - read; ahead > (window+4)*maxChunk {
				t.Fatalf("%d bytes were written and not read", ahead)
			}
			n, err := io.CopyN(io.Discard, resp.Body, 10_000)
			require.NoError(t, err)
			read += n
		}
	})
	bubble(t, "of a request", func(t *testing.T, b *memoryBus) {
		var sent atomic.Int64
		goOn := make(chan struct{})
		c := start(t, b, func(_ http.ResponseWriter, r *http.Request) {
			<-goOn
			_, _ = io.Copy(io.Discard, r.Body)
		})
		body := io.LimitReader(readerFunc(func(p []byte) (int, error) {
			sent.Add(int64(len(p)))
			return len(p), nil
		}), 40*maxChunk)
		done := make(chan error)
		go func() {
			resp, err := c.Post("http://localhost/", "", body)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		synctest.Wait()
		if n := sent.Load(); n > (window+4)*maxChunk {
			t.Errorf("%d bytes were sent to a handler that reads nothing", n)
		}
		close(goOn)
		if err := <-done; err != nil || sent.Load() < 40*maxChunk {
			t.Errorf("%d bytes (%v)", sent.Load(), err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTheHandlersContextEnds(t *testing.T) {
	// leave ends a client's interest in a response, whose head it has.
	for name, leave := range map[string]func(b *memoryBus, resp *http.Response, cancel context.CancelFunc){
		"when the client closes the body":   func(_ *memoryBus, resp *http.Response, _ context.CancelFunc) { resp.Body.Close() },
		"when the client's context is done": func(_ *memoryBus, _ *http.Response, cancel context.CancelFunc) { cancel() },
		"when the client is cut off": func(b *memoryBus, _ *http.Response, _ context.CancelFunc) {
			b.set(func(string, message) []message { return nil })
		},
		"when the client's process has ended": func(b *memoryBus, _ *http.Response, _ context.CancelFunc) {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.receivers, "_INBOX.1")
			b.deliver = dropTo("_INBOX.2")
		},
	} {
		bubble(t, name, func(t *testing.T, b *memoryBus) {
			ended := make(chan error, 1)
			c := start(t, b, func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				ended <- r.Context().Err()
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
			require.NoError(t, err)
			resp, err := c.Do(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			leave(b, resp, cancel)
			begun := time.Now()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			checkTook(t, time.Since(begun))
		})
	}
}

// dropTo returns a memoryBus.deliver that loses the messages to a subject.
func dropTo(subject string) func(string, message) []message {
	return func(to string, m message) []message {
		if to == subject {
			return nil
		}
		return []message{m}
	}
}

// checkTook checks the time until the absence of the other side was noticed.
func checkTook(t *testing.T, took time.Duration) {
	limit := 12 * time.Second
	if strings.Contains(t.Name(), "process_has_ended") {
		limit = 6 * time.Second
	}
	if took > limit {
		t.Errorf("after %s, want %s at most", took, limit)
	}
}

func TestTheClientNotices(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(w http.ResponseWriter, r *http.Request)
		happens func(b *memoryBus, s *Server) // once the client has the head
		want    string
	}{
		{"that the server closes", nil, func(_ *memoryBus, s *Server) { s.Close() }, "the server closed"},
		{"that the server is cut off", nil, func(b *memoryBus, _ *Server) {
			b.set(func(string, message) []message { return nil })
		}, "does not answer"},
		{"that the server's process has ended", nil, func(b *memoryBus, _ *Server) {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.receivers, "_INBOX.2")
			b.deliver = dropTo("_INBOX.1")
		}, "does not answer"},
		{"that the handler aborts", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(pattern((window + 4) * maxChunk))
			panic(http.ErrAbortHandler)
		}, nil, "the other side closed the connection"},
		{"that the handler panics", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(pattern(maxChunk))
			panic("a mistake")
		}, nil, "the other side closed the connection"},
	} {
		bubble(t, test.name, func(t *testing.T, b *memoryBus) {
			h := test.handler
			if h == nil {
				h = func(w http.ResponseWriter, r *http.Request) {
					_, _ = w.Write(pattern(10))
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			}
			s, err := serve(b, subject, http.HandlerFunc(h), quiet)
			require.NoError(t, err)
			defer s.Close()
			resp, err := client(b).Get("http://localhost/")
			require.NoError(t, err)
			defer resp.Body.Close()
			if test.happens != nil {
				synctest.Wait()
				test.happens(b, s)
			}
			begun := time.Now()
			_, err = io.ReadAll(resp.Body)
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want ErrLost: %s", err, test.want)
			}
			checkTook(t, time.Since(begun))
		})
	}
}

func TestIdleResponsesStayOpen(t *testing.T) {
	bubble(t, "for an hour", func(t *testing.T, b *memoryBus) {
		c := start(t, b, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "a")
			http.NewResponseController(w).Flush()
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "b")
		})
		resp, err := c.Get("http://localhost/")
		require.NoError(t, err)
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); string(got) != "ab" || err != nil {
			t.Errorf("%q (%v)", got, err)
		}
	})
}

func TestNoProgressEndsARequest(t *testing.T) {
	bubble(t, "of a client that does not read", func(t *testing.T, b *memoryBus) {
		ended := make(chan error)
		c := start(t, b, func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(pattern((window + 4) * maxChunk))
			ended <- err
		})
		resp, err := c.Get("http://localhost/")
		require.NoError(t, err)
		defer resp.Body.Close()
		if err := <-ended; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "reads nothing") {
			t.Error(err)
		}
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
	bubble(t, "of a client that does not send", func(t *testing.T, b *memoryBus) {
		c := start(t, b, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "nothing of the body arrived") {
				t.Error(err)
			}
		})
		body, silent := io.Pipe()
		defer silent.Close()
		resp, err := c.Post("http://localhost/", "", body)
		require.NoError(t, err)
		resp.Body.Close()
	})
}
