package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// model is the expected state, kept in memory.
type model struct {
	positions map[checkpoint.Source][]byte
	known     map[checkpoint.Source]map[string]knownEntry
	events    []transform.Event // all that were ever committed: the first has number 1
	first     uint64            // the lowest number that may be requested: all before it are known to be trimmed
	cursors   map[string]uint64
	sinks     []string // configured ones; nil until Configure
	dead      map[checkpoint.Owner]map[string]checkpoint.DeadLetter
	dropped   map[checkpoint.Owner]uint64
	queues    map[string][]queuedEvent // by sink, the events to redeliver
	skipped   map[string]uint64        // by sink
	paused    map[string]time.Time
	made      map[string]map[string]knownEntry
}

// unbounded is a MaxBytes that is never reached.
const unbounded = 1 << 30

type knownEntry struct {
	value     []byte
	at        int64
	forgotten bool // a commit allowed it to be forgotten
}

// machine drives a store and the model with the same calls.
type machine struct {
	model
	s     *state
	count int // events and positions, for names
}

var (
	modelSources = []checkpoint.Source{detections, audit, {Appliance: "lab", Stream: "records/dns"}}
	modelSinks   = []string{"a", "b", "c"}
)

func (b backend) testProperties(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(root, fmt.Sprint(runs))
		require.NoError(t, os.Mkdir(dir, 0o700))
		defer os.RemoveAll(dir)
		m := &machine{
			s: b.stateAt(t, filepath.Join(dir, "state"), checkpoint.Limits{
				MaxBytes:  rapid.SampledFrom([]int64{2000, 20000, unbounded}).Draw(t, "max bytes"),
				Retain:    rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "retain"),
				DeadBytes: rapid.SampledFrom([]int64{0, 6000}).Draw(t, "dead bytes"),
			}),
			model: model{
				positions: map[checkpoint.Source][]byte{}, known: map[checkpoint.Source]map[string]knownEntry{},
				first: 1, cursors: map[string]uint64{}, dead: map[checkpoint.Owner]map[string]checkpoint.DeadLetter{}, dropped: map[checkpoint.Owner]uint64{},
				queues: map[string][]queuedEvent{}, skipped: map[string]uint64{},
				paused: map[string]time.Time{}, made: map[string]map[string]knownEntry{},
			},
		}
		defer func() { m.s.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"":                m.check,
			"commit":          m.commit,
			"recall":          m.recall,
			"configure":       m.configure,
			"commit delivery": m.acknowledge,
			"read":            m.read,
			"skip":            m.skip,
			"pause":           m.pause,
			"requeue":         m.requeue,
			"replay":          m.replay,
			"redeliver":       m.redeliver,
			"drop dead":       m.dropDead,
			"forget":          m.forget,
			"rename":          m.rename,
			"remember":        m.rememberSink,
			"recollect":       m.recallSink,
			"time": func(t *rapid.T) {
				m.s.clock.advance(time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second)
			},
			"reopen": m.reopen,
			"crash":  m.crash,
		})
	})
}

func (m *machine) reopen(t *rapid.T) {
	trimmable := m.trimmable()
	m.s.reopen()
	m.sinks = nil
	m.observe(t, trimmable)
}

func (m *machine) crash(t *rapid.T) {
	trimmable := m.trimmable()
	crashed := m.s.crashed()
	require.NoError(t, m.s.Close())
	m.s, m.sinks = crashed, nil
	m.observe(t, trimmable)
}

func (m *machine) commit(t *rapid.T) {
	source := rapid.SampledFrom(modelSources).Draw(t, "source")
	m.count++
	c := checkpoint.Commit{
		Source: source, Expect: m.positions[source], Position: fmt.Appendf(nil, "p%d", m.count),
		ForgetBefore: int64(rapid.IntRange(0, 20).Draw(t, "forget before")),
	}
	for range rapid.IntRange(0, 5).Draw(t, "events") {
		m.count++
		c.Events = append(c.Events, event(fmt.Sprint(m.count), m.s.clock.Now(), rapid.IntRange(250, 3000).Draw(t, "size")))
	}
	c.Remember = m.entries(t)
	c.Dead = m.deadLetters(t)
	if rapid.IntRange(0, 4).Draw(t, "wrong") == 0 {
		c.Expect = append(bytes.Clone(c.Expect), 'x')
		require.ErrorIs(t, m.s.Commit(context.Background(), c), checkpoint.ErrFenced)
		return
	}
	if len(c.Events) > 0 && m.unacknowledged() >= m.s.options.Limits.MaxBytes {
		m.commitRefused(t, c)
		return
	}
	require.NoError(t, m.s.Commit(context.Background(), c))
	m.positions[source] = c.Position
	m.events = append(m.events, c.Events...)
	keep(m.known, source, c.Remember, c.ForgetBefore)
	m.deadLetter(checkpoint.SourceOwner(source), c.Dead)
	if len(c.Dead) > 0 && m.s.options.Limits.DeadBytes > 0 {
		m.giveWay(t)
	}
}

