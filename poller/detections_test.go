package poller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// tb is the common interface of *testing.T and *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// world is an appliance, a state, and the source between them.
type world struct {
	tb
	*model
	state   *memory
	ledger  *ledger.Ledger
	client  poller.DetectionsClient // the model unless set otherwise
	time    func() int64            // the appliance's
	options poller.DetectionsOptions
	source  *poller.Detections
	events  []transform.Event
	titles  map[string]string // by subject: the title last committed; nil: no longer followed
	start   int64
}

func newWorld(t tb) *world {
	w := &world{tb: t, model: newModel(), ledger: ledger.New(), titles: make(map[string]string)}
	w.client = w.model
	w.time = func() int64 { return w.clock }
	w.state = newMemory(w.journal)
	w.options = poller.DetectionsOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: "https://sensor.example",
			Start:    func(now time.Time) time.Time { return now },
			PageSize: 5,
			Now:      func() time.Time { return time.UnixMilli(1_700_000_000_000) }, // years behind the appliance's
			Log:      slog.New(slog.DiscardHandler),
			Metrics:  poller.NewMetrics(prometheus.NewRegistry()),
		},
		Overlap:        2 * time.Minute,
		ReconcileEvery: 6 * time.Hour, ReconcileBack: 72 * time.Hour, ForgetAfter: 90 * 24 * time.Hour,
	}
	w.restart()
	return w
}

// restart continues from the committed state, like a new process.
func (w *world) restart() { w.source = poller.NewDetections(w.client, w.state, w.options) }

func (w *world) poll() error {
	_, err := w.source.Poll(context.Background())
	return err
}

// mustPoll polls, and fails the test on an error.
func (w *world) mustPoll() {
	w.Helper()
	if err := w.poll(); err != nil {
		w.Fatalf("poll: %v", err)
	}
}

// journal checks the invariants of every commit.
func (w *world) journal(c checkpoint.Commit) {
	var position struct {
		ModTime int64 `json:"mod_time"`
		Start   int64 `json:"start"`
	}
	if err := json.Unmarshal(c.Position, &position); err != nil {
		w.Fatalf("position %s: %v", c.Position, err)
	}
	if now := w.time(); position.ModTime > now {
		w.Errorf("the position %d is ahead of the appliance's clock %d", position.ModTime, now)
	}
	w.start = position.Start
	for _, e := range c.Events {
		w.event(e)
	}
	w.events = append(w.events, c.Events...)
	w.ledger.Receive("journal", c.Events...)
}

// event checks an event's action and changes.
func (w *world) event(e transform.Event) {
	var data struct {
		Detection struct {
			Title      string `json:"title"`
			CreateTime int64  `json:"create_time"`
		}
		Changes map[string]struct{ From, To any }
	}
	if err := json.Unmarshal(e.Data(), &data); err != nil {
		w.Fatalf("%s: %v", e.Data(), err)
	}
	if w.titles == nil {
		return
	}
	before, seen := w.titles[e.Subject]
	w.titles[e.Subject] = data.Detection.Title
	switch created := e.Action() == "created"; {
	case created && seen:
		w.Errorf("event %s is created, and its detection was seen before", e.ID)
	case created != (!seen && data.Detection.CreateTime >= max(w.start, w.clock-w.options.ForgetAfter.Milliseconds())) && w.start > 0:
		w.Errorf("event %s is %s; it began at %d, the start was %d, seen before: %t", e.ID, e.Action(), data.Detection.CreateTime, w.start, seen)
	case seen != (data.Changes != nil):
		w.Errorf("event %s has changes %v; seen before: %t", e.ID, data.Changes, seen)
	}
	change, changed := data.Changes["title"]
	if changed != (seen && before != data.Detection.Title) || changed && (change.From != before || change.To != data.Detection.Title) {
		w.Errorf("event %s has changes %v, and the title went from %q to %q", e.ID, data.Changes, before, data.Detection.Title)
	}
}

