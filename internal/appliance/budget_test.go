package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// idle checks that the budget is unused.
func (b *Budget) idle(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free != b.size || len(b.held) > 0 || b.over || len(b.growing)+len(b.waiters[0])+len(b.waiters[1]) > 0 {
		t.Errorf("%d of %d bytes are free, %d appliances hold some, overdrawn: %t", b.free, b.size, len(b.held), b.over)
	}
}

func TestPagesOfAnySizeAreReadWithinABudget(t *testing.T) {
	const size = 256 << 10
	b := NewBudget(size)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 8 {
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			// Some have more than the whole budget, and grow to it byte by byte.
			n := rand.IntN(3 * size)
			io.WriteString(w, `[{"a":"`)
			for part := strings.Repeat("x", 16<<10); n > 0; n -= len(part) {
				io.WriteString(w, part)
			}
			io.WriteString(w, `"}]`)
		}, func(o *Options) { o.Timeout = time.Minute }).Within(b)
		for stream := range 3 {
			client := c
			if stream > 0 {
				client = c.Background()
			}
			all.Go(func() {
				var page Page
				page.Bind()
				for n := range 5 {
					if err := client.SearchDetections(t.Context(), anySearch, &page); err != nil || len(page.Objects) != 1 {
						t.Errorf("appliance %d, page %d: %d objects, %v", i, n, len(page.Objects), err)
					}
					b.mu.Lock()
					held := int64(0)
					for _, n := range b.held {
						held += n
					}
					if held+b.free != size || b.free < 0 {
						t.Errorf("%d bytes are held and %d free, of %d", held, b.free, size)
					}
					b.mu.Unlock()
					page.Release()
				}
			})
		}
	}
	all.Wait()
	b.idle(t)
}

// owners makes appliances of a budget.
func owners(n int) []*link {
	all := make([]*link, n)
	for i := range all {
		all[i] = new(link)
	}
	return all
}

func TestWhoIsServedByABudget(t *testing.T) {
	type step struct {
		owner, class int
		n            int64
		grows        bool
		waits        bool
		overdraws    bool
	}
	for name, steps := range map[string][]step{
		"one page may have all of it":                           {{0, 0, 500, false, false, false}, {1, 0, 1, false, true, false}},
		"an appliance has a quarter, and no other waits for it": {{0, 0, 20, false, false, false}, {0, 0, 6, false, true, false}, {1, 0, 25, false, false, false}},
		"a page grows beyond that, one at a time":               {{0, 0, 20, false, false, false}, {0, 0, 30, true, false, true}, {1, 0, 20, false, false, false}, {1, 0, 30, true, true, false}, {2, 0, 5, true, false, false}},
		"a small page does not pass a large one that waits":     {{0, 0, 90, false, false, false}, {1, 1, 20, false, true, false}, {2, 1, 5, false, true, false}},
		"detections pass records":                               {{0, 0, 90, false, false, false}, {1, 1, 20, false, true, false}, {2, 0, 5, false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(100)
				all := owners(3)
				ctx, stop := context.WithCancel(t.Context())
				var waiting sync.WaitGroup
				var loans []func()
				for i, s := range steps {
					var got loan
					done := make(chan struct{})
					waiting.Go(func() {
						var err error
						if s.grows {
							got, err = b.grow(ctx, all[s.owner], s.n)
						} else {
							got, err = b.acquire(ctx, all[s.owner], s.class, s.n)
						}
						if err == nil {
							close(done)
						}
					})
					synctest.Wait()
					select {
					case <-done:
						if s.waits || got.overdraw != s.overdraws {
							t.Errorf("step %d got %+v", i, got)
						}
						loans = append(loans, func() { b.release(all[s.owner], got) })
					default:
						if !s.waits {
							t.Errorf("step %d waits", i)
						}
					}
				}
				stop()
				waiting.Wait()
				for _, release := range loans {
					release()
				}
				b.idle(t)
			})
		})
	}
}

func TestAnApplianceThatTricklesDoesNotKeepOthersWaiting(t *testing.T) {
	b := NewBudget(1 << 20)
	started, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `[{"a":"`+strings.Repeat("x", 2<<20))
		w.(http.Flusher).Flush()
		once.Do(func() { close(started) })
		<-end
		io.WriteString(w, `"}]`)
	}).Within(b)
	healthy := newClient(t, answer(200, "application/json", `[{"a":"`+strings.Repeat("x", 100<<10)+`"}]`)).Within(b)
	var trickling sync.WaitGroup
	for range 3 {
		trickling.Go(func() {
			var page Page
			page.Bind()
			defer page.Release()
			if err := slow.SearchDetections(t.Context(), anySearch, &page); err != nil {
				t.Error(err)
			}
		})
	}
	<-started
	var page Page
	page.Bind()
	for range 20 {
		if err := healthy.Background().SearchDetections(t.Context(), anySearch, &page); err != nil {
			t.Error(err)
		}
	}
	page.Release()
	close(end)
	trickling.Wait()
	b.idle(t)
}

