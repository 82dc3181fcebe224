package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// names are the names of the two sinks; chat has a lag policy that skips.
var names = []string{"lake", "chat"}

// machine is a state file with the runners of two sinks, and the operations on them.
type machine struct {
	*ledger
	dir      string
	files    int // number of the state file; a crash leaves one behind
	store    *checkpoint.Store
	appended int // events of the source, whose ids are their numbers
	models   []*sinkModel
	linger   time.Duration
	stop     func(*rapid.T) // stops the runners
}

// The journal has space for some forty events, and a sink's dead letters for two.
var machineLimits = checkpoint.Limits{MaxBytes: 8000, Retain: 10 * time.Minute, DeadBytes: 1000}

// skipping is the lag policy of the sink that skips.
var skipping = sinks.Lag{
	Skip: true, MaxAge: 30 * time.Minute, MaxBytes: 3000,
	Events: transform.Encoder{Appliance: transform.Bridge},
}

const grace = 20 * time.Second

// lateAfter returns a context that ends a while after ctx.
func lateAfter(ctx context.Context, grace time.Duration) context.Context {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return late
}

// TestEveryEventIsAcceptedDeadLetteredOrSkipped lets a source append to a
// small journal while targets accept, lose, refuse and hang, the store fails, operators
// pause, requeue, replay and drop, and the bridge stops and crashes. Every operation is
// checked, hold checks the invariants between operations, and end checks that nothing is
// left once all faults are gone.
func TestEveryEventIsAcceptedDeadLetteredOrSkipped(t *testing.T) {
	checkRuns(t, func(rt *rapid.T, dir string) {
		m := newMachine(rt, dir)
		m.start(rt)
		defer func() { // a bubble ends when all of its goroutines have
			m.stop(rt)
			m.store.Close()
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"":                        m.hold,
			"events come":             m.append,
			"time passes":             m.pass,
			"a target fails":          m.fail,
			"a target goes down":      m.goDown,
			"a target comes back":     m.comeBack,
			"commits fail":            m.failCommits,
			"dead letters are queued": m.requeue,
			"dead letters are gone":   m.drop,
			"the journal is replayed": m.replay,
			"a sink is paused or not": m.pause,
			"the bridge is restarted": m.restart,
			"the machine crashes":     m.crash,
		})
		m.end(rt)
	})
}

func newMachine(t *rapid.T, dir string) *machine {
	m := &machine{
		ledger: &ledger{seqs: map[string]uint64{}, ids: map[uint64]string{}, poison: map[string]poison{}},
		dir:    dir,
		linger: rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond}).Draw(t, "linger"),
	}
	for _, name := range names {
		m.models = append(m.models, &sinkModel{
			ledger: m.ledger, name: name, skips: name == "chat", released: make(chan struct{}),
			accepted: map[string]bool{}, wasDead: map[string]bool{}, skipped: map[string]bool{}, parked: map[string]bool{}, dead: map[string]bool{},
		})
	}
	for _, o := range m.models {
		o.batch.MaxEvents = rapid.IntRange(1, 12).Draw(t, o.name+" batch")
		o.well = rapid.SampledFrom([]form{byEvent, asOne}).Draw(t, o.name+" form")
	}
	return m
}

func (m *machine) path() string { return filepath.Join(m.dir, fmt.Sprint("state.", m.files, ".db")) }

