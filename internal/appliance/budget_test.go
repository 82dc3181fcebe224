package appliance

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// idle checks that the budget is unused.
func (b *Budget) idle(t *testing.T) {
	t.Helper()
	assert.True(t, b.free.TryAcquire(b.size), "a page still has a part of the budget")
	assert.True(t, b.overdraw.TryAcquire(1) && b.overdrawAside.TryAcquire(1), "a page still has a part of the budget")
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
					err := client.SearchDetections(t.Context(), anySearch, &page)
					assert.True(t, err == nil && len(page.Objects) == 1, "appliance", i, "page", n, len(page.Objects), "objects", err)
					page.Release()
				}
			})
		}
	}
	all.Wait()
	b.idle(t)
}

func TestWhoIsServedByABudget(t *testing.T) {
	type step struct {
		appliance               int
		n                       int64
		grows, waits, overdraws bool
		aside                   bool
	}
	for name, steps := range map[string][]step{
		"one page may have all of it":                           {{n: 500}, {appliance: 1, n: 1, waits: true}},
		"an appliance has a quarter, and no other waits for it": {{n: 20}, {n: 6, waits: true}, {appliance: 1, n: 25}},
		"pages aside have a quarter together, and no stream waits for it": {
			{n: 20, aside: true}, {appliance: 1, n: 6, waits: true, aside: true}, {n: 25}, {appliance: 1, n: 25},
		},
		"a page aside has no more than its quarter": {{n: 500, aside: true}, {appliance: 1, n: 25}, {appliance: 2, n: 25}},
		"a page aside that grows keeps only those aside waiting": {
			{n: 30, grows: true, overdraws: true, aside: true}, {appliance: 1, n: 30, grows: true, overdraws: true}, {appliance: 2, n: 30, grows: true, waits: true, aside: true},
		},
		"a page grows beyond that, one at a time":           {{n: 20}, {n: 30, grows: true, overdraws: true}, {appliance: 1, n: 30, grows: true, waits: true}, {appliance: 2, n: 5, grows: true}},
		"a small page does not pass a large one that waits": {{n: 90}, {appliance: 1, n: 20, waits: true}, {appliance: 2, n: 5, waits: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(100)
				var appliances [3]*Client
				for i := range appliances {
					appliances[i] = new(Client).Within(b)
				}
				ctx, stop := context.WithCancel(t.Context())
				var waiting sync.WaitGroup
				var loans []*loan
				for i, s := range steps {
					client := appliances[s.appliance]
					if s.aside {
						client = client.Aside()
					}
					got := client.loan
					done := make(chan struct{})
					waiting.Go(func() {
						request := got.acquire
						if s.grows {
							request = got.grow
						}
						if request(ctx, s.n) == nil {
							close(done)
						}
					})
					synctest.Wait()
					select {
					case <-done:
						assert.False(t, s.waits, "step", i, got)
						assert.Equal(t, got.overdraws, s.overdraws, "step", i, got)
						loans = append(loans, &got)
					default:
						assert.True(t, s.waits, "step", i, "waits")
					}
				}
				stop()
				waiting.Wait()
				for _, l := range loans {
					l.release()
				}
				b.idle(t)
			})
		})
	}
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
		err := c.SearchDetections(t.Context(), Search{ModTime: 1, Limit: 100}, &page)
		require.True(t, err == nil && len(page.Objects) == 100, len(page.Objects), err)
	}
	page.Release()
	assert.True(t, page.Objects == nil && page.body == nil, "it keeps memory")
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
						require.NoError(t, ask(dead, page))
						answer = c.down
						err := ask(dead, page)
						require.True(t, err != nil, "no")
					}
					answer = c.down
					all = append(all, func() error { return ask(dead, page) })
				}
				var down sync.WaitGroup
				for _, ask := range all {
					down.Go(func() {
						assert.Error(t, ask(), "no error")
					})
				}
				synctest.Wait()
				answer := rows(1 << 20)
				healthy, read := client(&answer), make(chan error, 1)
				go func() { read <- ask(healthy, new(Page)) }()
				synctest.Wait()
				select {
				case err := <-read:
					assert.NoError(t, err)
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

func TestARequestAsideHoldsNoMemoryWhileItWaitsForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(16 << 20)
		client := func(rateLimit float64) *Client {
			return newClientOf(t, func(o *Options) {
				o.URL, o.RateLimit = "http://sensor.example", rateLimit
				o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return respond(r, 200, nil, "[]") })
			}).Within(b).Aside()
		}
		ask := func(c *Client, page *Page) {
			page.Bind()
			assert.NoError(t, c.AuditLog(t.Context(), 500, 0, page))
			page.Release()
		}
		slow, fast, began := client(4), client(0), time.Now()
		ask(slow, new(Page))
		ask(fast, new(Page))
		var waiting sync.WaitGroup
		waiting.Go(func() { ask(slow, new(Page)) })
		synctest.Wait()
		require.True(t, b.aside.TryAcquire(b.size/4), "it holds memory")
		b.aside.Release(b.size / 4)
		ask(fast, new(Page))
		assert.Equal(t, time.Since(began), 0, "another appliance's request waited")
		waiting.Wait()
		assert.Equal(t, time.Since(began), time.Second)
		b.idle(t)
	})
}

func TestAPageAsideThatHangsKeepsNoDetectionsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4 << 20)
		body := `[{"a":"` + strings.Repeat("x", 2<<20) + `"}]` // more than a quarter
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Timeout = "http://sensor.example", 30*time.Second
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				header := http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
				if !strings.HasSuffix(r.URL.Path, "/notes") {
					return respond(r, 200, header, body)
				}
				rest, w := io.Pipe()
				context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
				return &http.Response{
					StatusCode: 200, Header: header, Request: r, ContentLength: -1, Body: io.NopCloser(io.MultiReader(strings.NewReader(body), rest)),
				}, nil
			})
		}).Within(b)
		var hangs Page
		hangs.Bind()
		defer hangs.Release()
		for range 2 { // a second request is made with a loan of the size that the first has shown
			ended := make(chan error, 1)
			go func() {
				_, err := c.Aside().Note(t.Context(), 12, &hangs)
				ended <- err
			}()
			synctest.Wait()
			var page Page
			page.Bind()
			began := time.Now()
			assert.NoError(t, c.SearchDetections(t.Context(), Search{ModTime: 1, Limit: 10}, &page))
			assert.Equal(t, time.Since(began), 0, "the detections waited")
			page.Release()
			assert.Error(t, <-ended)
		}
	})
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
		other := new(Client).Within(b).loan
		require.NoError(t, other.acquire(t.Context(), b.size-2*smallBody))
		require.NoError(t, other.grow(t.Context(), b.size))
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
			assert.ErrorIs(t, err, ErrNoMemory)
		default:
			t.Error("it waits on")
		}
		other.release()
		// The next loan is of the size that the answer has shown.
		require.NoError(t, c.borrow(t.Context(), &page))
		assert.True(t, page.loan.n >= int64(smallBody)*2, "the next loan is of", page.loan.n, "bytes")
		assert.NoError(t, c.SearchDetections(t.Context(), search, &page))
	})
}
