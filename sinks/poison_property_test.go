package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
	"ndrbridge/transform"
)

// faultyTarget is a target with parts, some of which are down at times, that never accepts
// poisoned events.
type faultyTarget struct {
	parts  int
	known  bool // the sink knows the part of an event before it sends it
	hidden bool // the target answers 500 for a part that is down
	form   form // of failures: byEvent or asOne
	stops  bool // tries nothing behind a failed event
	downAs error

	mu       sync.Mutex
	events   map[string]*expected // by id
	outages  []outage
	latest   map[string]int // number of the last accepted event, by key
	restarts int
	broken   []string
}

// expected is an event and its delivery.
type expected struct {
	number   int
	key      string
	part     int
	poisoned bool
	appended time.Time
	accepted time.Time // at first; zero: it was not
	run      int       // in which it was accepted last: a restart may repeat it
}

// outage is a time in which a part is down, or all of them if part is -1.
type outage struct {
	part        int
	from, until time.Time
}

func (f *faultyTarget) isDown(part int, at time.Time) bool {
	for _, o := range f.outages {
		if o.part == part && !at.Before(o.from) && at.Before(o.until) {
			return true
		}
	}
	return false
}

// upSince returns since when a part has been up at a time, and nothing else was in the way.
func (f *faultyTarget) upSince(part int, at time.Time) (since time.Time, up bool) {
	for _, o := range f.outages {
		if o.part != part && o.part != -1 || o.from.After(at) {
			continue
		}
		if o.until.After(at) {
			return at, false
		}
		if o.until.After(since) {
			since = o.until
		}
	}
	return since, true
}

// partlyKnown is a faultyTarget whose sink knows the parts.
type partlyKnown struct{ *faultyTarget }

func (f partlyKnown) Part(e transform.Event) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint("part ", f.events[e.ID].part)
}

func (f *faultyTarget) open() (sinks.Sink, error) {
	if f.known {
		return partlyKnown{f}, nil
	}
	return f, nil
}

func (f *faultyTarget) Close() error { return nil }

func (f *faultyTarget) Send(_ context.Context, events []transform.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.isDown(-1, now) {
		return f.downAs
	}
	each, failed := make(failure.EventErrors, len(events)), error(nil)
	blocked := make(map[string]bool)
	for i, e := range events {
		x := f.events[e.ID]
		switch {
		case failed != nil && f.stops, blocked[x.key]:
			each[i] = failure.ErrNotTried
			continue
		case f.isDown(x.part, now) && !f.hidden:
			each[i] = failure.Unavailable(failure.ScopePart, "part %d has no leader", x.part)
		case x.poisoned, f.isDown(x.part, now):
			each[i] = errors.New("500 internal server error")
		default:
			continue
		}
		failed = each[i]
		blocked[x.key] = x.key != ""
	}
	if failed != nil && f.form == asOne {
		return failed
	}
	for i, e := range events {
		if each[i] == nil {
			f.take(f.events[e.ID], e, now)
		}
	}
	return each.OrNil()
}

func (f *faultyTarget) take(x *expected, e transform.Event, now time.Time) {
	if e.Redelivered {
		f.broken = append(f.broken, fmt.Sprintf("event %s is marked as redelivered", e.ID))
	}
	if !x.accepted.IsZero() && x.run == f.restarts {
		f.broken = append(f.broken, fmt.Sprintf("event %s arrived twice without a restart", e.ID))
	}
	x.run = f.restarts
	if !x.accepted.IsZero() {
		return
	}
	x.accepted = now
	if before := f.latest[x.key]; x.key != "" && x.number < before {
		f.broken = append(f.broken, fmt.Sprintf("event %d of %s arrived after %d", x.number, x.key, before))
	}
	f.latest[x.key] = x.number
}

