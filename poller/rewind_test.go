package poller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// delivered returns the ids of the events that a function produces.
func (w *world) delivered(during func()) []string {
	before := len(w.events)
	during()
	var ids []string
	for _, e := range w.events[before:] {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestARewoundStreamDeliversAgainWhatLiesBehind(t *testing.T) {
	detections := checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}
	begin := func(t *testing.T) (w *world, times []int64, ids []string) {
		w = newWorld(t)
		w.mustPoll()
		for range 20 {
			w.clock += 60_000
			times = append(times, w.clock)
			r := w.add(w.clock)
			ids = append(ids, fmt.Sprintf("%d-%d", r.id, r.modTime))
		}
		w.clock += 1000
		got := w.delivered(w.mustPoll)
		require.True(t, slices.Equal(got, ids), "first", got, ids)
		return w, times, ids
	}
	rewind := func(t *testing.T, w *world, to int64) {
		t.Helper()
		w.titles = nil // what comes again comes as if it had not been seen
		require.NoError(t, poller.Rewind(t.Context(), w.state, detections, time.UnixMilli(to)))
	}
	t.Run("each version once, with the id that it had, by the source that runs", func(t *testing.T) {
		w, times, ids := begin(t)
		rewind(t, w, times[7])
		assert.EqualSlices(t, w.delivered(w.mustPoll), ids[7:])
		for range 40 {
			got := w.delivered(w.mustPoll)
			require.True(t, got == nil, "later polls deliver", got)
		}
	})
	t.Run("and by one that starts", func(t *testing.T) {
		w, times, ids := begin(t)
		rewind(t, w, times[15])
		w.restart()
		assert.EqualSlices(t, w.delivered(w.mustPoll), ids[15:])
	})
	t.Run("as updated and without changes", func(t *testing.T) {
		w, times, _ := begin(t)
		rewind(t, w, times[19])
		w.mustPoll()
		e := w.events[len(w.events)-1]
		assert.True(t, e.Action() == "updated" && string(e.Data()) == fmt.Sprintf(`{"detection":%s,"lifecycle":{"first_seen":%d}}`, w.sorted()[19].raw, times[19]), e.Type, string(e.Data()))
	})
	t.Run("from before the stream's start, too", func(t *testing.T) {
		w := newWorld(t)
		old := w.add(w.clock - 3600_000)
		w.mustPoll()
		rewind(t, w, old.modTime-1)
		assert.EqualSlices(t, w.delivered(w.mustPoll), []string{fmt.Sprintf("%d-%d", old.id, old.modTime)})
	})
	t.Run("a failure on the way repeats a page at most", func(t *testing.T) {
		w, times, ids := begin(t)
		rewind(t, w, times[0])
		var got []string
		for requests := 2; ; requests++ {
			left := requests
			w.between = func() { left--; w.failing = left < 0 }
			var err error
			got = append(got, w.delivered(func() { err = w.poll() })...)
			if err == nil {
				break
			}
		}
		seen := make(map[string]int)
		for _, id := range got {
			seen[id]++
		}
		for _, id := range ids {
			assert.True(t, seen[id] != 0, id, "did not come again")
		}
		again := len(got) - len(ids)
		assert.True(t, again <= 2*w.options.PageSize, again, "events came more than once")
	})
	t.Run("a time that was not reached yet changes nothing", func(t *testing.T) {
		w, _, _ := begin(t)
		rewind(t, w, w.clock+3600_000)
		got := w.delivered(w.mustPoll)
		assert.True(t, got == nil, got)
	})
	t.Run("also if the source commits meanwhile, but not for ever", func(t *testing.T) {
		for commits, want := range map[int]error{9: nil, 10: checkpoint.ErrFenced} {
			w, times, ids := begin(t)
			w.titles = nil
			left := commits
			w.state.fail = func() (bool, bool) {
				if left--; left >= 0 {
					w.state.position = append(w.state.position, ' ')
				}
				return false, false
			}
			assert.ErrorIs(t, poller.Rewind(t.Context(), w.state, detections, time.UnixMilli(times[7])), want, "after", commits, "commits")
			got := w.delivered(w.mustPoll)
			assert.True(t, (want != nil || slices.Equal(got, ids[7:])) && (want == nil || got == nil), commits, "commits", got)
		}
	})
	t.Run("a stream that was never read cannot be", func(t *testing.T) {
		w := newWorld(t)
		err := poller.Rewind(t.Context(), w.state, detections, time.UnixMilli(5))
		assert.ErrorIs(t, err, poller.ErrNoPosition)
	})
	t.Run("an unknown stream cannot be", func(t *testing.T) {
		w, _, _ := begin(t)
		for _, stream := range []string{"", "detection", "records", "events"} {
			assert.Error(t, poller.Rewind(context.Background(), w.state, checkpoint.Source{Appliance: "hq", Stream: stream}, time.UnixMilli(5)), stream, "is rewound")
		}
	})
}

func TestVerifyReportsHowDetectionsDiffer(t *testing.T) {
	difference := func(kind string, r *modelRow, shown, journalled int64) poller.Difference {
		return poller.Difference{Kind: kind, Stream: "detections", ID: fmt.Sprint(r.id), Shown: shown, Journalled: journalled}
	}
	for name, c := range map[string]struct {
		change func(w *world, r *modelRow) []poller.Difference
		same   int
	}{
		"not at all": {same: 10},
		"one that was never read, though the position is behind it": {same: 10, change: func(w *world, _ *modelRow) []poller.Difference {
			late := w.add(w.clock - 7*60_000)
			return []poller.Difference{difference(poller.DiffMissing, late, late.modTime, 0)}
		}},
		"one that is yet to be read": {same: 10, change: func(w *world, _ *modelRow) []poller.Difference {
			w.clock += 1000
			news := w.add(w.clock)
			return []poller.Difference{difference("pending", news, news.modTime, 0)}
		}},
		"a version that is yet to be read": {same: 9, change: func(w *world, r *modelRow) []poller.Difference {
			w.clock += 1000
			w.touch(r, w.clock)
			return []poller.Difference{difference("pending", r, w.clock, r.modTime)}
		}},
		"an older version": {same: 10, change: func(w *world, r *modelRow) []poller.Difference {
			w.touch(r, r.modTime-5)
			return nil
		}},
		"one that is gone": {same: 9, change: func(w *world, r *modelRow) []poller.Difference {
			w.hide(r)
			return nil
		}},
		"one that is a dead letter": {same: 9, change: func(w *world, r *modelRow) []poller.Difference {
			w.clock += 1000
			dead := *r
			dead.huge = true
			w.touch(&dead, w.clock)
			w.mustPoll()
			return []poller.Difference{difference("dead", r, w.clock, w.clock)}
		}},
		"what began before the time asked for does not count": {same: 10, change: func(w *world, _ *modelRow) []poller.Difference {
			w.add(w.clock - 3600_000)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Start = func(now time.Time) time.Time { return now.Add(-2 * time.Hour) }
			w.restart()
			w.mustPoll()
			since := w.clock
			var rows []*modelRow
			for range 10 {
				w.clock += 60_000
				rows = append(rows, w.add(w.clock))
			}
			w.clock += 1000
			w.mustPoll()
			var want []poller.Difference
			if c.change != nil {
				want = c.change(w, rows[4])
			}
			var found []poller.Difference
			pages := 0
			v, err := poller.VerifyDetections(t.Context(), w.model, w.state, w.options, time.UnixMilli(since), poller.VerifyReport{
				Progress: func(string, int, time.Time) { pages++ },
				Found:    func(d poller.Difference) { found = append(found, d) },
			})
			require.NoError(t, err)
			assert.EqualSlices(t, found, want, "found")
			assert.True(t, v.Same == c.same && v.Stream == "detections" && v.Since.UnixMilli() == since && pages != 0, v, pages, "pages")
			got := w.delivered(w.mustPoll)
			assert.True(t, len(got) <= 1, "the source delivers", got, "afterwards")
		})
	}
	t.Run("a version that is read meanwhile is not a difference", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		since := w.clock
		for range 10 {
			w.clock += 60_000
			w.add(w.clock)
		}
		polled := false
		w.between = func() {
			if !polled && w.requests > 3 {
				polled = true
				w.mustPoll()
			}
		}
		_, err := poller.VerifyDetections(t.Context(), w.model, w.state, w.options, time.UnixMilli(since), poller.VerifyReport{
			Progress: func(string, int, time.Time) {},
			Found:    func(d poller.Difference) { t.Errorf("found %+v", d) },
		})
		assert.NoError(t, err)
		assert.True(t, polled, "polled")
	})
}