// drain polls until the source has nothing new, for longer than it relies on
// the page sizes that it has seen.
func (w *world) drain() {
	w.Helper()
	for idle := 0; idle < 35; idle++ {
		before := len(w.events)
		next, err := w.source.Poll(context.Background())
		if err != nil {
			w.Fatalf("poll: %v", err)
		}
		if next != poller.Idle || len(w.events) > before {
			idle = 0
		}
	}
}

// passOverlap polls until whatever became visible within the overlap must have been read:
// for the overlap, a quarter of it, and what answers may differ by.
func (w *world) passOverlap() {
	w.Helper()
	for passed := int64(0); passed < w.options.Overlap.Milliseconds()*5/4+30_000; passed += 10_000 {
		w.clock += 10_000
		w.mustPoll()
	}
}

// judge checks that the journal holds every required event, and nothing else.
func (w *world) judge() {
	w.Helper()
	verdict := w.ledger.Judge("journal", w.history)
	if len(verdict.Faults) > 0 {
		w.Fatalf("faults:\n%s", strings.Join(verdict.Faults, "\n"))
	}
	if verdict.Duplicates > 0 {
		w.Fatalf("%d events were committed twice", verdict.Duplicates)
	}
}

// chaos changes the appliance in every way that one is known to, and more.
type chaos struct {
	*world
	t *rapid.T
	// late are detections whose last version became visible later than the
	// overlap: only a sweep finds them.
	late     map[int64]bool
	hidden   []*modelRow
	wentBack bool // whether the clock went back
}

func (c *chaos) change() {
	const overlap, back = 2 * 60_000, 72 * 3600_000
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(c.t, "changes") {
		row := c.pick(c.t)
		switch action := rapid.SampledFrom([]string{
			"add", "add", "add", "tie", "neighbours", "touch", "touch", "touch", "bulk", "edit", "late", "very late", "future",
			"tick", "tick", "tick", "forward", "back", "cap", "refuse", "reading", "hide", "huge", "broken", "fail",
		}).Draw(c.t, "action"); {
		case action == "add":
			c.add(c.clock)
		case action == "tie":
			for range rapid.IntRange(2, 14).Draw(c.t, "size") {
				c.add(c.clock)
			}
		case action == "neighbours":
			// Almost a page, and almost another one a millisecond later.
			for range rapid.IntRange(3, 6).Draw(c.t, "size") {
				c.add(c.clock)
				c.add(c.clock + 1)
			}
			c.clock++
		case action == "tick":
			c.clock += rapid.SampledFrom([]int64{1, 1, 2, 700, 5000, 100_000, 3600_000}).Draw(c.t, "ms")
		case action == "forward":
			c.clock += 17 * 60_000
		case action == "back":
			c.clock -= rapid.SampledFrom([]int64{1, 1000, 17 * 60_000}).Draw(c.t, "ms")
			c.wentBack = true
		case action == "late":
			c.add(c.clock - rapid.Int64Range(0, overlap).Draw(c.t, "by"))
		case action == "very late":
			r := c.add(c.clock - rapid.Int64Range(overlap, back/2).Draw(c.t, "by"))
			c.late[r.id] = true
		case action == "future":
			c.add(c.clock + rapid.Int64Range(1, 3600_000).Draw(c.t, "by"))
		case action == "cap":
			c.maxRows = rapid.SampledFrom([]int{0, 2, 3, 6}).Draw(c.t, "rows")
		case action == "refuse":
			c.refuseOver = rapid.SampledFrom([]int{0, 2, 3, 4}).Draw(c.t, "limit")
		case action == "reading":
			c.inclusive = !c.inclusive
		case action == "fail":
			c.failing = true
		case row == nil:
		case action == "touch":
			c.renew(row)
		case action == "bulk":
			for _, r := range c.sorted() {
				if rapid.Bool().Draw(c.t, "this one") {
					c.renew(r)
				}
			}
		case action == "edit":
			c.touch(row, row.modTime)
			if row.modTime < c.clock-overlap {
				c.late[row.id] = true
			}
		case action == "hide":
			c.hide(row)
			c.hidden = append(c.hidden, row)
		case action == "huge":
			row.huge = true
			c.renew(row)
		case action == "broken":
			row.broken = true
			c.renew(row)
		}
	}
}

