package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// queuedEvent is an event to be redelivered to a sink.
type queuedEvent struct {
	seq   uint64 // 0: it was a dead letter
	key   string
	event transform.Event
}

// gone reports whether an event is known to be trimmed.
func (m *machine) gone(q queuedEvent) bool { return q.seq != 0 && q.seq < m.first }

// held returns the lowest number that is to be redelivered to a configured sink, or the
// one after the journal's last.
func (m *machine) held() uint64 {
	lowest := uint64(len(m.events)) + 1
	for _, sink := range m.sinks {
		for _, q := range m.queues[sink] {
			if q.seq >= m.first {
				lowest = min(lowest, q.seq)
			}
		}
	}
	return lowest
}

// trimmable returns the last event that may be trimmed.
func (m *machine) trimmable() uint64 {
	if m.s.options.Limits.MaxBytes < unbounded {
		return m.acknowledged() // it may be full at any time
	}
	return min(m.acknowledged(), m.held()-1)
}

func (m *machine) knownSink(t *rapid.T) string {
	if len(m.cursors) == 0 {
		t.Skip("no sink is known")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.cursors))).Draw(t, "sink")
}

func (m *machine) skip(t *rapid.T) {
	sink := m.knownSink(t)
	cursor := m.cursors[sink]
	if cursor == uint64(len(m.events)) {
		t.Skip("the sink has all")
	}
	m.count++
	s := checkpoint.Skip{
		Sink: sink, Expect: cursor, Cursor: rapid.Uint64Range(cursor+1, uint64(len(m.events))).Draw(t, "to"),
		Event: event(fmt.Sprint(m.count), m.s.clock.Now(), 300),
	}
	if rapid.IntRange(0, 3).Draw(t, "wrong") == 0 {
		s.Expect++
		require.ErrorIs(t, m.s.Skip(context.Background(), s), checkpoint.ErrFenced)
		return
	}
	require.NoError(t, m.s.Skip(context.Background(), s))
	m.cursors[sink] = s.Cursor
	m.skipped[sink] += s.Cursor - cursor
	m.events = append(m.events, s.Event)
}

func (m *machine) pause(t *rapid.T) {
	sink, paused := rapid.SampledFrom(modelSinks).Draw(t, "sink"), rapid.Bool().Draw(t, "paused")
	_, known := m.cursors[sink]
	err := m.s.Pause(context.Background(), sink, paused)
	require.Equal(t, err == nil, known, "pause", sink, "known", err)
	switch _, already := m.paused[sink]; {
	case known && !paused:
		delete(m.paused, sink)
	case known && !already:
		m.paused[sink] = m.s.clock.Now()
	}
}

// someKeys returns keys of an owner's dead letters and unknown ones, or nil for all.
func (m *machine) someKeys(t *rapid.T, o checkpoint.Owner) (keys, meant []string) {
	if rapid.Bool().Draw(t, "all") {
		return nil, slices.Sorted(maps.Keys(m.dead[o]))
	}
	keys = rapid.SliceOfN(modelKey, 1, 4).Draw(t, "keys")
	for _, key := range keys {
		if _, there := m.dead[o][key]; there && !slices.Contains(meant, key) {
			meant = append(meant, key)
		}
	}
	return keys, meant
}

func (m *machine) undoDeadLetter(o checkpoint.Owner, key string) {
	if delete(m.dead[o], key); len(m.dead[o]) == 0 {
		delete(m.dead, o)
	}
}

func (m *machine) requeue(t *rapid.T) {
	sink := m.knownSink(t)
	o := checkpoint.SinkOwner(sink)
	keys, meant := m.someKeys(t, o)
	want := 0
	for _, key := range meant {
		e, err := transform.Parse(m.dead[o][key].Body)
		if err != nil {
			continue
		}
		m.queues[sink] = append(m.queues[sink], queuedEvent{key: key, event: e})
		m.undoDeadLetter(o, key)
		want++
	}
	require.Equal(t, require.Value(m.s.Requeue(context.Background(), sink, keys))(t), want, "requeue", keys)
}

func (m *machine) dropDead(t *rapid.T) {
	o := rapid.SampledFrom([]checkpoint.Owner{
		checkpoint.SinkOwner("a"), checkpoint.SinkOwner("b"), checkpoint.SourceOwner(detections),
	}).Draw(t, "owner")
	keys, meant := m.someKeys(t, o)
	for _, key := range meant {
		m.undoDeadLetter(o, key)
	}
	require.Equal(t, require.Value(m.s.DropDead(context.Background(), o, keys))(t), len(meant), "drop", keys)
}

func (m *machine) replay(t *rapid.T) {
	sink := m.knownSink(t)
	since := noon.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "since")) * time.Second)
	p := checkpoint.Period{Since: since}
	if rapid.Bool().Draw(t, "ends") {
		p.Until = since.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "seconds")) * time.Second)
	}
	first := require.Value(m.s.Replayable(context.Background(), sink, p))(t)
	got := require.Value(m.s.Replay(context.Background(), sink, p))(t)
	if got.Events() > first.Events() || got.Last != first.Last && got != (checkpoint.Range{}) {
		t.Fatalf("replayed %v of %v", got, first) // old events may have been trimmed
	}
	want := uint64(1)
	for want <= uint64(len(m.events)) && m.events[want-1].RecordedTime.Before(since) {
		want++
	}
	last := m.cursors[sink]
	if !p.Until.IsZero() {
		end := want
		for end <= uint64(len(m.events)) && m.events[end-1].RecordedTime.Before(p.Until) {
			end++
		}
		last = min(last, end-1)
	}
	if got == (checkpoint.Range{}) {
		first := max(m.s.stats().First, want)
		require.True(t, first > last, "replayed nothing, want", first, "to", last)
		return
	}
	// Old events may have been trimmed just before.
	require.True(t, got.First >= want && got.First <= max(want, m.s.stats().First) && got.Last == last, "replayed", got, want, "to", last)
	for seq := got.First; seq <= got.Last; seq++ {
		m.queues[sink] = append(m.queues[sink], queuedEvent{seq: seq, key: checkpoint.DeadKey(seq), event: m.events[seq-1]})
	}
}

