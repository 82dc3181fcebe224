package poller_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// found reports whether a row became an event.
func (w *world) found(r *modelRow) bool {
	for _, e := range w.events {
		if e.Subject == strconv.FormatInt(r.id, 10) {
			return true
		}
	}
	return false
}

// polls polls until nothing is under way, and returns how many polls that took.
func (w *world) polls() (n int) {
	w.Helper()
	for n = 1; ; n++ {
		next, err := w.source.Poll(context.Background())
		if err != nil {
			w.Fatalf("poll: %v", err)
		}
		if next == poller.Idle {
			return n
		}
		if n == 1000 {
			w.Fatalf("the sweep does not end")
		}
	}
}

// observed calls search before each search.
type observed struct {
	*model
	search func(appliance.Search)
}

func (o *observed) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	o.search(s)
	return o.model.SearchDetections(ctx, s, page)
}

func TestASweepReadsItsRangeAndNoMore(t *testing.T) {
	for _, inclusive := range []bool{false, true} {
		w := newWorld(t)
		w.inclusive = inclusive
		w.options.Start = func(time.Time) time.Time { return time.Time{} }
		w.restart()
		w.polls()
		w.clock += 100 * 3600_000
		w.add(w.clock)
		w.polls()
		w.clock += w.options.ReconcileEvery.Milliseconds()
		back := w.clock - w.options.ReconcileBack.Milliseconds()
		before, first := w.add(back-60_000), w.add(back)
		w.polls()
		assert.False(t, w.found(before), "inclusive", inclusive, "a version from before the range was found")
		assert.True(t, w.found(first), "inclusive", inclusive, "the first one in it")
	}
	t.Run("nothing from before the start is read", func(t *testing.T) {
		w := newWorld(t)
		for i := range 500 {
			w.add(w.clock - int64(i+1)*1000)
		}
		w.restart()
		w.polls()
		w.clock += w.options.ReconcileEvery.Milliseconds()
		late := w.add(w.clock - 3600_000)
		requests := w.requests
		w.polls()
		if n := w.requests - requests; n > 10 || !w.found(late) {
			t.Errorf("a sweep took %d requests, and found the late version: %t", n, w.found(late))
		}
	})
	t.Run("what is new when it has begun is left to the polls", func(t *testing.T) {
		w := newWorld(t)
		w.titles = nil
		w.polls()
		for range 20 {
			w.clock += 60_000
			w.add(w.clock)
		}
		w.polls()
		w.clock += w.options.ReconcileEvery.Milliseconds()
		for n := 0; ; n++ {
			require.True(t, n != 20, "the sweep does not end")
			for range w.options.PageSize {
				w.clock += 1000
				w.add(w.clock)
			}
			if next, err := w.source.Poll(t.Context()); err != nil {
				t.Fatal(err)
			} else if next == poller.Idle {
				break
			}
		}
		w.judge()
	})
}

func TestAClockThatWentBackIsFollowedByASweep(t *testing.T) {
	const hour = 3600_000
	begin := func(t *testing.T, start time.Time) *world {
		w := newWorld(t)
		w.options.Start = func(time.Time) time.Time { return start }
		w.restart()
		w.polls()
		w.clock += 2 * hour
		w.add(w.clock)
		w.polls()
		return w
	}
	now := time.UnixMilli(newModel().clock)
	t.Run("it finds what was written before the change was seen", func(t *testing.T) {
		w := begin(t, time.Time{})
		w.clock -= hour
		unseen := w.add(w.clock)
		w.clock += hour / 2
		w.polls()
		assert.True(t, w.found(unseen), "it was not found")
	})
	t.Run("it begins again if one was under way", func(t *testing.T) {
		w := begin(t, time.Time{})
		for range 50 {
			w.clock += 1000
			w.add(w.clock)
		}
		w.polls()
		w.clock += w.options.ReconcileEvery.Milliseconds()
		for range 5 { // pages of the sweep
			require.Equal(t, require.Value(w.source.Poll(t.Context()))(t), poller.Soon, "no sweep is under way")
		}
		w.clock -= w.options.ReconcileEvery.Milliseconds() + hour
		unseen := w.add(w.clock)
		w.clock += hour / 2
		w.polls()
		assert.True(t, w.found(unseen), "it was not found")
	})
	t.Run("it reads an overlap from before the start", func(t *testing.T) {
		w := begin(t, now)
		w.clock -= 3 * hour
		unseen := w.add(w.clock)
		w.clock += w.options.Overlap.Milliseconds() / 2
		w.polls()
		assert.True(t, w.found(unseen), "it was not found")
	})
	t.Run("the sweep itself sees the change", func(t *testing.T) {
		w := begin(t, time.Time{})
		w.clock += w.options.ReconcileEvery.Milliseconds()
		w.add(w.clock)
		late := w.add(w.clock - 7*hour)
		seen := false
		w.client = &observed{w.model, func(s appliance.Search) {
			if s.ModTime < w.clock-24*hour && !seen { // of the sweep
				seen = true
				w.clock -= hour
			}
		}}
		w.restart()
		w.polls()
		fresh := w.add(w.clock)
		w.polls()
		assert.True(t, w.found(late), "the late version was found")
		assert.True(t, w.found(fresh), "the next one")
	})
}
