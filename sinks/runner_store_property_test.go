package sinks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// names are those of the two sinks: chat skips when it is too far behind.
var names = []string{"lake", "chat"}

// machine is a state in a file, the runners of two sinks over it, and whatever
// happens to them.
type machine struct {
	*ledger
	dir      string
	files    int // a crash leaves one behind
	store    *checkpoint.Store
	appended int // events of the source, called by their numbers
	failing  int // of them, and of those that found no space
	outlets  []*outlet
	linger   time.Duration
	stop     func(*rapid.T) // stops the runners
}

// The journal has space for some forty events, and a sink's dead letters for two.
var machineLimits = checkpoint.Limits{MaxBytes: 8000, Retain: 10 * time.Minute, DeadBytes: 1000}

// skipping is the lag policy of the outlet that skips.
var skipping = sinks.Lag{
	Skip: true, MaxAge: 30 * time.Minute, MaxBytes: 3000,
	Events: transform.Encoder{TypePrefix: "io.ndrbridge", Appliance: transform.Bridge},
}

const leastBatch = 4

const grace = 20 * time.Second

// lateAfter returns a context that ends a while after ctx.
func lateAfter(ctx context.Context, grace time.Duration) context.Context {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return late
}

// TestEveryEventIsTakenBuriedOrSkippedWhateverHappens lets a source append to a
// journal that is soon full, while targets take, lose, refuse and hang, the store
// fails, operators pause, requeue, replay and drop, and all of it stops and
// crashes. Whatever is done is checked as it is done; what must hold between is
// checked in hold; and in the end, when all is well, nothing is left. It is run 25
// times, or as often as -rapid.checks says.
func TestEveryEventIsTakenBuriedOrSkippedWhateverHappens(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue { // each syncs some hundred times
		if err := checks.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
		defer checks.Value.Set(checks.DefValue)
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "state-")
		if err != nil {
			rt.Fatal(err)
		}
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := newMachine(rt, dir)
			m.start(rt)
			defer func() { // a bubble ends when all in it has
				m.stop(rt)
				m.store.Close()
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"":                        m.hold,
				"events come":             m.append,
				"time passes":             m.pass,
				"a target is moody":       m.mood,
				"a target goes down":      m.goDown,
				"a target comes back":     m.comeBack,
				"settlements fail":        m.failSettlements,
				"dead letters are queued": m.requeue,
				"dead letters are gone":   m.drop,
				"the journal is replayed": m.replay,
				"a sink is paused or not": m.pause,
				"the bridge is restarted": m.restart,
				"the machine crashes":     m.crash,
			})
			m.end(rt)
		})
	})
}

func newMachine(t *rapid.T, dir string) *machine {
	m := &machine{
		ledger: &ledger{seqs: map[string]uint64{}, ids: map[uint64]string{}, poison: map[string]poison{}},
		dir:    dir,
		linger: rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond}).Draw(t, "linger"),
	}
	for _, name := range names {
		m.outlets = append(m.outlets, &outlet{
			ledger: m.ledger, name: name, skips: name == "chat", hurried: make(chan struct{}),
			taken: map[string]bool{}, buried: map[string]bool{}, skipped: map[string]bool{}, dead: map[string]bool{},
		})
	}
	for _, o := range m.outlets {
		o.batch.MaxEvents = rapid.IntRange(leastBatch, 12).Draw(t, o.name+" batch")
		o.well = rapid.SampledFrom([]form{byEvent, asOne}).Draw(t, o.name+" form")
	}
	return m
}

func (m *machine) path() string { return filepath.Join(m.dir, fmt.Sprint("state.", m.files, ".db")) }