// commitRefused cancels a commit that waits for space: nothing of it may be written.
func (m *machine) commitRefused(t *rapid.T, c checkpoint.Commit) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := m.s.commitIntoFull(ctx, c)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// unacknowledged returns the bytes that some configured sink has not committed yet.
func (m *machine) unacknowledged() int64 {
	return bytesOf(m.events[max(m.acknowledged(), m.first-1):])
}

// acknowledged returns the last event that every configured sink has committed.
func (m *machine) acknowledged() uint64 {
	if m.sinks == nil {
		return m.first - 1
	}
	lowest := uint64(len(m.events))
	for _, sink := range m.sinks {
		lowest = min(lowest, m.cursors[sink])
	}
	return lowest
}

var modelKey = rapid.StringMatching(`[a-d][a-d]?`)

func (m *machine) deadLetters(t *rapid.T) (deadLetters []checkpoint.DeadLetter) {
	for range rapid.IntRange(0, 2).Draw(t, "dead letters") {
		m.count++
		body := bytes.Repeat([]byte{'b'}, rapid.IntRange(0, 100).Draw(t, "body"))
		if rapid.Bool().Draw(t, "event") {
			body = event(fmt.Sprint(m.count), m.s.clock.Now(), 300).Structured()
		}
		deadLetters = append(deadLetters, checkpoint.DeadLetter{
			Key: modelKey.Draw(t, "key"), Class: "rejected", Reason: fmt.Sprintf("reason %d", m.count), Time: m.s.clock.Now(),
			Body: body,
		})
	}
	return deadLetters
}

func (m *machine) deadLetter(o checkpoint.Owner, deadLetters []checkpoint.DeadLetter) {
	for _, d := range deadLetters {
		if m.dead[o] == nil {
			m.dead[o] = map[string]checkpoint.DeadLetter{}
		}
		m.dead[o][d.Key] = d
	}
}

func (m *machine) recall(t *rapid.T) {
	source := rapid.SampledFrom(modelSources).Draw(t, "source")
	keys := rapid.SliceOf(modelKey).Draw(t, "keys")
	values, err := m.s.Recall(context.Background(), source, keys)
	compare(t, source.String(), m.known[source], keys, values, err)
}

func (m *machine) configure(t *rapid.T) {
	sinks, cursors := map[string]checkpoint.Start{}, map[string]uint64{}
	trimmable := m.trimmable()
	m.observe(t, trimmable)
	for _, sink := range modelSinks {
		if !rapid.Bool().Draw(t, sink) {
			continue
		}
		start, cursor := checkpoint.Start{}, m.first-1
		switch rapid.IntRange(0, 2).Draw(t, "start") {
		case 0:
			start.Now, cursor = true, uint64(len(m.events))
		case 1:
			start.Since = noon.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "since")) * time.Second)
			for cursor < uint64(len(m.events)) && m.events[cursor].RecordedTime.Before(start.Since) {
				cursor++
			}
		}
		sinks[sink], cursors[sink] = start, cursor
	}
	require.NoError(t, m.s.Configure(context.Background(), sinks))
	first := m.s.stats().First
	for sink, want := range cursors {
		if _, known := m.cursors[sink]; known {
			continue
		}
		// Old events may have been trimmed just before.
		got, err := m.s.Cursor(context.Background(), sink)
		require.True(t, err == nil && got >= want && got <= max(want, first-1), "new sink", sink, "begins after", got, err, want)
		m.cursors[sink] = got
	}
	m.sinks = []string{}
	for sink := range sinks {
		m.sinks = append(m.sinks, sink)
	}
	m.observe(t, trimmable)
}

