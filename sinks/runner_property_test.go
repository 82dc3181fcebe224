package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// fate is what a scripted target does with one event.
type fate int

const (
	takes fate = iota
	loses      // takes it, and its acknowledgement is lost
	fails
)

// form is how a scripted sink tells what became of a batch.
type form int

const (
	byEvent form = iota
	asOne
	miscounted // EventErrors of another length
	hanging    // says nothing until its context ends
)

// answer is what a scripted sink does with one Send.
type answer struct {
	form       form
	fates      []fate // of the events in turn
	class      sinks.Class
	retryAfter time.Duration
	takes      time.Duration
}

func (a answer) err() error {
	if a.class == "" {
		return errors.New("an error that says nothing of its class")
	}
	return &sinks.Error{Class: a.class, RetryAfter: a.retryAfter, Err: fmt.Errorf("scripted: %s", a.class)}
}

// life is one Runner, from its start to its stop.
type life struct {
	appends int
	lasts   time.Duration
}

// world is a plan for the journal, the target and the runners, and what came of
// it. Events are known by their numbers, from 1, which are their sequence
// numbers too.
type world struct {
	keys     []string // of events
	poison   []bool   // of events: the target rejects it whenever it sees it
	script   []answer // of the sink's first Sends; then the target is well
	well     form     // how the sink tells of poison then
	settling []settleFault
	lives    []life
	batch    checkpoint.Batch
	linger   time.Duration

	mu      sync.Mutex
	taken   map[int]bool
	cleared map[int]bool // told to the runner of this life as acknowledged
	open    *scripted
	running bool
	broken  []string // promises
}

// settleFault is how a store fails a settlement.
type settleFault int

const (
	settles settleFault = iota
	settlesNot
	settlesUntold // it is written, and the caller is told otherwise
)

func drawWorld(t *rapid.T) *world {
	n := rapid.IntRange(1, 30).Draw(t, "events")
	w := &world{taken: map[int]bool{}, cleared: map[int]bool{}}
	w.keys = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), n, n).Draw(t, "keys")
	w.poison = rapid.SliceOfN(rapid.SampledFrom([]bool{false, false, false, false, false, true}), n, n).Draw(t, "poison")
	w.script = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) answer {
		return answer{
			form:       rapid.SampledFrom([]form{byEvent, byEvent, byEvent, asOne, asOne, miscounted, hanging}).Draw(t, "form"),
			fates:      rapid.SliceOfN(rapid.SampledFrom([]fate{takes, takes, takes, loses, fails}), 1, 8).Draw(t, "fates"),
			class:      rapid.SampledFrom([]sinks.Class{"", sinks.Transient, sinks.Throttled, sinks.Halted, sinks.Rejected}).Draw(t, "class"),
			retryAfter: rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute}).Draw(t, "retry after"),
			takes:      rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(t, "takes"),
		}
	}), 0, 40).Draw(t, "script")
	w.well = rapid.SampledFrom([]form{byEvent, asOne}).Draw(t, "well")
	w.settling = rapid.SliceOfN(rapid.SampledFrom([]settleFault{settles, settles, settlesNot, settlesUntold}), 0, 10).Draw(t, "settling")
	w.lives = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) life {
		return life{
			appends: rapid.IntRange(0, n).Draw(t, "appends"),
			lasts:   rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "lasts"),
		}
	}), 0, 6).Draw(t, "lives")
	w.batch.MaxEvents = rapid.IntRange(0, 9).Draw(t, "batch")
	w.linger = rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond}).Draw(t, "linger")
	return w
}

// breaks notes that a promise was broken. It is called with mu held.
func (w *world) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// take is called with mu held.
func (w *world) take(number int) {
	if w.taken[number] {
		return
	}
	for before := 1; before < number; before++ {
		if w.keys[before-1] == w.keys[number-1] && !w.taken[before] && !w.poison[before-1] {
			w.breaks("event %d was taken before %d, and both are of %s", number, before, w.keys[number-1])
		}
	}
	w.taken[number] = true
}