// start opens the state and lets the runners run.
func (m *machine) start(t *rapid.T) {
	store, err := checkpoint.Open(m.path(), checkpoint.Options{Limits: machineLimits})
	if err != nil {
		t.Fatal(err)
	}
	m.store = store
	if err := store.Configure(context.Background(), map[string]checkpoint.Start{"chat": {}, "lake": {}}); err != nil {
		t.Fatal(err)
	}
	stats := m.stats(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, o := range m.outlets {
		since := stats.Sinks[o.name].PausedSince
		if since.IsZero() == o.paused {
			t.Fatalf("%s is paused: %v, and the state says since %v", o.name, o.paused, since)
		}
		options := sinks.Options{
			Name: o.name, Open: o.opener, Batch: o.batch, Linger: m.linger, PausedSince: since,
			RetryInitial: 500 * time.Millisecond, RetryMax: time.Minute, Probe: 30 * time.Second,
			Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
		}
		if o.skips {
			options.Lag = skipping
		}
		o.life = life{
			store: store, running: true, acknowledged: map[string]bool{}, again: map[checkpoint.RedeliveryOffset]bool{},
			handed: map[checkpoint.RedeliveryOffset]checkpoint.Redelivered{}, seen: map[string]bool{},
			latest: map[string]uint64{}, latestAcked: map[string]uint64{},
		}
		o.runner = sinks.NewRunner(watched{store, o}, options)
		running.Go(func() { o.runner.Run(ctx, lateAfter(ctx, grace)) })
	}
	m.stop = func(t *rapid.T) {
		begun := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(begun); took > grace {
			m.breaks("stopping took %s, and the grace is %s", took, grace)
		}
		for _, o := range m.outlets {
			if o.running = false; o.open != nil {
				m.breaks("%s is open, and its runner has ended", o.name)
			}
		}
	}
}

func (m *machine) stats(t *rapid.T) checkpoint.Stats {
	stats, err := m.store.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func (m *machine) cursor(t *rapid.T, o *outlet) uint64 {
	cursor, err := m.store.Cursor(context.Background(), o.name)
	if err != nil {
		t.Fatal(err)
	}
	return cursor
}

// any draws an outlet.
func (m *machine) any(t *rapid.T) *outlet {
	name := rapid.SampledFrom(names).Draw(t, "sink")
	return m.outlets[slices.Index(names, name)]
}

// append lets events come, or not, where the journal has no space within a
// minute. Where a batch has nothing but events that keep failing, or wait for
// those, it looks as if the target were down; so those are few, and have keys of
// their own.
func (m *machine) append(t *rapid.T) {
	poisons := rapid.SliceOfN(rapid.SampledFrom([]poison{harmless, harmless, harmless, harmless, harmless, harmless, rejected, failing}), 1, 8).Draw(t, "events")
	keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), len(poisons), len(poisons)).Draw(t, "keys")
	m.mu.Lock()
	for i, p := range poisons {
		number := m.appended + 1 + i
		if p == failing && m.failing == leastBatch-1 {
			p = harmless
		}
		if p == failing {
			m.failing++
			keys[i] = fmt.Sprint("of ", number)
		}
		m.poison[fmt.Sprint(number)] = p
	}
	m.mu.Unlock()
	m.commit(t, len(poisons), func(number int) string { return keys[number-m.appended-1] })
}

func (m *machine) commit(t *rapid.T, n int, key func(number int) string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch err := appendEvents(ctx, m.store, m.appended+1, m.appended+n, key); {
	case err == nil:
		m.appended += n
	case !errors.Is(err, context.DeadlineExceeded):
		t.Fatal(err)
	}
}

func (m *machine) pass(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{50 * time.Millisecond, time.Second, time.Minute, 20 * time.Minute, time.Hour}).Draw(t, "time"))
}

func (m *machine) mood(t *rapid.T) {
	o, script := m.any(t), rapid.SliceOfN(answers, 1, 8).Draw(t, "script")
	m.mu.Lock()
	defer m.mu.Unlock()
	o.script = append(o.script, script...)
}

func (m *machine) goDown(t *rapid.T) {
	o, down := m.any(t), answers.Draw(t, "answer")
	m.mu.Lock()
	defer m.mu.Unlock()
	o.down = &down
}