// late returns the healthy events that had time enough to arrive, but did not: nothing
// before them of their key was poisoned or late, and their part of the target was up.
func (f *faultyTarget) late(now time.Time, enough time.Duration) (late []string) {
	blocked := make(map[string]bool)
	for number := 1; number <= len(f.events); number++ {
		x := f.events[fmt.Sprint(number)]
		since, up := f.upSince(x.part, now)
		switch {
		case !x.accepted.IsZero() || x.key != "" && blocked[x.key]:
		case x.poisoned:
			blocked[x.key] = true
		case !up || now.Sub(since) < enough || now.Sub(x.appended) < enough:
			blocked[x.key] = true
		default:
			late = append(late, fmt.Sprint(number))
			blocked[x.key] = true
		}
	}
	return late
}

// TestPoisonAndOutagesTouchNothingElse lets any share of the events be poisoned, in any
// order, and any part of a target be down, for any time.
func TestPoisonAndOutagesTouchNothingElse(t *testing.T) {
	checkRuns(t, func(rt *rapid.T, dir string) { poisonAndOutages(rt, filepath.Join(dir, "state.db")) })
}

// checkRuns checks a property of runs in a bubble, each with a folder for its state. It makes 10
// of them, or as many as -rapid.checks says: each syncs several hundred times.
func checkRuns(t *testing.T, property func(rt *rapid.T, dir string)) {
	slowtest.Checks(t, 10)
	rapid.Check(t, func(rt *rapid.T) {
		dir := require.Value(os.MkdirTemp(t.TempDir(), "state-"))(rt)
		defer os.RemoveAll(dir) // there may be a thousand
		rapid.SyncTest(rt, func(rt *rapid.T) { property(rt, dir) })
	})
}