// scripted is a sink that does as its world's script says.
type scripted struct{ *world }

func (w *world) opener() (sinks.Sink, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		w.breaks("a sink was opened beside another")
	}
	w.open = &scripted{w}
	return w.open, nil
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != s {
		s.breaks("a sink was closed that is not the open one")
	}
	s.open = nil
	return nil
}

func (s *scripted) Send(ctx context.Context, events []transform.Event) error {
	numbers, a := s.begin(ctx, events)
	if a.form == hanging {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(a.takes):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliver(a, numbers)
}

// begin checks that a Send may be, and returns what to do in it.
func (s *scripted) begin(ctx context.Context, events []transform.Event) ([]int, answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.open != s || ctx.Err() != nil {
		s.breaks("a Send while running: %v, on the open sink: %v, with a context that says %v", s.running, s.open == s, ctx.Err())
	}
	if s.batch.MaxEvents > 0 && len(events) > s.batch.MaxEvents {
		s.breaks("a batch of %d events, and %d are allowed", len(events), s.batch.MaxEvents)
	}
	numbers := make([]int, len(events))
	for i, e := range events {
		numbers[i], _ = strconv.Atoi(e.ID)
	}
	if len(numbers) == 0 || !slices.IsSorted(numbers) {
		s.breaks("a batch of %v", numbers)
	}
	a := answer{form: s.well, fates: []fate{takes}}
	if len(s.script) > 0 {
		a, s.script = s.script[0], s.script[1:]
	}
	return numbers, a
}

// deliver gives each event its fate as a sink must: nothing of a key is tried
// behind what failed.
func (s *scripted) deliver(a answer, numbers []int) error {
	each := make(sinks.EventErrors, len(numbers))
	stopped := map[string]bool{}
	failed, poisoned := false, false
	for i, number := range numbers {
		key := s.keys[number-1]
		what := a.fates[i%len(a.fates)]
		switch {
		case stopped[key]:
			each[i] = sinks.ErrNotTried
		case s.poison[number-1]:
			each[i] = sinks.Errorf(sinks.Rejected, "event %d is poison", number)
			poisoned = true
		case what == takes:
			s.take(number)
		default:
			if what == loses {
				s.take(number)
			}
			each[i], stopped[key] = a.err(), true
			if a.class == sinks.Rejected { // that would be a target that lies
				each[i] = errors.New("connection reset")
			}
		}
		failed = failed || each[i] != nil
	}
	switch {
	case !failed:
	case a.form == byEvent:
		for i, err := range each {
			s.cleared[numbers[i]] = s.cleared[numbers[i]] || err == nil
		}
		return each
	case a.form == miscounted:
		return append(each, nil)
	case poisoned && a.class != sinks.Halted: // it saw the poison, and not where
		return sinks.Errorf(sinks.Rejected, "one of %d events is poison", len(numbers))
	case a.class == sinks.Rejected:
		return errors.New("connection reset")
	default:
		return a.err()
	}
	for _, number := range numbers {
		s.cleared[number] = true
	}
	return nil
}

// journal is a store whose settlements are checked, and fail as scripted.
type journal struct {
	*checkpoint.Store
	*world
}

func (j journal) Settle(ctx context.Context, settlement checkpoint.Settlement) error {
	j.mu.Lock()
	dead := map[uint64]bool{}
	for _, letter := range settlement.Dead {
		seq, err := strconv.ParseUint(letter.Key, 10, 64)
		if err != nil || letter.Class != string(sinks.Rejected) || !strings.Contains(letter.Reason, "poison") {
			j.breaks("dead letter %s, class %s: %s", letter.Key, letter.Class, letter.Reason)
		}
		dead[seq] = true
	}
	for seq := settlement.Expect + 1; seq <= settlement.Cursor; seq++ {
		if !j.cleared[int(seq)] && !dead[seq] {
			j.breaks("the cursor moves to %d, and event %d is neither acknowledged nor buried", settlement.Cursor, seq)
		}
	}
	fault := settles
	if len(j.settling) > 0 {
		fault, j.settling = j.settling[0], j.settling[1:]
	}
	j.mu.Unlock()

	if fault == settlesNot {
		return errors.New("no space left on device")
	}
	if err := j.Store.Settle(ctx, settlement); err != nil {
		return err
	}
	if fault == settlesUntold {
		return errors.New("input/output error")
	}
	return nil
}

const grace = 20 * time.Second

// live runs a runner for one life.
func (w *world) live(t *rapid.T, store *checkpoint.Store, l life, during func()) {
	runner := sinks.NewRunner(journal{store, w}, sinks.Options{
		Name: "lake", Open: w.opener, Batch: w.batch, Linger: w.linger,
		RetryInitial: 500 * time.Millisecond, RetryMax: time.Minute, Probe: 30 * time.Second, Grace: grace,
		Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.setRunning(true)
	clear(w.cleared)
	faultless := len(w.settling) == 0
	var done sync.WaitGroup
	done.Go(func() { runner.Run(ctx) })
	time.Sleep(l.lasts / 2)
	during()
	time.Sleep(l.lasts / 2)
	cancel()
	stopped := time.Now()
	done.Wait()
	if took := time.Since(stopped); took > grace {
		t.Errorf("stopping took %s, and the grace is %s", took, grace)
	}
	w.setRunning(false)
	cursor, err := store.Cursor(context.Background(), "lake")
	if err != nil || faultless && w.cleared[int(cursor)+1] {
		t.Errorf("the cursor stayed at %d when the runner stopped, although the next event was acknowledged (%v)", cursor, err)
	}
}

func (w *world) setRunning(running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = running
	if w.open != nil {
		w.breaks("a sink is open outside of Run")
	}
}

// TestEveryEventIsTakenOrBuriedInOrderWhateverASinkSays plays runners that are
// stopped and started over one journal, with a target that takes, loses, refuses
// and hangs, and a store that fails.
func TestEveryEventIsTakenOrBuriedInOrderWhateverASinkSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		path := filepath.Join(t.TempDir(), "state.db")
		rapid.SyncTest(rt, func(rt *rapid.T) { w.play(rt, path) })
	})
}