// renew gives a row a new version, now. A clock that went back never meets the
// very millisecond of an earlier version: the two would have one id.
func (c *chaos) renew(r *modelRow) {
	for r.modTime != c.clock && slices.ContainsFunc(c.history, func(v ledger.Version) bool { return v.ID == r.id && v.ModTime == c.clock }) {
		c.clock++
	}
	c.touch(r, c.clock)
	delete(c.late, r.id)
}

func TestNothingThatAnApplianceShowsIsLostOrInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &chaos{world: newWorld(t), t: t, late: make(map[int64]bool)}
		c.options.PageSize = rapid.IntRange(2, 8).Draw(t, "page size")
		c.inclusive = rapid.Bool().Draw(t, "inclusive")
		c.shuffled = rapid.Bool().Draw(t, "shuffled")
		c.restart()
		c.mustPoll() // the first contact: what start means is committed
		c.clock += 100 * 3600_000

		c.between = c.change
		c.state.fail = func() (failed, written bool) {
			switch rapid.IntRange(0, 19).Draw(t, "disk") {
			case 0:
				return true, false
			case 1:
				return true, true
			}
			return false, false
		}
		for range rapid.IntRange(3, 25).Draw(t, "polls") {
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				c.restart()
			}
			requests := c.requests
			c.between = func() {
				c.failing = false
				if c.requests-requests > 50 { // an appliance that changes for ever never ends a walk
					c.failing = true
					return
				}
				c.change()
			}
			_ = c.poll() // what failed is tried again
		}

		// From now on the appliance does not change, and detections that were hidden, huge or
		// broken are ordinary again.
		c.between = func() {}
		c.failing = false
		c.state.fail = func() (bool, bool) { return false, false }
		for _, r := range slices.Concat(c.sorted(), c.hidden) {
			if r.huge || r.broken || c.rows[r.id] == nil {
				r.huge, r.broken = false, false
				c.renew(r)
			}
		}
		c.clock += 1000
		if !c.wentBack {
			c.passOverlap()
			c.drain()
			var prompt []ledger.Version
			for _, v := range c.history {
				if !c.late[v.ID] {
					prompt = append(prompt, v)
				}
			}
			n, example := c.ledger.Missing("journal", prompt)
			require.True(t, n <= 0, n, "detections that were not late are missing without a sweep; one", example.ID, example.ModTime)
		}
		c.clock += c.options.ReconcileEvery.Milliseconds() + 3600_000 // it may have gone back unseen
		c.drain()
		c.judge()
	})
}

func TestAPollOfAnIdleStreamIsOneRequestAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize = 100
	w.restart()
	w.mustPoll()
	for range 50 { // most of them lie before the overlap
		w.add(w.clock)
		w.clock += 10_000
	}
	w.clock += 10 * 60_000
	w.mustPoll()
	w.clock += 10_000
	requests, commits := w.requests, w.state.commits
	for poll := range 100 {
		if poll == 50 {
			w.restart()
		}
		w.mustPoll()
		w.clock += 10_000
	}
	// Three of the polls make sure that the page is the last.
	got := w.requests - requests
	assert.True(t, got <= 100+2*3, "100 idle polls cost", got, "requests")
	if w.state.commits != commits {
		t.Errorf("100 idle polls committed %d times", w.state.commits-commits)
	}
	w.judge()
}

func TestADetectionThatWasForgottenIsNotCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	old := w.add(w.clock)
	w.mustPoll()
	w.clock += 91 * 24 * 3600_000
	w.add(w.clock)
	w.mustPoll()
	delete(w.titles, "1") // it is forgotten here, too
	w.clock += 1000
	w.touch(old, w.clock)
	w.mustPoll()
	e := w.events[len(w.events)-1]
	assert.True(t, len(w.events) == 3 && e.Subject == "1" && e.Action() == "updated", len(w.events), "events, the last", e.ID, e.Action())
}

func TestAPageOfKnownVersionsDoesNotEndAWalk(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	for range 500 { // all within the overlap
		w.add(w.clock)
		w.clock += 10
	}
	w.mustPoll()
	w.restart()
	w.add(w.clock)
	w.mustPoll()
	w.judge()
}