func (m *machine) acknowledge(t *rapid.T) {
	sink := rapid.SampledFrom(modelSinks).Draw(t, "sink")
	cursor, known := m.cursors[sink]
	if !known {
		t.Skip("the sink is not known")
	}
	s := checkpoint.Delivery{
		Sink: sink, Expect: cursor, Dead: m.deadLetters(t),
		Cursor: rapid.Uint64Range(cursor, uint64(len(m.events))).Draw(t, "to"),
	}
	switch rapid.IntRange(0, 5).Draw(t, "wrong") {
	case 0:
		s.Expect++
		require.ErrorIs(t, m.s.CommitDelivery(context.Background(), s), checkpoint.ErrFenced)
		return
	case 1:
		s.Cursor = uint64(len(m.events)) + 1
		err := m.s.CommitDelivery(context.Background(), s)
		require.True(t, err != nil, "a cursor was set beyond the journal")
		return
	}
	want := m.deadFull(sink, s.Dead)
	require.ErrorIs(t, m.s.CommitDelivery(context.Background(), s), want)
	if want != nil {
		return
	}
	m.cursors[sink] = s.Cursor
	m.deadLetter(checkpoint.SinkOwner(sink), s.Dead)
}

func (m *machine) read(t *rapid.T) {
	after := rapid.Uint64Range(0, uint64(len(m.events))+1).Draw(t, "after")
	bound := checkpoint.Batch{MaxEvents: rapid.IntRange(0, 4).Draw(t, "events"), MaxBytes: rapid.IntRange(0, 5000).Draw(t, "bytes")}
	records := require.Value(m.s.Read(context.Background(), after, bound))(t)
	require.True(t, bound.MaxEvents <= 0 || len(records) <= bound.MaxEvents, len(records), "events, want at most", bound.MaxEvents)
	size := 0
	for i, r := range records {
		require.True(t, r.Seq > after && (i <= 0 || r.Seq == records[i-1].Seq+1), "event", r.Seq, "comes", i+1, after)
		m.wantEvent(t, r)
		size += len(r.Event.Structured())
	}
	require.True(t, bound.MaxBytes <= 0 || len(records) <= 1 || size <= bound.MaxBytes, len(records), "events of", size, "bytes, want at most", bound.MaxBytes)
}

func (m *machine) wantEvent(t *rapid.T, r checkpoint.Record) {
	require.True(t, r.Seq >= 1, "event", r.Seq, "was never committed")
	require.True(t, r.Seq <= uint64(len(m.events)), "event")
	if !bytes.Equal(r.Event.Structured(), m.events[r.Seq-1].Structured()) {
		t.Fatalf("event %d is\n%s, want\n%s", r.Seq, r.Event.Structured(), m.events[r.Seq-1].Structured())
	}
}

// observe records how far the journal was trimmed, and checks that it may be: events up to
// trimmable were committed a moment ago. It waits until the journal is within its bound,
// if committed events can give way.
func (m *machine) observe(t *rapid.T, trimmable uint64) checkpoint.Stats {
	for {
		stats := m.s.stats()
		allowed := max(trimmable, m.trimmable(), m.first-1)
		require.True(t, stats.First >= m.first && stats.First <= allowed+1, stats.First, m.first, allowed)
		m.first = stats.First
		if m.sinks == nil || stats.Bytes <= m.s.options.Limits.MaxBytes || m.first > m.acknowledged() {
			return stats
		}
		time.Sleep(time.Millisecond)
	}
}