func poisonAndOutages(t *rapid.T, path string) {
	const enough = 2 * time.Hour // for an event to arrive at a part that is up
	begun := time.Now()
	f := &faultyTarget{
		parts:  rapid.IntRange(1, 4).Draw(t, "parts"),
		known:  rapid.Bool().Draw(t, "parts are known"),
		hidden: rapid.IntRange(0, 3).Draw(t, "hidden") == 0,
		form:   rapid.SampledFrom([]form{byEvent, asOne}).Draw(t, "form"),
		stops:  rapid.Bool().Draw(t, "stops"),
		downAs: rapid.SampledFrom([]error{
			errors.New("500 internal server error"), failure.Unavailable(failure.ScopeTarget, "connection refused"),
			&failure.Error{Class: failure.Throttled, RetryAfter: time.Minute, Err: errors.New("429")},
		}).Draw(t, "down as"),
		events: make(map[string]*expected), latest: make(map[string]int),
	}
	batch := rapid.SampledFrom([]int{1, 7, 50, 500}).Draw(t, "batch")
	total := rapid.SampledFrom([]int{1, 10, 60, 300, 700}).Draw(t, "events")
	if batch == 1 { // each event is a commit
		total = min(total, 60)
	}
	share := rapid.SampledFrom([]float64{0, 0.01, 1. / 11, 0.25, 0.5, 0.9}).Draw(t, "share")
	first := rapid.SampledFrom([]int{0, 0, 1, 8, 100, 600}).Draw(t, "first ones")
	keys := rapid.SampledFrom([]int{0, max(3, total/8), 100_000}).Draw(t, "keys")
	seed := rapid.Uint64().Draw(t, "seed")
	draw := func(number, of int) int { // a hash, so that large inputs need few draws
		h := (uint64(number)*0x9e3779b97f4a7c15 + seed) * 0xbf58476d1ce4e5b9
		return int((h ^ h>>31) >> 20 % uint64(of))
	}
	for range rapid.IntRange(0, 3).Draw(t, "outages") {
		o := outage{part: rapid.IntRange(-1, f.parts-1).Draw(t, "part")}
		o.from = begun.Add(time.Duration(rapid.IntRange(0, 240).Draw(t, "from")) * time.Minute)
		most := 600
		if f.hidden && o.part >= 0 { // or it is no other than poison
			most = 40
		}
		o.until = o.from.Add(time.Duration(rapid.IntRange(1, most).Draw(t, "minutes")) * time.Minute)
		f.outages = append(f.outages, o)
	}

	store := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
	defer store.Close()
	require.NoError(t, store.Configure(context.Background(), map[string]checkpoint.Start{"lake": {}}))
	appended := 0
	add := func(n int, healthy bool) {
		f.mu.Lock()
		from := appended + 1
		for appended < from+n-1 {
			appended++
			x := &expected{number: appended, part: draw(appended, f.parts), appended: time.Now()}
			if keys > 0 {
				k := draw(appended+1_000_000, keys)
				x.key, x.part = fmt.Sprint("key ", k), draw(k+2_000_000, f.parts)
			}
			x.poisoned = !healthy && (appended <= first || float64(draw(appended+3_000_000, 10_000)) < share*10_000)
			if healthy {
				x.key, x.part = fmt.Sprint("healthy ", appended), appended%f.parts
			}
			f.events[fmt.Sprint(appended)] = x
		}
		f.mu.Unlock()
		require.NoError(t, appendEvents(context.Background(), store, from, appended, func(n int) string { return f.events[fmt.Sprint(n)].key }))
	}
	start := func() (stop func(grace bool)) {
		ctx, cancel := context.WithCancel(context.Background())
		late, end := context.WithCancel(context.Background())
		o := optionsOf("lake", f.open)
		o.Batch = checkpoint.Batch{MaxEvents: batch, MaxBytes: 1 << 20}
		runner := sinks.NewRunner(store, o)
		var running sync.WaitGroup
		running.Go(func() { runner.Run(ctx, late) })
		return func(grace bool) {
			if !grace {
				end()
			}
			cancel()
			running.Wait()
			end()
			f.restarts++
		}
	}
	stop := start()
	check := func() {
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if late := f.late(time.Now(), enough); len(late) > 0 {
			f.broken = append(f.broken, fmt.Sprintf("after %s, %d healthy events have not arrived: %s", time.Since(begun), len(late), strings.Join(late, " ")))
		}
		require.True(t, len(f.broken) == 0, f.broken)
	}
	defer func() { stop(false) }()

	for part := 1; part <= 4; part++ { // the events come over some hours
		add((total+3)/4, false)
		time.Sleep(time.Duration(rapid.IntRange(0, 90).Draw(t, "wait")) * time.Minute)
		if rapid.Bool().Draw(t, "restart") {
			stop(rapid.Bool().Draw(t, "with grace"))
			stop = start()
		}
		check()
	}
	// Others come now and then, which shows what is up.
	last := begun
	for _, o := range f.outages {
		if o.until.After(last) {
			last = o.until
		}
	}
	for round := 0; ; round++ {
		time.Sleep(5 * time.Minute)
		add(f.parts, true)
		check()
		heads := require.Value(store.ParkedHeads(context.Background(), "lake", 0))(t)
		cursor := require.Value(store.Cursor(context.Background(), "lake"))(t)
		if len(heads) == 0 && int(cursor) == appended && time.Now().After(last) {
			break
		}
		// Each of the poisoned events of a key takes its time, one after the other.
		require.True(t, time.Since(last) <= 24*time.Hour*time.Duration(1+f.longestChain()), time.Since(begun), len(heads), cursor, appended)
	}
	dead := make(map[string]bool)
	letters := require.Value(store.Dead(context.Background(), checkpoint.SinkOwner("lake"), "", 1<<20))(t)
	for _, d := range letters {
		e := require.Value(transform.Parse(d.Body))(t)
		dead[e.ID] = true
	}
	for id, x := range f.events {
		if x.poisoned != dead[id] || x.poisoned != x.accepted.IsZero() {
			t.Fatalf("event %s, poisoned: %t, was accepted: %t, is a dead letter: %t", id, x.poisoned, !x.accepted.IsZero(), dead[id])
		}
	}
}

// longestChain returns the largest number of poisoned events with one key.
func (f *faultyTarget) longestChain() (longest int) {
	chains := make(map[string]int)
	for _, x := range f.events {
		if x.poisoned && x.key != "" {
			chains[x.key]++
			longest = max(longest, chains[x.key])
		}
	}
	return longest
}