func TestWhatStartMeansIsCommittedAtTheFirstContact(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(now time.Time) time.Time
		// ages are those of the detections that are there at the start, in
		// minutes, and which of them arrive.
		arrive map[int64]bool
		action string
	}{
		{"now", func(now time.Time) time.Time { return now }, map[int64]bool{1: false, 600: false}, ""},
		{"the beginning", func(time.Time) time.Time { return time.Time{} }, map[int64]bool{1: true, 600: true}, "created"},
		{"an hour ago", func(now time.Time) time.Time { return now.Add(-time.Hour) }, map[int64]bool{1: true, 600: false}, "updated"},
		{"a time to come", func(now time.Time) time.Time { return now.Add(time.Hour) }, map[int64]bool{1: false, 600: false}, ""},
		{"a time", func(time.Time) time.Time { return time.UnixMilli(1_750_000_000_000 - 3600_000) }, map[int64]bool{1: true, 600: false}, "updated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Start = c.start
			ids := make(map[string]bool)
			for age, arrives := range c.arrive {
				r := w.add(w.clock - age*60_000)
				r.began = w.clock - 100*24*3600_000
				w.history = nil // what is shown counts
				w.show(r)
				ids[strconv.FormatInt(r.id, 10)] = arrives
			}
			// The first contact, and then a crash before the first event.
			w.failing = false
			w.restart()
			requests := 0
			w.between = func() {
				if requests++; requests > 1 {
					w.failing = true
				}
			}
			err := w.poll()
			require.True(t, err != nil, "the second request was to fail")
			w.between, w.failing = func() {}, false
			w.clock += 30 * 60_000
			w.restart()
			w.mustPoll()
			assert.True(t, w.start <= w.clock-30*60_000, "the start moved to", w.start)
			got := make(map[string]bool)
			for _, e := range w.events {
				got[e.Subject] = true
				assert.Equal(t, e.Action(), c.action, "event", e.ID, "is")
			}
			for id, arrives := range ids {
				assert.Equal(t, got[id], arrives, "detection", id, "arrived")
			}
		})
	}
}

func TestObjectsThatCannotBecomeEventsGoToTheDeadLettersOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(*modelRow)
		class  string
		reason string
	}{
		{"too large", func(r *modelRow) { r.huge = true }, "too_large", "larger than allowed"},
		{"without a mod_time that can be read", func(r *modelRow) { r.broken = true }, "invalid", "mod_time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.mustPoll()
			for range 20 {
				w.add(w.clock)
				w.clock++
			}
			bad := w.add(w.clock)
			c.spoil(bad)
			w.history = w.history[:len(w.history)-1]
			w.show(bad)
			w.clock++
			for range 20 {
				w.add(w.clock)
				w.clock++
			}
			w.clock += 1000
			w.mustPoll()
			assert.Equal(t, len(w.events), 40, "events of 40")
			require.Equal(t, len(w.state.dead), 1, "dead letters", w.state.dead)
			for _, d := range w.state.dead {
				assert.Equal(t, d.Class, c.class, "dead letter", d)
				assert.Contains(t, d.Reason, c.reason, "dead letter", d)
			}
			commits := w.state.commits
			w.mustPoll()
			w.mustPoll()
			assert.Equal(t, w.state.commits, commits, "a known dead letter was committed again")
			for id, want := range map[int64]bool{1: true, bad.id: true, 99: false} {
				_, seen, err := poller.SeenOf(t.Context(), w.state, "hq", id)
				assert.True(t, err == nil && seen == want, "whether detection", id, "was seen", seen, err)
			}
		})
	}
}