func (w *world) play(t *rapid.T, path string) {
	store, err := checkpoint.Open(path, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Configure(context.Background(), map[string]checkpoint.Start{"lake": {}}); err != nil {
		t.Fatal(err)
	}
	appended := 0
	grow := func(events int) {
		to := min(appended+events, len(w.keys))
		if to == appended {
			return
		}
		if err := appendEvents(store, appended+1, to, func(number int) string { return w.keys[number-1] }); err != nil {
			t.Fatal(err)
		}
		appended = to
	}
	for _, l := range w.lives {
		w.live(t, store, l, func() { grow(l.appends) })
	}
	w.script, w.settling = nil, nil
	w.live(t, store, life{lasts: time.Hour}, func() { grow(len(w.keys)) })

	for _, broken := range w.broken {
		t.Error(broken)
	}
	for i, poison := range w.poison {
		if w.taken[i+1] == poison {
			t.Errorf("event %d is poison: %v, and was taken: %v", i+1, poison, w.taken[i+1])
		}
	}
	letters, err := store.Dead(context.Background(), checkpoint.SinkOwner("lake"), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var dead, want []string
	for _, letter := range letters {
		dead = append(dead, strings.TrimLeft(letter.Key, "0"))
	}
	for i, poison := range w.poison {
		if poison {
			want = append(want, strconv.Itoa(i+1))
		}
	}
	if !slices.Equal(dead, want) {
		t.Errorf("dead letters %v, want %v", dead, want)
	}
	if cursor, err := store.Cursor(context.Background(), "lake"); err != nil || cursor != uint64(len(w.keys)) {
		t.Errorf("the cursor stands at %d of %d, %v", cursor, len(w.keys), err)
	}
}
