package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// ids calls Tail until it has yielded n events, and sends their ids.
func ids(t *testing.T, client *admin.Client, from admin.From, n int) <-chan []string {
	done := make(chan []string, 1)
	go func() {
		enough := errors.New("enough")
		var got []string
		err := client.Tail(t.Context(), from, func(e transform.Event) error {
			if got = append(got, e.ID); len(got) == n {
				return enough
			}
			return nil
		})
		assert.ErrorIs(t, err, enough, "after", len(got), "of", n, "events")
		done <- got
	}()
	return done
}

func upTo(first, last int) (ids []string) {
	for n := first; n <= last; n++ {
		ids = append(ids, strconv.Itoa(n))
	}
	return ids
}

func TestTheEndOfTheJournalIsReported(t *testing.T) {
	c := newControl(t)
	c.journal(t, 5, `{}`)
	client, _ := serve(t, c)
	var got []string
	done := errors.New("done")
	err := client.Tail(t.Context(), admin.From{Last: 2, Live: func() error {
		got = append(got, "live")
		c.journal(t, 1, `{}`)
		return nil
	}}, func(e transform.Event) error {
		if got = append(got, e.ID); e.ID == "6" {
			return done
		}
		return nil
	})
	want := []string{"4", "5", "live", "6"}
	assert.True(t, errors.Is(err, done) && slices.Equal(got, want), got, err, want)
	client, _ = serve(t, newControl(t))
	assert.ErrorIs(t, client.Tail(t.Context(), admin.From{Live: func() error { return done }}, nil), done)
}

func TestEventsAreTailed(t *testing.T) {
	for _, test := range []struct {
		name            string
		journal         int // events in the journal
		from            admin.From
		first, then, to int // the ids of those tailed, and how many are new
	}{
		{"since a time, and then new ones", 500, admin.From{Since: time.Unix(101, 0)}, 101, 3, 503},
		{"without a time, only new ones", 5, admin.From{}, 6, 2, 7},
		{"the last few, and then new ones", 5, admin.From{Last: 2}, 4, 1, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newControl(t)
			c.journal(t, test.journal, `{}`)
			client, _ := serve(t, c)
			want := upTo(test.first, test.to)
			tailed := ids(t, client, test.from, len(want))
			<-c.tailing
			c.journal(t, test.then, `{}`)
			assert.EqualSlices(t, <-tailed, want)
		})
	}
	t.Run("large and with unusual white space", func(t *testing.T) {
		c := newControl(t)
		fill := "{\"a\":\r\n\t\"" + strings.Repeat("x", 3<<20) + "\"\n}"
		c.journal(t, 1, fill)
		client, _ := serve(t, c)
		enough := errors.New("enough")
		err := client.Tail(t.Context(), admin.From{Since: time.Unix(1, 0)}, func(e transform.Event) error {
			want := strings.NewReplacer("\r", " ", "\n", " ").Replace(fill)
			assert.Equal(t, string(e.Data()), want, "data of", len(e.Data()), "bytes", len(want))
			return enough
		})
		assert.ErrorIs(t, err, enough)
	})
}

func TestTailSendsServerSentEvents(t *testing.T) {
	c := newControl(t)
	e := event(t, 7, `{"detection":{}}`)
	c.tail = func(_ context.Context, yield func(transform.Event) error) error { return yield(e) }
	_, server := serve(t, c)
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/events", "", token)
	assert.Equal(t, answer.Header.Get("Content-Type"), "text/event-stream", "content type")
	assert.Equal(t, body, ":\n\nid: 7\nevent: io.ndrbridge.detection.created\ndata: "+string(e.Structured())+"\n\n")
}

func TestTailEnds(t *testing.T) {
	ignore := func(transform.Event) error { return nil }
	ended := func(t *testing.T, c *control) {
		t.Helper()
		for range c.tailing { // it is closed when Tail has returned
		}
	}
	t.Run("when the client leaves", func(t *testing.T) {
		c := newControl(t)
		client, _ := serve(t, c)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- client.Tail(ctx, admin.From{}, ignore) }()
		<-c.tailing
		leave()
		assert.NoError(t, <-done)
		ended(t, c)
	})
	t.Run("with an error when the server closes", func(t *testing.T) {
		c := newControl(t)
		client, server := serve(t, c)
		done := make(chan error)
		go func() { done <- client.Tail(t.Context(), admin.From{}, ignore) }()
		<-c.tailing
		require.NoError(t, server.Config.Close())
		assert.Error(t, <-done, "no error")
		ended(t, c)
	})
	t.Run("with an error when the bridge ends it", func(t *testing.T) {
		c := newControl(t)
		c.tail = func(context.Context, func(transform.Event) error) error { return nil }
		client, _ := serve(t, c)
		assert.ErrorContains(t, client.Tail(t.Context(), admin.From{}, ignore), "ended the stream")
	})
	t.Run("with the bridge's error", func(t *testing.T) {
		c := newControl(t)
		c.tail = func(_ context.Context, yield func(transform.Event) error) error {
			return errors.Join(yield(event(t, 1, `{}`)), errors.New("the state is\ndamaged"))
		}
		client, _ := serve(t, c)
		seen := 0
		err := client.Tail(t.Context(), admin.From{}, func(transform.Event) error { seen++; return nil })
		assert.True(t, message(err) == "the state is\ndamaged" && seen == 1, seen, "events", err)
	})
	t.Run("if a client never reads", func(t *testing.T) {
		c := newControl(t)
		c.journal(t, 16, `"`+strings.Repeat("x", 1<<20)+`"`)
		_, server := serve(t, c)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/events?since=1970-01-01T00:00:01Z", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer := require.Value(http.DefaultClient.Do(r))(t)
		defer answer.Body.Close()
		c.journal(t, 1, `{}`) // the journal accepts more meanwhile
		require.NoError(t, server.Config.Close())
		ended(t, c)
	})
}

func TestIdleTailSendsKeepAlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &control{tailing: make(chan struct{})}
		c.tail = func(ctx context.Context, _ func(transform.Event) error) error {
			<-ctx.Done()
			return nil
		}
		ctx, leave := context.WithTimeout(t.Context(), 46*time.Second)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/api/v1/events", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		admin.NewHandler(handler(c)).ServeHTTP(w, r)
		want := strings.Repeat(":\n\n", 4)
		assert.True(t, w.Body.String() == want && w.Flushed, w.Body, "want a comment at the start and every 15 s")
	})
}

func TestTailReportsWhyItFails(t *testing.T) {
	c := newControl(t)
	c.err = admin.ErrNotRunning
	_, server := serve(t, c)
	_, body := request(t, http.MethodGet, server.URL+"/api/v1/events", "", token)
	_, data, _ := strings.Cut(body, "event: problem\ndata: ")
	var p struct {
		Status int
		Detail string
	}
	err := json.Unmarshal([]byte(data), &p)
	assert.True(t, err == nil && p.Status == http.StatusConflict && p.Detail == c.err.Error(), body, err)
}