func TestEachVersionThatCannotBecomeAnEventIsADeadLetterAndCountedOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*modelRow)
	}{
		{"because it is too large", func(r *modelRow) { r.huge = true }},
		{"because its mod_time cannot be read", func(r *modelRow) { r.broken = true }},
		{"because its id cannot be read", func(r *modelRow) { r.anonymous = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			registry := prometheus.NewRegistry()
			w.options.Metrics = poller.NewMetrics(registry)
			positions := []int64{0} // committed with a dead letter
			w.state.journal = func(c checkpoint.Commit) {
				w.journal(c)
				if len(c.Dead) > 0 {
					positions = append(positions, positionOf(t, c.Position))
				}
			}
			w.restart()
			w.mustPoll()
			w.clock++
			bad := w.add(w.clock)
			w.clock += 1000
			w.mustPoll() // the first version is delivered
			const versions = 3
			for n := 1; n <= versions; n++ {
				w.clock += 1000
				c.spoil(bad)
				w.touch(bad, w.clock)
				bad = w.rows[bad.id]
				w.add(w.clock)
				for range 4 {
					w.mustPoll()
				}
				w.restart()
				w.mustPoll()
				if len(w.state.dead) != n || len(positions) != 1+n || positions[n] <= positions[n-1] {
					t.Errorf("%d dead letters of %d versions, committed with the positions %v", len(w.state.dead), n, positions[1:])
				}
			}
			v, err := poller.VerifyDetections(t.Context(), w.client, w.state, w.options, time.UnixMilli(w.start), poller.VerifyReport{
				Progress: func(string, int, time.Time) {},
				Found: func(d poller.Difference) {
					assert.Equal(t, d.Kind, "dead", "verification finds", d)
					assert.True(t, d.Journalled >= 0, "verification finds", d)
				},
			})
			assert.True(t, err == nil && v.Differences["dead"] == 1, "verification finds", v, err)
			counted := gathered(t, registry, "ndrbridge_source_dead_letters_total")
			assert.True(t, counted == versions && len(w.events) == 1+versions, counted, "dead letters are counted of", versions, "versions, beside", len(w.events), "events")
		})
	}
}

// positionOf returns the mod_time of an encoded position.
func positionOf(t *testing.T, encoded []byte) int64 {
	t.Helper()
	var position struct {
		ModTime int64 `json:"mod_time"`
	}
	require.NoError(t, json.Unmarshal(encoded, &position))
	return position.ModTime
}

func TestASweepThatFailsDoesNotSlowWhatIsNew(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.clock += 2 * 3600_000
	w.add(w.clock)
	w.mustPoll()
	w.clock += w.options.ReconcileEvery.Milliseconds()
	w.restart() // with pages that were seen
	requests := 0
	w.between = func() { requests++; w.failing = requests > 3 } // those of the poll are answered, the sweep's is not
	w.mustPoll()
	require.True(t, w.failing, "there was no request of a sweep")
	w.between = func() {}
	w.failing = false
	late := w.add(w.clock - w.options.ReconcileEvery.Milliseconds() - 3600_000)
	w.drain()
	assert.True(t, len(w.events) == 2 && w.events[1].Subject == strconv.FormatInt(late.id, 10), "events", w.events)
}

func TestPollsThatFail(t *testing.T) {
	for _, c := range []struct {
		name     string
		firmware appliance.Version
		err      string
	}{
		{"old firmware is an error with advice", appliance.Version{9, 2, 7, 1}, "upgrade the appliance to 9.3"},
		{"firmware is compared by number, not by text", appliance.Version{26, 3}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.source = poller.NewDetections(oldFirmware{w.model, c.firmware}, w.state, w.options)
			err := w.poll()
			assert.True(t, (c.err != "" || err == nil) && (c.err == "" || err != nil && strings.Contains(err.Error(), c.err)), err, c.err)
		})
	}
	t.Run("an appliance that does not sort is an error", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		w.source = poller.NewDetections(unsorted{w.model}, w.state, w.options)
		w.add(w.clock)
		w.add(w.clock + 5)
		assert.ErrorContains(t, w.poll(), "did not sort")
		assert.Empty(t, w.events, "events")
	})
	t.Run("an appliance that returns one detection a page is an error", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		w.maxRows = 1
		for range 3 {
			w.add(w.clock)
		}
		assert.ErrorContains(t, w.poll(), "one detection a page")
	})
	t.Run("a fenced commit goes on from what somebody else committed", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		other := poller.NewDetections(w.model, w.state, w.options)
		w.clock += 1000
		w.add(w.clock)
		w.between = func() {
			w.between = func() {}
			_, err := other.Poll(t.Context())
			assert.NoError(t, err)
			w.add(w.clock)
		}
		require.Equal(t, require.Value(w.source.Poll(t.Context()))(t), poller.Soon, "next")
		w.mustPoll()
		w.judge()
	})
}

