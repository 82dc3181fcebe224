package poller_test

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// burst makes n detections change within a minute that ends now, and polls until they
// are read.
func (w *world) burst(n int) {
	w.Helper()
	for i := range n {
		w.add(w.clock + int64(i)*60_000/int64(n))
	}
	w.clock += 60_000
	w.titles = nil // only the property tests use these
	w.mustPoll()
	if len(w.events) != n {
		w.Fatalf("%d events of %d", len(w.events), n)
	}
}

func TestAnIdlePollAfterABurstCostsOneRequest(t *testing.T) {
	for _, c := range []struct {
		name          string
		versions      int
		overlap, skew time.Duration
		interval      time.Duration // 0: 10s
		tied, late    bool
	}{
		{name: "versions of a minute", versions: 6000, overlap: 2 * time.Minute},
		{name: "versions of a minute, polled often", versions: 6000, overlap: 2 * time.Minute, interval: 500 * time.Millisecond},
		{name: "versions of one millisecond", versions: 6000, overlap: 2 * time.Minute, tied: true},
		{name: "with a long overlap", versions: 6000, overlap: time.Hour},
		{name: "with an overlap shorter than the interval", versions: 6000, overlap: time.Second},
		{name: "with a Date that is ahead of the mod_times", versions: 6000, overlap: 2 * time.Minute, skew: 10 * time.Minute},
		{name: "with a single version a little later", versions: 6000, overlap: 2 * time.Minute, late: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.PageSize, w.options.Overlap, w.options.ReconcileEvery = 1000, c.overlap, 0
			w.time = func() int64 { return w.clock + c.skew.Milliseconds() }
			w.skew = c.skew
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.restart()
			w.mustPoll()
			w.clock += 60_000
			if c.tied {
				for range c.versions {
					w.add(w.clock)
				}
				w.titles = nil
				w.clock += 1000
				w.mustPoll()
			} else {
				w.burst(c.versions)
			}
			interval := cmp.Or(c.interval, 10*time.Second).Milliseconds()
			poll := func() (requests int) {
				w.clock += interval
				before := w.requests
				w.mustPoll()
				return w.requests - before
			}
			// When the overlap has passed, the versions are read again, once.
			again := 0
			for elapsed := int64(0); elapsed <= c.overlap.Milliseconds()+20_000; elapsed += interval {
				if poll() > 5 {
					again++
				}
				if c.late && elapsed == c.overlap.Milliseconds()/2 {
					w.add(w.clock)
				}
			}
			polls := int(c.overlap.Milliseconds() / interval)
			assert.True(t, again <= 1, "the versions were read again", again, "times within", c.overlap)
			if c.late {
				for range polls {
					poll()
				}
			}
			// After it they are not.
			commits := w.state.commits
			total := 0
			for range 90 {
				total += poll()
			}
			assert.True(t, total <= 90+2*3, "90 idle polls cost", total, "requests")
			if w.state.commits != commits {
				t.Errorf("90 idle polls committed %d times", w.state.commits-commits)
			}
			// New versions are read by the next poll, and after a restart too.
			w.add(w.clock)
			w.clock += 1000
			w.mustPoll()
			w.restart()
			w.add(w.clock)
			w.clock += 1000
			w.mustPoll()
			w.judge()
		})
	}
}

func TestIdlePollsBehindTiesOverAPageDoNotFail(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 10, 0
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	for range 15 {
		w.add(w.clock)
	}
	w.clock += 1000
	for range 1000 {
		w.mustPoll()
		w.clock += 30_000
	}
	w.judge()
}

func TestANewVersionIsNotDelayedByABurst(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize = 100
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	w.burst(2000)
	for i := range 30 {
		w.clock += 5000
		r := w.add(w.clock - 1)
		if i%3 == 0 {
			w.touch(w.rows[int64(i+1)], w.clock-1)
		}
		before := len(w.events)
		w.mustPoll()
		require.True(t, len(w.events) != before, "poll", i, "did not find detection", r.id)
		w.judge()
	}
}

func TestALateVersionBehindABurstIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.options.PageSize, w.options.ReconcileEvery = 8, 0
		w.titles = nil
		overlap := w.options.Overlap.Milliseconds()
		w.inclusive, w.shuffled = rapid.Bool().Draw(t, "inclusive"), rapid.Bool().Draw(t, "shuffled")
		w.restart()
		w.mustPoll()
		w.clock += overlap
		for range rapid.IntRange(20, 120).Draw(t, "polls") {
			w.clock += rapid.SampledFrom([]int64{1, 1000, 5000, 10_000, 30_000, 200_000}).Draw(t, "passes")
			switch rapid.SampledFrom([]string{"nothing", "nothing", "nothing", "burst", "new", "late", "late", "restart", "crash", "touch"}).Draw(t, "happens") {
			case "burst":
				for i := range rapid.Int64Range(10, 60).Draw(t, "size") {
					w.add(w.clock - i*rapid.SampledFrom([]int64{0, 1, 500}).Draw(t, "apart"))
				}
			case "new":
				w.add(w.clock)
			case "touch":
				if r := w.pick(t); r != nil {
					w.touch(r, w.clock)
				}
			case "late":
				w.add(w.clock - rapid.Int64Range(0, overlap).Draw(t, "by"))
			case "restart":
				w.restart()
			case "crash":
				w.state.fail = func() (bool, bool) { return rapid.Bool().Draw(t, "fails"), rapid.Bool().Draw(t, "written") }
			}
			_ = w.poll()
			w.state.fail = func() (bool, bool) { return false, false }
		}
		w.passOverlap()
		w.judge()
		n, example := w.ledger.Missing("journal", w.history)
		require.True(t, n <= 0, n, "are missing, such as", example.ID, example.ModTime)
	})
}

func TestADateThatWasAheadOnceHidesNothing(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 100, 0
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	w.burst(2000)
	w.skew = 24 * time.Hour
	w.mustPoll()
	w.skew = 0
	w.clock += 5000
	w.mustPoll()
	late := w.add(w.clock - 90_000)
	for range 13 { // the overlap, and what answers may differ by
		w.clock += 10_000
		w.mustPoll()
	}
	e := w.events[len(w.events)-1]
	assert.Equal(t, e.Subject, strconv.FormatInt(late.id, 10), "the late version was not found; the last event", e.ID)
}

func TestAnOutageBehindABurstDoesNotReadItAgain(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.Overlap = 100, time.Hour
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	w.burst(2000)
	w.mustPoll()
	for range 5 {
		w.failing = true
		require.True(t, w.poll() != nil, "a poll of an appliance that is down succeeded")
		w.failing = false
		requests := w.requests
		w.clock += 5000
		w.mustPoll()
		n := w.requests - requests
		assert.True(t, n <= 3, "a poll after one that failed cost", n, "requests")
	}
	w.judge()
}

func TestABusyStreamDoesNotReadTheOverlapAtEveryPoll(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize = 20
	w.titles = nil
	w.restart()
	w.mustPoll()
	for range 60 { // versions of 13 pages within the overlap
		for range 20 {
			w.clock += 500
			w.add(w.clock)
		}
		w.mustPoll()
	}
	const polls = 60
	requests := w.requests
	for range polls {
		for range 20 {
			w.clock += 500
			w.add(w.clock)
		}
		w.mustPoll()
	}
	n := w.requests - requests
	assert.True(t, n <= 4*polls, polls, "polls of a busy stream cost", n, "requests")
	w.restart()
	requests = w.requests
	w.clock += 1000
	w.mustPoll()
	n = w.requests - requests
	assert.True(t, n <= 25, "the first poll after a restart costs", n, "requests")
	w.clock += 1000
	w.mustPoll()
	w.judge()
}

func TestALateVersionInTheNewestPageIsFoundByTheNextPoll(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 100, 0
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	w.burst(2050)
	w.clock += 5000
	late := w.add(w.clock - 5500)
	w.mustPoll()
	e := w.events[len(w.events)-1]
	assert.Equal(t, e.Subject, strconv.FormatInt(late.id, 10), "the late version was not found; the last event", e.ID)
}

func TestAnOverlapThatCannotBeReadAgainDelaysNothingNew(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 100, 0
	w.restart()
	w.mustPoll()
	w.clock += 60_000
	w.burst(2000)
	at := w.clock
	late := w.add(at - 10_000)
	w.rows[1500].inPage = &appliance.Error{Err: errDown}
	w.clock += 130_000
	for range 3 {
		w.clock += 5000
		r := w.add(w.clock - 1)
		require.True(t, w.poll() != nil, "a poll that could not read the overlap again succeeded")
		e := w.events[len(w.events)-1]
		require.Equal(t, e.Subject, strconv.FormatInt(r.id, 10), "detection", r.id, "was not delivered; the last event", e.ID)
	}
	// It goes on where it failed.
	w.rows[1500].inPage = nil
	requests := w.requests
	w.clock += 5000
	w.mustPoll()
	n := w.requests - requests
	assert.True(t, n <= 10, "the rest of the overlap cost", n, "requests")
	e := w.events[len(w.events)-1]
	assert.Equal(t, e.Subject, strconv.FormatInt(late.id, 10), "the late version was not found; the last event", e.ID)
	w.judge()
}
