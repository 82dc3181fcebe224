package appliance

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
)

// limitedClient is a client limited to one request per second, and a record of what it
// has sent.
type limitedClient struct {
	*testing.T
	urgent, background *Client
	start              time.Time
	wg                 sync.WaitGroup

	mu   sync.Mutex
	sent []string
	at   []time.Duration
}

// newQueue has used up what may be sent at once: whatever follows lines up.
func newQueue(t *testing.T) *limitedClient {
	q := &limitedClient{T: t, start: time.Now()}
	q.urgent = newClientOf(t, func(o *Options) {
		o.URL, o.RateLimit = "http://sensor.example", 1
		o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.sent = append(q.sent, strings.TrimPrefix(r.URL.Path, "/api/v1/detections/"))
			q.at = append(q.at, time.Since(q.start))
			return respond(r, 200, nil, `{}`)
		})
	})
	q.background = q.urgent.Background()
	q.ask(t.Context(), q.urgent, 0, 1)
	q.wait()
	q.sent, q.at = nil, nil
	return q
}

// ask lets a stream make n requests for id, each after the answer to the last.
// It returns when the first stands in line.
func (q *limitedClient) ask(ctx context.Context, c *Client, id int64, n int) {
	q.wg.Go(func() {
		for range n {
			err := c.Detection(ctx, id, new(Page))
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*Error](err)
			assert.True(q, ok && e.Status == 0 && (errors.Is(e, context.Canceled) || errors.Is(e, context.DeadlineExceeded)), id, err)
		}
	})
	synctest.Wait()
}

// wait returns the requests sent, once all streams have ended.
func (q *limitedClient) wait() string {
	q.wg.Wait()
	return strings.Join(q.sent, " ")
}

func TestStreamsOfOnePriorityTakeTurns(t *testing.T) {
	for _, line := range []string{"urgent", "background"} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				c := map[string]*Client{"urgent": q.urgent, "background": q.background}[line]
				for id := range int64(3) {
					q.ask(t.Context(), c, id+1, 3)
				}
				assert.Equal(t, q.wait(), "1 2 3 1 2 3 1 2 3", "sent")
				for i, at := range q.at {
					assert.Equal(t, at, time.Duration(i+1)*time.Second, "request", i+1, "was sent after")
				}
			})
		})
	}
}

func TestAnUrgentRequestOvertakesThoseInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for id := range int64(4) {
			q.ask(t.Context(), q.background, id+1, 1)
		}
		q.ask(t.Context(), q.urgent, 8, 1)
		q.ask(t.Context(), q.urgent, 9, 1)
		if sent := q.wait(); sent != "1 8 9 2 3 4" { // 1 stood in front
			t.Errorf("sent %s", sent)
		}
	})
}

func TestABusyUrgentStreamDoesNotStopThoseInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.ask(t.Context(), q.urgent, 9, 4)
		q.ask(t.Context(), q.background, 1, 2)
		q.ask(t.Context(), q.background, 2, 2)
		assert.Equal(t, q.wait(), "9 1 9 2 9 1 9 2", "sent")
	})
}

func TestACancelledCallerLeavesTheQueue(t *testing.T) {
	for name, test := range map[string]struct {
		who  int64
		sent string
		last time.Duration
	}{
		"from the front":      {1, "2 3 4", 3 * time.Second},
		"from the middle":     {3, "1 2 4", 3 * time.Second},
		"after it had a turn": {5, "1 2 3 4", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				for id := range int64(4) {
					ctx, cancel := context.WithCancel(t.Context())
					q.ask(ctx, q.background, id+1, 1)
					if id+1 == test.who {
						time.AfterFunc(100*time.Millisecond, cancel)
					} else {
						t.Cleanup(cancel)
					}
				}
				sent := q.wait()
				assert.True(t, sent == test.sent && q.at[len(q.at)-1] == test.last, "sent", sent, q.at)
			})
		})
	}
	t.Run("when its time is up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			for id := range int64(3) {
				q.ask(ctx, q.background, id+1, 1)
			}
			q.ask(t.Context(), q.background, 4, 1)
			sent := q.wait()
			assert.True(t, sent == "1 4" && q.at[1] == 2*time.Second, "sent", sent, q.at)
		})
	})
}

func TestStreamsAsideShareAQuarterOfTheRateLimit(t *testing.T) {
	for _, others := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			if others { // which use all of the rate limit
				q.ask(t.Context(), q.urgent, 9, 40)
				q.ask(t.Context(), q.background, 8, 40)
			}
			for id := range int64(3) { // each with a client of its own
				q.ask(t.Context(), q.urgent.Aside(), id+1, 3)
			}
			sent := strings.Fields(q.wait())
			var aside []time.Duration
			for i, id := range sent {
				if id < "8" {
					aside = append(aside, q.at[i])
				}
			}
			assert.Equal(t, len(aside), 9, "requests aside")
			for i, at := range aside {
				assert.True(t, at >= time.Duration(4*i)*time.Second, "request", i+1, "was sent after", at, "while others are busy:", others)
			}
		})
	}
}

func TestAnUrgentRequestWaitsForAtMostOneAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for id := range int64(5) {
			q.ask(t.Context(), q.urgent.Aside(), id+1, 4)
			q.ask(t.Context(), q.background, 8, 4)
		}
		q.ask(t.Context(), q.urgent, 9, 12)
		sent := strings.Fields(q.wait())
		before, urgent := 0, 0 // requests since the last urgent one, and urgent ones
		for _, id := range sent {
			if id != "9" {
				before++
				continue
			}
			urgent++
			assert.True(t, before <= 1, before, "requests came before urgent request", urgent, "of", sent)
			before = 0
		}
		assert.Equal(t, urgent, 12, "urgent requests")
	})
}