type oldFirmware struct {
	*model
	version appliance.Version
}

func (o oldFirmware) Firmware(context.Context) (appliance.Version, error) { return o.version, nil }

type unsorted struct{ *model }

func (u unsorted) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	err := u.model.SearchDetections(ctx, s, page)
	for i, j := 0, len(page.Objects)-1; i < j; i, j = i+1, j-1 {
		page.Objects[i], page.Objects[j] = page.Objects[j], page.Objects[i]
	}
	return err
}

func TestADetectionIsTheSameWhetherOrNotItShowsWhenItWasCreated(t *testing.T) {
	w := newWorld(t)
	var reused []poller.ReusedID
	w.options.Reused = func(_ context.Context, r poller.ReusedID) error {
		reused = append(reused, r)
		return nil
	}
	w.restart()
	w.mustPoll()
	w.clock += 1000
	r := w.add(w.clock)
	show := func(timeless bool) {
		w.clock += 1000
		r = w.rows[r.id]
		r.timeless = timeless
		w.touch(r, w.clock)
		w.mustPoll()
	}
	for _, timeless := range []bool{false, true, true, false, true} {
		show(timeless)
	}
	assert.Empty(t, reused, "reported as reused")
	r = w.rows[r.id]
	r.began += 1000 // it is another one, which shows it
	delete(w.titles, fmt.Sprint(r.id))
	show(false)
	assert.Equal(t, len(reused), 1, "reports of another detection with its id")
}

func TestAVersionWithTimesInAnotherPrecisionIsTheSame(t *testing.T) {
	for _, c := range []struct {
		name, times string // mod_time and create_time, of 1750000123456 and 1750000122345
		modTime     int64  // as it is read
	}{
		{"in seconds", `"mod_time":1750000123,"create_time":1750000122`, 1750000123000},
		{"in milliseconds of whole seconds", `"mod_time":1750000123000,"create_time":1750000122000`, 1750000123000},
		{"in microseconds", `"mod_time":"1750000123456789","create_time":1750000122345678`, 1750000123456},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Reused = func(_ context.Context, r poller.ReusedID) error {
				t.Errorf("reported as reused: %+v", r)
				return nil
			}
			w.restart()
			w.mustPoll()
			w.clock = 1750000122345
			r := w.add(1750000123456)
			w.clock = 1750000130000
			w.mustPoll()
			r.raw = fmt.Appendf(nil, `{"new":{},"title":"0",%s,"id":"%d"}`, c.times, r.id)
			for range 3 {
				w.mustPoll()
			}
			w.restart()
			w.mustPoll()
			require.Equal(t, len(w.events), 1, "events of one version")
			// Another version is another one, even in the same second.
			r.raw = fmt.Appendf(nil, `{"new":{},"title":"1",%s,"id":"%d"}`, c.times, r.id)
			w.mustPoll()
			w.mustPoll()
			assert.True(t, len(w.events) == 2 && strings.HasPrefix(w.events[1].ID, fmt.Sprintf("%d-%d", r.id, c.modTime)) && w.events[1].Action() == "updated", len(w.events), w.events)
		})
	}
}

// A state of an earlier version remembers a filter by what changes, such as the status.
func TestTheFilterOfAnOldStateIsLoggedAndReadingContinues(t *testing.T) {
	var said bytes.Buffer
	w := newWorld(t)
	w.mustPoll()
	w.options.Filter = json.RawMessage(`{"status":["new",".none"],"risk_score_min":60}`)
	w.restart()
	w.clock += 1000
	row := w.add(w.clock)
	w.mustPoll()
	w.options.Filter, w.options.Log = nil, slog.New(slog.NewTextHandler(&said, nil))
	w.restart()
	w.clock += 1000
	w.touch(row, w.clock)
	w.mustPoll()
	assert.Equal(t, len(w.events), 2, "events arrived")
	assert.Contains(t, said.String(), "the filter changed", "it logs")
	assert.NotContains(t, said.String(), "first contact")
}