func TestAPageKeepsNoMemoryOnceItIsReleased(t *testing.T) {
	b := NewBudget(1 << 20)
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf(`{"id":%d}`, i))
	}
	c := newClient(t, answer(200, "application/json", "["+strings.Join(rows, ",")+"]")).Within(b)
	var page Page
	page.Bind()
	for range 2 {
		if err := c.SearchDetections(t.Context(), Search{ModTime: 1, Limit: 100}, &page); err != nil || len(page.Objects) != 100 {
			t.Fatal(len(page.Objects), err)
		}
	}
	page.Release()
	if page.Objects != nil || page.body != nil {
		t.Error("it keeps memory")
	}
	b.idle(t)
}

// silence answers nothing for as long as a request may take.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAppliancesThatDoNotAnswerKeepNoOtherWaiting(t *testing.T) {
	rows := func(size int) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			body := `[{"a":"` + strings.Repeat("x", size) + `"}]`
			return &http.Response{
				StatusCode: 200, Request: r,
				Header:        http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
				ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		}
	}
	for _, c := range []struct {
		name   string
		before func(r *http.Request) (*http.Response, error) // how their first request went; nil: there was none
		down   func(r *http.Request) (*http.Response, error)
	}{
		{"which never answered", nil, silence},
		{"which had full pages before, from their second request on", rows(3 << 20), silence},
		{"which send a header and no body", rows(3 << 20), func(r *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, ContentLength: -1, Body: body}, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(16 << 20)
				client := func(answer *roundTrip) *Client {
					return newClientOf(t, func(o *Options) {
						o.URL, o.Timeout = "http://sensor.example", 30*time.Second
						o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return (*answer)(r) })
					}).Background().Within(b)
				}
				ask := func(c *Client, page *Page) error {
					page.Bind()
					defer page.Release()
					return c.AuditLog(t.Context(), 500, 0, page)
				}
				var all []func() error
				for range 30 {
					answer := roundTrip(c.before)
					dead, page := client(&answer), new(Page)
					if c.before != nil {
						if err := ask(dead, page); err != nil {
							t.Fatal(err)
						}
						answer = c.down
						if err := ask(dead, page); err == nil {
							t.Fatal("no error")
						}
					}
					answer = c.down
					all = append(all, func() error { return ask(dead, page) })
				}
				var down sync.WaitGroup
				for _, ask := range all {
					down.Go(func() {
						if err := ask(); err == nil {
							t.Error("no error")
						}
					})
				}
				synctest.Wait()
				answer := rows(1 << 20)
				healthy, read := client(&answer), make(chan error, 1)
				go func() { read <- ask(healthy, new(Page)) }()
				synctest.Wait()
				select {
				case err := <-read:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("an appliance that answers waits for those that do not")
					<-read
				}
				down.Wait()
				b.idle(t)
			})
		})
	}
}

func TestAPageThatGrowsWaitsNoLongerThanARequestMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4 << 20)
		body := `[{"a":"` + strings.Repeat("x", 1<<20) + `"}]`
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Timeout = "http://sensor.example", 30*time.Second
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				header := http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
				return respond(r, 200, header, body)
			})
		}).Within(b)
		// Others hold all but a little, and overdraw it.
		other := new(link)
		held, err := b.acquire(t.Context(), other, 0, b.size-2*smallBody)
		if err != nil {
			t.Fatal(err)
		}
		over, err := b.grow(t.Context(), other, b.size)
		if err != nil || !over.overdraw {
			t.Fatal(over, err)
		}
		var page Page
		page.Bind()
		defer page.Release()
		search := Search{ModTime: 1, Limit: 10}
		ended := make(chan error, 1)
		go func() { ended <- c.SearchDetections(t.Context(), search, &page) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, ErrNoMemory) {
				t.Errorf("error %v", err)
			}
		default:
			t.Error("it waits on")
		}
		b.release(other, over)
		b.release(other, held)
		// The next loan is of the size that the answer has shown.
		if err := c.loan(t.Context(), &page); err != nil {
			t.Fatal(err)
		}
		if page.loan.n < int64(smallBody)*2 {
			t.Errorf("the next loan is of %d bytes", page.loan.n)
		}
		if err := c.SearchDetections(t.Context(), search, &page); err != nil {
			t.Error(err)
		}
	})
}
