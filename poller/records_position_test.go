package poller_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheClockOfTheAppliance(t *testing.T) {
	t.Run("a local clock years away makes no difference", func(t *testing.T) {
		for _, years := range []int{-10, 10} {
			w := atMinute(t, 60, nil)
			w.local = w.local.AddDate(years, 0, 0)
			w.mustPoll()
			w.local = w.local.AddDate(-2*years, 0, 0)
			w.drain()
			w.judge(true)
		}
	})
	t.Run("when it goes back, what is stored from then on arrives, and little comes twice", func(t *testing.T) {
		w := atMinute(t, 100, nil)
		w.mustPoll()
		w.clock -= 20_000
		w.mustPoll()
		w.store(w.clock * 1000)
		w.store((w.clock - 30_000) * 1000)
		w.drain()
		w.judge(true)
		w.clock -= 3600_000
		w.mustPoll()
		w.store(w.clock * 1000)
		w.pass(time.Hour)
		w.drain()
		w.judge(false)
	})
}

func TestWhereAStreamOfRecordsBegins(t *testing.T) {
	ages := []int{1, 200, 40_000_000} // seconds; the last is more than a year
	for _, c := range []struct {
		name  string
		start func(now time.Time) time.Time
		first int // of the ages, how many arrive
	}{
		{"now", func(now time.Time) time.Time { return now }, 0},
		{"a time to come", func(now time.Time) time.Time { return now.Add(time.Hour) }, 0},
		{"100 seconds ago", func(now time.Time) time.Time { return now.Add(-100 * time.Second) }, 1},
		{"the beginning", func(time.Time) time.Time { return time.Time{} }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newRecordWorld(t)
			w.options.Start = c.start
			for i, age := range ages {
				w.store((w.clock - int64(age)*1000) * 1000).demanded = i < c.first
			}
			w.restart()
			w.between = func() { w.failing = w.until > 0 }
			_, _ = w.poll() // the first contact, and no more
			w.between, w.failing = func() {}, false
			w.pass(time.Hour)
			w.restart() // what start means is not asked again
			w.store(w.clock * 1000)
			w.drain()
			w.judge(true)
			assert.Equal(t, len(w.arrived), c.first+1, "records arrived")
			assert.True(t, w.requests <= 2000, "it took", w.requests, "requests")
		})
	}
	t.Run("the beginning of a store that does not sort, or whose first record is too large", func(t *testing.T) {
		for _, huge := range []bool{true, false} {
			w := newRecordWorld(t)
			w.clock = 100 * 24 * 3600_000 // the spring of 1970: it is far from the epoch to now
			for i := range 10 {
				w.store((w.clock - 20*24*3600_000 + int64(i)*3600_000) * 1000)
			}
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.rows[0].huge = huge
			w.restart()
			hidden := w.rows[:9]
			w.between = func() {
				if w.requests == 2 && !huge { // the first record is asked for
					w.rows = w.rows[9:]
				} else if len(w.rows) == 1 {
					w.rows = append(slices.Clone(hidden), w.rows...)
				}
			}
			w.drain()
			w.judge(true)
			assert.Equal(t, len(w.state.dead), len(w.rows)-len(w.arrived), "dead letters", w.state.dead)
		}
	})
	t.Run("the beginning of a store that has nothing yet", func(t *testing.T) {
		w := newRecordWorld(t)
		w.options.Start = func(time.Time) time.Time { return time.Time{} }
		w.restart()
		w.mustPoll()
		w.store((w.clock - 50_000) * 1000)
		w.drain()
		w.judge(true)
	})
}

func TestAStreamOfRecordsIsRewound(t *testing.T) {
	w := atMinute(t, 100, nil)
	w.drain()
	w.judge(true)
	half := w.rows[50]
	source := w.source.Source()
	require.NoError(t, poller.Rewind(t.Context(), w.state, source, time.UnixMilli(half.at/1000)))
	w.drain()
	for _, r := range w.rows {
		n := w.arrived["i-1-"+r.id]
		if r.at < half.at-10_000_000 && n != 1 || r.at >= half.at && n != 2 {
			t.Errorf("record %s of %s arrived %d times", r.id, stamp(r.at), n)
		}
	}
	before := len(w.arrived)
	require.NoError(t, poller.Rewind(t.Context(), w.state, source, time.UnixMilli(w.clock+3600_000)))
	w.store(w.clock * 1000)
	w.drain()
	assert.Equal(t, len(w.arrived), before+1, "a time to come moved the position")
}

func TestAWindowThatAwaitsALookIsLookedAtAfterARewindToItsMiddle(t *testing.T) {
	w := atMinute(t, 100, nil)
	w.mustPoll()
	middle := w.clock - 28_000
	late := w.store((middle - 500) * 1000)
	require.NoError(t, poller.Rewind(t.Context(), w.state, w.source.Source(), time.UnixMilli(middle)))
	w.drain()
	w.judge(false)
	assert.True(t, w.arrived["i-1-"+late.id] != 0, "the late record did not arrive")
	for _, r := range w.rows {
		n := w.arrived["i-1-"+r.id]
		if before := r.at < (middle-10_000)*1000; before && n != 1 || r.at >= middle*1000 && n != 2 {
			t.Errorf("record %s of %s arrived %d times", r.id, stamp(r.at), n)
		}
	}
}

func TestAChangedQueryIsLoggedAndContinues(t *testing.T) {
	var said bytes.Buffer
	w := atMinute(t, 60, nil)
	w.mustPoll()
	w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	w.options.URL, w.options.Filter = "https://other.example", json.RawMessage(`{"field":"a"}`)
	w.restart()
	w.drain()
	w.judge(true)
	for _, text := range []string{"address changed", "query changed"} {
		assert.Contains(t, said.String(), text)
	}
}

func TestAnswersOfNodesWhoseClocksDiffer(t *testing.T) {
	w := newRecordWorld(t)
	w.options.Delay = 10 * time.Second
	w.restart()
	w.mustPoll()
	w.between = func() {
		if w.lag = 0; w.requests%3 == 0 {
			w.lag = 3000
		}
	}
	w.requests = 0
	for range 300 {
		w.store(w.clock * 1000)
		w.pass(time.Second)
		w.mustPoll()
	}
	assert.True(t, w.requests <= 300*6, w.requests, "requests in 300 polls")
	w.drain()
	w.judge(true)
}

func TestAFencedCommitGoesOnFromWhatSomebodyElseCommitted(t *testing.T) {
	w := atMinute(t, 60, nil)
	other := poller.NewRecords(w.recordModel, w.state, w.options)
	w.between = func() {
		w.between = func() {}
		require.Value(other.Poll(t.Context()))(t)
	}
	require.Equal(t, require.Value(w.poll())(t), poller.Soon, "next")
	w.drain()
	w.judge(true)
}