func (m *machine) comeBack(t *rapid.T) {
	o := m.any(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	o.comeBack()
}

// comeBack is called with mu held.
func (o *outlet) comeBack() {
	o.down, o.script, o.settling = nil, nil, nil
	o.hurry()
}

// hurry ends the waits of a Send. It is called with mu held.
func (o *outlet) hurry() {
	close(o.hurried)
	o.hurried = make(chan struct{})
}

func (m *machine) failSettlements(t *rapid.T) {
	o := m.any(t)
	faults := rapid.SliceOfN(rapid.SampledFrom([]settleFault{settles, settlesNot, settlesUntold}), 1, 4).Draw(t, "faults")
	m.mu.Lock()
	defer m.mu.Unlock()
	o.settling = append(o.settling, faults...)
}

// someDead draws some of an outlet's dead letters. It is called with mu held.
func (o *outlet) someDead(t *rapid.T) []string {
	var keys []string
	for key := range o.dead {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		t.Skip("there is none")
	}
	slices.Sort(keys)
	return rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, -1, rapid.ID).Draw(t, "keys")
}

func (m *machine) requeue(t *rapid.T) {
	o := m.any(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := o.someDead(t)
	o.hurry()
	n, err := m.store.Requeue(context.Background(), o.name, keys)
	if err != nil || n != len(keys) {
		t.Fatalf("%d of the dead letters %v were requeued, %v", n, keys, err)
	}
	o.queued += uint64(n)
	for _, key := range keys {
		delete(o.dead, key)
	}
}

func (m *machine) drop(t *rapid.T) {
	o := m.any(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := o.someDead(t)
	n, err := m.store.DropDead(context.Background(), checkpoint.SinkOwner(o.name), keys)
	if err != nil || n != len(keys) {
		t.Fatalf("%d of the dead letters %v were dropped, %v", n, keys, err)
	}
	for _, key := range keys {
		delete(o.dead, key)
	}
}

func (m *machine) replay(t *rapid.T) {
	m.replaySince(t, m.any(t), rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "since"))
}

func (m *machine) replaySince(t *rapid.T, o *outlet, ago time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.hurry()
	queued, err := m.store.Replay(context.Background(), o.name, time.Now().Add(-ago))
	if err != nil {
		t.Fatal(err)
	}
	if queued != (checkpoint.Range{}) {
		o.queued += queued.Last + 1 - queued.First
	}
}

func (m *machine) pause(t *rapid.T) {
	o := m.any(t)
	m.setPaused(t, o, !o.paused)
}

func (m *machine) setPaused(t *rapid.T, o *outlet, paused bool) {
	if err := m.store.Pause(context.Background(), o.name, paused); err != nil {
		t.Fatal(err)
	}
	if o.paused = paused; paused {
		o.runner.Pause()
	} else {
		o.runner.Resume()
	}
}

// restart ends the bridge in order and starts it again.
func (m *machine) restart(t *rapid.T) {
	m.mu.Lock()
	faultless := map[*outlet]bool{}
	for _, o := range m.outlets {
		faultless[o] = len(o.settling) == 0
	}
	m.mu.Unlock()
	m.stop(t)
	for _, o := range m.outlets {
		if next := m.ids[m.cursor(t, o)+1]; faultless[o] && !o.full && next != "" && o.acknowledged[next] {
			m.breaks("%s was stopped, and its cursor stayed in front of %s, which was acknowledged", o.name, next)
		}
	}
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}

// crash goes on from the file as it is at one moment. What targets take in that
// moment, nobody is told.
func (m *machine) crash(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	for _, o := range m.outlets {
		o.crashed = true
	}
	file, err := os.ReadFile(m.path())
	m.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	m.stop(t)
	if err := errors.Join(m.store.Close(), os.Remove(m.path())); err != nil {
		t.Fatal(err)
	}
	m.files++
	if err := os.WriteFile(m.path(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}

// hold checks what holds at any time.
func (m *machine) hold(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.stats(t)
	for _, o := range m.outlets {
		cursor := m.cursor(t, o)
		if stats.First > cursor+1 {
			m.breaks("the journal begins with %d, and %s has settled no more than %d", stats.First, o.name, cursor)
		}
		for seq := uint64(1); seq <= cursor; seq++ {
			if id, known := m.ids[seq]; !known || !o.taken[id] && !o.buried[id] && !o.skipped[id] {
				m.breaks("the cursor of %s is at %d, and number %d (%q) was neither taken nor buried nor skipped", o.name, cursor, seq, id)
			}
		}
		deadLetters, err := m.store.Dead(context.Background(), checkpoint.SinkOwner(o.name), "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if count := stats.DeadLetters[checkpoint.SinkOwner(o.name)].Count; len(deadLetters) != len(o.dead) || int(count) != len(o.dead) {
			m.breaks("%s has %d dead letters, %d as they are counted, and %d are due", o.name, len(deadLetters), count, len(o.dead))
		}
		for _, deadLetter := range deadLetters {
			if !o.dead[deadLetter.Key] {
				m.breaks("%s has the dead letter %s, and should not", o.name, deadLetter.Key)
			}
		}
	}
	m.verdict(t)
}

// end lets all be well, with space for everything, until everything is settled, and
// checks what came of it.
func (m *machine) end(t *rapid.T) {
	m.mu.Lock()
	for _, o := range m.outlets {
		o.comeBack()
	}
	m.mu.Unlock()
	m.store.SetLimits(checkpoint.Limits{Retain: machineLimits.Retain})
	for _, o := range m.outlets {
		m.setPaused(t, o, false)
	}
	rounds := 0
	for ; rounds < 500 && !m.idle(t); rounds++ {
		// What keeps failing is found beside others that pass, and what is left of a
		// stretch that was trimmed is found by what is queued behind it.
		m.commit(t, 1, func(int) string { return "" })
		time.Sleep(time.Minute)
		stats := m.stats(t)
		for _, o := range m.outlets {
			if stats.Sinks[o.name].Queued > 0 && !m.redelivering(o) {
				m.replaySince(t, o, time.Minute)
			}
		}
		time.Sleep(time.Minute)
	}
	m.hold(t)
	m.stop(t)
	stats := m.stats(t)
	for _, o := range m.outlets {
		s := stats.Sinks[o.name]
		if s.Cursor != stats.Last || s.LagEvents != 0 || s.Queued != 0 {
			m.breaks("%s has %d events and %d redeliveries left after %d rounds, its cursor is at %d of %d", o.name, s.LagEvents, s.Queued, rounds, s.Cursor, stats.Last)
		}
		for number := 1; number <= m.appended; number++ {
			if id := fmt.Sprint(number); !o.taken[id] && !o.buried[id] && !o.skipped[id] {
				m.breaks("%s has neither taken nor buried nor skipped event %s", o.name, id)
			}
		}
		if s.Skipped < o.behind || o.settled+s.Skipped-o.behind != o.queued {
			m.breaks("%s has skipped %d events, %d of them by its policy; of %d redeliveries, %d were settled", o.name, s.Skipped, o.behind, o.queued, o.settled)
		}
		if status := o.runner.Status(); status.State != sinks.StateRunning {
			m.breaks("%s ends as %+v", o.name, status)
		}
	}
	for seq := uint64(1); seq <= stats.Last; seq++ {
		if id, known := m.ids[seq]; !known || !own(id) && m.seqs[id] == 0 {
			m.breaks("number %d (%q) is no event that came", seq, id)
		}
	}
	m.verdict(t)
}

// verdict is called with mu held, or with nothing running.
func (m *machine) verdict(t *rapid.T) {
	if len(m.broken) > 0 {
		t.Fatal(strings.Join(m.broken, "\n"))
	}
}

func (m *machine) redelivering(o *outlet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.redelivers()
}

// idle reports whether all is settled.
func (m *machine) idle(t *rapid.T) bool {
	stats := m.stats(t)
	for _, o := range m.outlets {
		if s := stats.Sinks[o.name]; s.Cursor != stats.Last || s.Queued != 0 {
			return false
		}
	}
	return true
}