func (m *machine) redeliver(t *rapid.T) {
	sink := m.knownSink(t)
	bound := checkpoint.Batch{MaxEvents: rapid.IntRange(0, 4).Draw(t, "events"), MaxBytes: rapid.IntRange(0, 5000).Draw(t, "bytes")}
	next := require.Value(m.s.Redeliver(context.Background(), sink, checkpoint.RedeliveryOffset{}, bound))(t)
	m.observe(t, m.trimmable())
	size, ends := 0, make([]int, len(next.Records)) // how much of the queue each record ends
	queue := m.queues[sink]
	at := 0
	for i, r := range next.Records {
		for ; at < len(queue) && queue[at].key != r.Key && m.gone(queue[at]); at++ {
		}
		if at == len(queue) || queue[at].key != r.Key || queue[at].seq != r.Seq || !bytes.Equal(queue[at].event.Structured(), r.Event.Structured()) {
			t.Fatalf("record %d is %q (%d), which is not what is queued at %d of %d", i, r.Key, r.Seq, at, len(queue))
		}
		at++
		ends[i] = at
		size += len(r.Event.Structured())
	}
	whole := at
	for ; whole < len(queue) && m.gone(queue[whole]); whole++ {
	}
	switch {
	case bound.MaxEvents > 0 && len(next.Records) > bound.MaxEvents, bound.MaxBytes > 0 && len(next.Records) > 1 && size > bound.MaxBytes:
		t.Fatalf("%d events of %d bytes, want within %+v", len(next.Records), size, bound)
	case bound == checkpoint.Batch{} && whole != len(queue), len(next.Records) == 0 && whole != len(queue):
		t.Fatalf("the queue ends after %d of %d events", whole, len(queue))
	case len(next.Records) == 0:
		return
	}
	m.acknowledgeRedelivery(t, sink, next, ends)
}

func (m *machine) acknowledgeRedelivery(t *rapid.T, sink string, next checkpoint.Redelivery, ends []int) {
	n := rapid.IntRange(1, len(next.Records)).Draw(t, "committed")
	s := checkpoint.RedeliveryCommit{Sink: sink, Expect: next.Offset, Last: next.Records[n-1].Offset, Events: n}
	if rapid.Bool().Draw(t, "refused") {
		r := next.Records[n-1]
		s.Dead = []checkpoint.DeadLetter{{Key: r.Key, Class: "rejected", Reason: "again", Time: m.s.clock.Now(), Body: r.Event.Structured()}}
	}
	o := checkpoint.SinkOwner(sink)
	want := m.deadFull(sink, s.Dead)
	if rapid.IntRange(0, 4).Draw(t, "wrong") == 0 {
		s.Expect.Item++
		want = checkpoint.ErrFenced
	}
	require.ErrorIs(t, m.s.CommitRedelivery(context.Background(), s), want)
	if want == nil {
		m.skipped[sink] += uint64(ends[n-1] - n)
		m.queues[sink] = slices.Clone(m.queues[sink][ends[n-1]:])
		m.deadLetter(o, s.Dead)
	}
}

// deadFull returns the error that a commit with dead letters must return.
func (m *machine) deadFull(sink string, deadLetters []checkpoint.DeadLetter) error {
	bound := m.s.options.Limits.DeadBytes
	if bound == 0 {
		return nil
	}
	sizes := map[string]int{}
	now, then := 0, 0
	for key, d := range m.dead[checkpoint.SinkOwner(sink)] {
		sizes[key] = len(d.Body)
		now += len(d.Body)
	}
	for _, d := range deadLetters {
		sizes[d.Key] = len(d.Body)
	}
	for _, size := range sizes {
		then += size
	}
	if then > now && int64(then) > bound/int64(len(m.sinks)+1) {
		return checkpoint.ErrDeadFull
	}
	return nil
}

func (m *machine) forget(t *rapid.T) {
	sink := m.knownSink(t)
	err := m.s.Forget(context.Background(), sink)
	if configured := slices.Contains(m.sinks, sink); (err != nil) != configured {
		t.Fatalf("forget %s, configured: %v: %v", sink, configured, err)
	} else if !configured {
		m.move(sink, "")
	}
}

func (m *machine) rename(t *rapid.T) {
	from, to := m.knownSink(t), rapid.SampledFrom(modelSinks).Draw(t, "to")
	_, there := m.cursors[to]
	refused := there || slices.Contains(m.sinks, from) || slices.Contains(m.sinks, to)
	err := m.s.Rename(context.Background(), from, to)
	require.Equal(t, err != nil, refused, "rename", from, "to", to, err)
	if !refused {
		m.move(from, to)
	}
}

// move moves a sink's state to another name, or drops it.
func (m *machine) move(from, to string) {
	move(m.cursors, from, to)
	move(m.queues, from, to)
	move(m.skipped, from, to)
	move(m.paused, from, to)
	move(m.made, from, to)
	owner := checkpoint.Owner("")
	if to != "" {
		owner = checkpoint.SinkOwner(to)
	}
	move(m.dead, checkpoint.SinkOwner(from), owner)
}

func move[K ~string, V any](of map[K]V, from, to K) {
	if v, there := of[from]; there && to != "" {
		of[to] = v
	}
	delete(of, from)
}