// start opens the state and starts the runners.
func (m *machine) start(t *rapid.T) {
	store := require.Value(checkpoint.Open(m.path(), checkpoint.Options{Limits: machineLimits}))(t)
	m.store = store
	require.NoError(t, store.Configure(context.Background(), map[string]checkpoint.Start{"chat": {}, "lake": {}}))
	stats := m.stats(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, o := range m.models {
		since := stats.Sinks[o.name].PausedSince
		require.True(t, since.IsZero() != o.paused, o.name, "is paused", o.paused, "but according to the state since", since)
		options := optionsOf(o.name, o.opener)
		options.Batch, options.Linger, options.PausedSince = o.batch, m.linger, since
		if o.skips {
			options.Lag = skipping
		}
		o.life = life{
			store: store, running: true, acknowledged: map[string]bool{}, again: map[checkpoint.RedeliveryOffset]bool{},
			loaded: map[checkpoint.RedeliveryOffset]checkpoint.Redelivered{}, seen: map[string]bool{},
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
			m.breaks("stopping took %s, want at most %s", took, grace)
		}
		for _, o := range m.models {
			if o.running = false; o.open != nil {
				m.breaks("%s is open although its runner has ended", o.name)
			}
		}
	}
}

func (m *machine) stats(t *rapid.T) checkpoint.Stats {
	stats := require.Value(m.store.Stats(context.Background()))(t)
	return stats
}

func (m *machine) cursor(t *rapid.T, o *sinkModel) uint64 {
	cursor := require.Value(m.store.Cursor(context.Background(), o.name))(t)
	return cursor
}

// any draws a model.
func (m *machine) any(t *rapid.T) *sinkModel {
	name := rapid.SampledFrom(names).Draw(t, "sink")
	return m.models[slices.Index(names, name)]
}

// append appends events, unless the journal has no space within a minute.
func (m *machine) append(t *rapid.T) {
	poisons := rapid.SliceOfN(rapid.SampledFrom([]poison{harmless, harmless, harmless, harmless, harmless, harmless, rejected, failing}), 1, 8).Draw(t, "events")
	keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), len(poisons), len(poisons)).Draw(t, "keys")
	m.mu.Lock()
	for i, p := range poisons {
		number := m.appended + 1 + i
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

func (m *machine) fail(t *rapid.T) {
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

// comeBack ends all faults. It is called with mu held.
func (o *sinkModel) comeBack() {
	o.down, o.script, o.commitFaults = nil, nil, nil
	o.release()
}

// release ends the waits of a Send. It is called with mu held.
func (o *sinkModel) release() {
	close(o.released)
	o.released = make(chan struct{})
}

func (m *machine) failCommits(t *rapid.T) {
	o := m.any(t)
	faults := rapid.SliceOfN(rapid.SampledFrom([]commitFault{commitSucceeds, commitFails, commitUnreported}), 1, 4).Draw(t, "faults")
	m.mu.Lock()
	defer m.mu.Unlock()
	o.commitFaults = append(o.commitFaults, faults...)
}

// someDead draws some of the model's dead letters. It is called with mu held.
func (o *sinkModel) someDead(t *rapid.T) []string {
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
	o.release()
	n := require.Value(m.store.Requeue(context.Background(), o.name, keys))(t)
	require.Equal(t, n, len(keys), "of the dead letters", keys, "were requeued")
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
	n := require.Value(m.store.DropDead(context.Background(), checkpoint.SinkOwner(o.name), keys))(t)
	require.Equal(t, n, len(keys), "of the dead letters", keys, "were dropped")
	for _, key := range keys {
		delete(o.dead, key)
	}
}

func (m *machine) replay(t *rapid.T) {
	m.replaySince(t, m.any(t), rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "since"))
}

func (m *machine) replaySince(t *rapid.T, o *sinkModel, ago time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.release()
	queued, err := m.store.Replay(context.Background(), o.name, checkpoint.Period{Since: time.Now().Add(-ago)})
	require.NoError(t, err)
	if queued != (checkpoint.Range{}) {
		o.queued += queued.Last + 1 - queued.First
	}
}

func (m *machine) pause(t *rapid.T) {
	o := m.any(t)
	m.setPaused(t, o, !o.paused)
}

func (m *machine) setPaused(t *rapid.T, o *sinkModel, paused bool) {
	require.NoError(t, m.store.Pause(context.Background(), o.name, paused))
	if o.paused = paused; paused {
		o.runner.Pause()
	} else {
		o.runner.Resume()
	}
}

// restart stops the runners gracefully and starts them again.
func (m *machine) restart(t *rapid.T) {
	m.mu.Lock()
	faultless := map[*sinkModel]bool{}
	for _, o := range m.models {
		faultless[o] = len(o.commitFaults) == 0
	}
	m.mu.Unlock()
	m.stop(t)
	for _, o := range m.models {
		if next := m.ids[m.cursor(t, o)+1]; faultless[o] && !o.full && next != "" && o.acknowledged[next] {
			m.breaks("%s was stopped, and its cursor stayed before %s, which was acknowledged", o.name, next)
		}
	}
	require.NoError(t, m.store.Close())
	m.start(t)
}

// crash continues from a snapshot of the state file. Acknowledgements after the snapshot
// are lost.
func (m *machine) crash(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	for _, o := range m.models {
		o.crashed = true
	}
	file, err := os.ReadFile(m.path())
	m.mu.Unlock()
	require.NoError(t, err)
	m.stop(t)
	require.NoError(t, errors.Join(m.store.Close(), os.Remove(m.path())))
	m.files++
	require.NoError(t, os.WriteFile(m.path(), file, 0o600))
	m.start(t)
}

// hold checks the invariants.
func (m *machine) hold(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.stats(t)
	for _, o := range m.models {
		cursor := m.cursor(t, o)
		if stats.First > cursor+1 {
			m.breaks("the journal begins with %d, and %s has committed only up to %d", stats.First, o.name, cursor)
		}
		for seq := uint64(1); seq <= cursor; seq++ {
			if id, known := m.ids[seq]; !known || !o.accepted[id] && !o.wasDead[id] && !o.skipped[id] && !o.parked[id] {
				m.breaks("the cursor of %s is at %d, and number %d (%q) was neither accepted nor dead-lettered nor skipped nor parked", o.name, cursor, seq, id)
			}
		}
		deadLetters := require.Value(m.store.Dead(context.Background(), checkpoint.SinkOwner(o.name), "", 1000))(t)
		if count := stats.DeadLetters[checkpoint.SinkOwner(o.name)].Count; len(deadLetters) != len(o.dead) || int(count) != len(o.dead) {
			m.breaks("%s has %d dead letters and counts %d, want %d", o.name, len(deadLetters), count, len(o.dead))
		}
		for _, deadLetter := range deadLetters {
			if !o.dead[deadLetter.Key] {
				m.breaks("%s has an unexpected dead letter %s", o.name, deadLetter.Key)
			}
		}
	}
	m.verdict(t)
}

// end removes all faults and limits, waits until everything is committed, and checks the
// result.
func (m *machine) end(t *rapid.T) {
	m.mu.Lock()
	for _, o := range m.models {
		o.comeBack()
	}
	m.mu.Unlock()
	m.store.SetLimits(checkpoint.Limits{Retain: machineLimits.Retain})
	for _, o := range m.models {
		m.setPaused(t, o, false)
	}
	rounds := 0
	for ; rounds < 500 && !m.idle(t); rounds++ {
		// Events that keep failing are isolated only if others are delivered, and the rest
		// of a trimmed range is found only through later items of the queue.
		m.commit(t, 1, func(int) string { return "" })
		time.Sleep(time.Minute)
		stats := m.stats(t)
		for _, o := range m.models {
			if stats.Sinks[o.name].Queued > 0 && !m.redelivering(o) {
				m.replaySince(t, o, time.Minute)
			}
		}
		time.Sleep(time.Minute)
	}
	m.hold(t)
	m.stop(t)
	stats := m.stats(t)
	for _, o := range m.models {
		s := stats.Sinks[o.name]
		if s.Cursor != stats.Last || s.LagEvents != 0 || s.Queued != 0 || s.Parked != 0 {
			m.breaks("%s has %d events, %d redeliveries and %d parked events left after %d rounds, its cursor is at %d of %d", o.name, s.LagEvents, s.Queued, s.Parked, rounds, s.Cursor, stats.Last)
		}
		for number := 1; number <= m.appended; number++ {
			if id := fmt.Sprint(number); !o.accepted[id] && !o.wasDead[id] && !o.skipped[id] {
				m.breaks("%s has neither accepted nor dead-lettered nor skipped event %s", o.name, id)
			}
		}
		if s.Skipped < o.behind || o.committed+s.Skipped-o.behind != o.queued {
			m.breaks("%s has skipped %d events, %d of them by its policy; of %d redeliveries, %d were committed", o.name, s.Skipped, o.behind, o.queued, o.committed)
		}
		if status := o.runner.Status(); status.State != sinks.StateRunning {
			m.breaks("%s ends as %+v", o.name, status)
		}
	}
	for seq := uint64(1); seq <= stats.Last; seq++ {
		if id, known := m.ids[seq]; !known || !own(id) && m.seqs[id] == 0 {
			m.breaks("number %d (%q) was never appended", seq, id)
		}
	}
	m.verdict(t)
}

// verdict fails the test if a promise was violated. It is called with mu held, or with
// nothing running.
func (m *machine) verdict(t *rapid.T) {
	require.True(t, len(m.broken) == 0, m.broken)
}

func (m *machine) redelivering(o *sinkModel) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.redelivers()
}

// idle reports whether everything is committed.
func (m *machine) idle(t *rapid.T) bool {
	stats := m.stats(t)
	for _, o := range m.models {
		if s := stats.Sinks[o.name]; s.Cursor != stats.Last || s.Queued != 0 || s.Parked != 0 {
			return false
		}
	}
	return true
}
