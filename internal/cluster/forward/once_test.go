package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/require"
)

func TestRefusedRequests(t *testing.T) {
	bubble(t, "nobody serves the subject", func(t *testing.T, b *memoryBus) {
		if _, err := client(b).Get("http://localhost/"); !errors.Is(err, ErrNobody) {
			t.Errorf("%v, want ErrNobody", err)
		}
	})
	bubble(t, "the server's subject does not answer", func(t *testing.T, b *memoryBus) {
		if _, err := b.subscribe(subject, func(message) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := client(b).Get("http://localhost/"); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
	})
	bubble(t, "the server is busy", func(t *testing.T, b *memoryBus) {
		s, err := serve(b, subject, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), quiet)
		require.NoError(t, err)
		defer s.Close()
		for range maxRequests {
			go func() {
				if _, err := client(b).Get("http://localhost/"); !errors.Is(err, ErrLost) {
					t.Errorf("%v, want ErrLost", err)
				}
			}()
		}
		synctest.Wait()
		if _, err := client(b).Get("http://localhost/"); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		s.Close()
		if _, err := client(b).Get("http://localhost/"); !errors.Is(err, ErrNobody) {
			t.Errorf("%v, want ErrNobody", err)
		}
	})
	bubble(t, "the request's body fails", func(t *testing.T, b *memoryBus) {
		c := start(t, b, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("the truncated body has no error")
			}
		})
		broken := errors.New("the disk failed")
		if _, err := c.Post("http://localhost/", "", io.MultiReader(bytes.NewReader(pattern(10)), readerFunc(func([]byte) (int, error) { return 0, broken }))); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	})
}

func TestARequestIsCarriedOutOnce(t *testing.T) {
	bubble(t, "although several servers accept it", func(t *testing.T, b *memoryBus) {
		var called atomic.Int32
		h := func(w http.ResponseWriter, _ *http.Request) {
			called.Add(1)
			time.Sleep(time.Minute) // until the other one has given up
			_, _ = w.Write(pattern(12 * maxChunk))
		}
		start(t, b, h)
		c := start(t, b, h)
		resp, err := c.Get("http://localhost/")
		require.NoError(t, err)
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); len(got) != 12*maxChunk || err != nil {
			t.Errorf("%d bytes (%v)", len(got), err)
		}
		time.Sleep(time.Minute)
		if n := called.Load(); n != 1 {
			t.Errorf("carried out %d times", n)
		}
	})
	bubble(t, "and never if its client has left", func(t *testing.T, b *memoryBus) {
		c := start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		ctx, cancel := context.WithCancel(t.Context())
		b.set(func(to string, m message) []message {
			if to == subject {
				cancel()
				synctest.Wait()
			}
			return []message{m}
		})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", nil)
		require.NoError(t, err)
		if _, err := c.Do(r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// A body never ends early without an error, whatever the network does.
func TestLostAndRepeatedMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 12*maxChunk).Draw(rt, "size")
		faults := rapid.SliceOfN(rapid.IntRange(0, 30), 0, 40).Draw(rt, "faults")
		synctest.Test(t, func(t *testing.T) {
			b := new(memoryBus)
			c := start(t, b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
			var n atomic.Int32
			b.set(func(_ string, m message) []message {
				if i := int(n.Add(1)) - 1; i < len(faults) {
					switch faults[i] {
					case 0:
						return nil
					case 1, 2, 3:
						return []message{m, m}
					}
				}
				return []message{m}
			})
			want := pattern(size)
			resp, err := c.Post("http://localhost/", "", bytes.NewReader(want))
			if err != nil {
				if !errors.Is(err, ErrLost) {
					t.Error(err)
				}
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err == nil && !bytes.Equal(got, want) || !bytes.HasPrefix(want, got) {
				t.Errorf("%d of %d bytes without an error", len(got), size)
			}
			if err != nil && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
}