// check compares all that a store shows with the model.
func (m *machine) check(t *rapid.T) {
	stats := m.observe(t, 0)
	held := m.events[m.first-1:]
	if stats.Last != uint64(len(m.events)) || stats.Events != uint64(len(held)) || stats.Bytes != bytesOf(held) ||
		stats.MaxBytes != m.s.options.Limits.MaxBytes || stats.FileBytes <= 0 || stats.SourcesWait {
		t.Fatalf("%+v, want events %d to %d with %d bytes", stats, m.first, len(m.events), bytesOf(held))
	}
	records := require.Value(m.s.Read(context.Background(), 0, checkpoint.Batch{}))(t)
	require.True(t, len(records) <= len(held), "read", "events", len(held))
	for i, r := range records {
		require.Equal(t, r.Seq, uint64(len(m.events)-len(records)+1+i), "the number of event", i+1, ". of", len(records), "up to", len(m.events))
		m.wantEvent(t, r)
	}
	for _, source := range modelSources {
		position, err := m.s.Position(context.Background(), source)
		require.True(t, err == nil && bytes.Equal(position, m.positions[source]), "position of", source, string(position), err, m.positions)
	}
	require.Equal(t, len(stats.Sinks), len(m.cursors), "sinks")
	for sink, cursor := range m.cursors {
		m.checkSink(t, sink, cursor, stats.Sinks[sink])
	}
	for o := range m.dropped {
		if m.dead[o] == nil { // dropped ones stay counted
			m.dead[o] = map[string]checkpoint.DeadLetter{}
		}
	}
	require.Equal(t, len(stats.DeadLetters), len(m.dead), "owners of dead letters")
	for o, deadLetters := range m.dead {
		m.checkDead(t, o, deadLetters, stats.DeadLetters[o])
	}
}

func (m *machine) checkSink(t *rapid.T, sink string, cursor uint64, got checkpoint.SinkStats) {
	acknowledged := max(cursor, m.first-1)
	ahead := m.events[acknowledged:]
	want := checkpoint.SinkStats{
		Cursor: cursor, LagEvents: uint64(len(ahead)), LagBytes: bytesOf(ahead), Configured: slices.Contains(m.sinks, sink),
		Trimmed: acknowledged - cursor, Skipped: m.skipped[sink], PausedSince: got.PausedSince,
	}
	require.True(t, got.PausedSince.Equal(m.paused[sink]), sink, "is paused since", got.PausedSince, m.paused[sink])
	for _, q := range m.queues[sink] {
		if m.gone(q) {
			want.Skipped++
			continue
		}
		want.Queued++
	}
	if len(ahead) > 0 {
		want.Oldest = ahead[0].RecordedTime
	}
	require.Equal(t, got, want, sink)
	require.Equal(t, require.Value(m.s.Cursor(context.Background(), sink))(t), cursor, "cursor of", sink)
}

// giveWay removes the sources' dead letters that the store dropped from the model:
// none if they are within their share, else an owner's oldest.
func (m *machine) giveWay(t *rapid.T) {
	share := m.s.options.Limits.DeadBytes / int64(len(m.sinks)+1)
	before, after := int64(0), int64(0)
	taken := func(d checkpoint.DeadLetter) int64 { return int64(len(d.Body)) + checkpoint.DeadOverhead }
	for _, source := range modelSources {
		o := checkpoint.SourceOwner(source)
		kept := map[string]bool{}
		deadLetters := require.Value(m.s.Dead(context.Background(), o, "", 1<<20))(t)
		var oldest time.Time
		for _, d := range deadLetters {
			kept[d.Key] = true
			after += taken(d)
			if oldest.IsZero() || d.Time.Before(oldest) {
				oldest = d.Time
			}
		}
		for key, d := range m.dead[o] {
			before += taken(d)
			if kept[key] {
				continue
			}
			require.True(t, oldest.IsZero() || !d.Time.After(oldest), o, "lost a dead letter of", d.Time, "and keeps one of", oldest)
			delete(m.dead[o], key)
			m.dropped[o]++
		}
	}
	require.True(t, after <= share && (before > share || after == before), after, share, before)
}

func (m *machine) checkDead(t *rapid.T, o checkpoint.Owner, want map[string]checkpoint.DeadLetter, counted checkpoint.DeadStats) {
	deadLetters := require.Value(m.s.Dead(context.Background(), o, "", len(want)+1))(t)
	require.Equal(t, len(deadLetters), len(want), "dead letters of", o)
	var size int64
	for _, d := range deadLetters {
		w := want[d.Key]
		require.True(t, d.Reason == w.Reason && d.Class == w.Class && d.Time.Equal(w.Time) && bytes.Equal(d.Body, w.Body), "dead letter", d, w)
		size += int64(len(d.Body))
	}
	require.Equal(t, counted, checkpoint.DeadStats{Count: uint64(len(deadLetters)), Bytes: size, Dropped: m.dropped[o]}, o, len(deadLetters), size)
}
