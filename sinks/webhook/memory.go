package webhook

import (
	"context"
	"maps"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// DetectionKey returns the key under which values of an event's detection are
// remembered, or "" for other events.
func DetectionKey(e transform.Event) string {
	if e.Stream() != transform.StreamDetections {
		return ""
	}
	return e.Source + "/" + e.Subject // kept as long as the detection is tracked: see Store.RememberSink
}

// MemoryStore is the part of the state that keeps what sinks remember. *checkpoint.Store
// implements it, and documents the methods.
type MemoryStore interface {
	RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error)
	RememberedBySink(ctx context.Context, sink, after string, limit int) ([]checkpoint.Entry, error)
	RememberSink(ctx context.Context, sink string, entries []checkpoint.Entry, forgetBefore int64, events ...transform.Event) error
	RefreshSink(ctx context.Context, sink string, keys []string, at, due int64) error
}

// Memory is where a sink's preset stores its values.
type Memory struct {
	Store MemoryStore
	// Sink is the sink's name in the state.
	Sink string
	// Keep is how long a value is kept after the last event with its key; it must be
	// positive. A detection's value is kept as long as the detection is tracked.
	Keep time.Duration
	// Now is the clock for Keep; nil means time.Now.
	Now func() time.Time
}

// recall returns the value remembered for each event, in order; nil if there is none.
func (m *Memory) recall(ctx context.Context, events []transform.Event, key func(transform.Event) string) ([][]byte, error) {
	known := make([][]byte, len(events))
	var keys []string
	var indexes []int
	for i, e := range events {
		if k := key(e); k != "" {
			keys, indexes = append(keys, k), append(indexes, i)
		}
	}
	if len(keys) == 0 {
		return known, nil
	}
	values, err := m.recallKeys(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		known[indexes[i]] = value
	}
	return known, nil
}

// recallKeys returns the value remembered under each key, in order; nil if there is none.
func (m *Memory) recallKeys(ctx context.Context, keys []string) ([][]byte, error) {
	values, err := m.Store.RecallSink(ctx, m.Sink, keys)
	if err != nil {
		return nil, err
	}
	return values, m.refresh(ctx, keys, values)
}

// refresh extends the time for which values are kept when events use them without
// writing them. Each key is written at most 16 times per Keep.
func (m *Memory) refresh(ctx context.Context, keys []string, values [][]byte) error {
	const perKeep = 16
	var found []string
	for i, key := range keys {
		if values[i] != nil {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil
	}
	at := m.now()
	return m.Store.RefreshSink(ctx, m.Sink, found, at.UnixMilli(), at.Add(-m.Keep/perKeep).UnixMilli())
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// remember stores values by their keys, and journals events about them, even if ctx is done.
func (m *Memory) remember(ctx context.Context, values map[string][]byte, events []transform.Event) error {
	at := m.now()
	entries := make([]checkpoint.Entry, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		entries = append(entries, checkpoint.Entry{Key: key, Value: values[key], At: at.UnixMilli()})
	}
	return m.Store.RememberSink(context.WithoutCancel(ctx), m.Sink, entries, max(0, at.Add(-m.Keep).UnixMilli()), events...)
}

// remembers reports whether the preset uses a memory.
func (s *Sink) remembers() bool { return s.preset.Key != nil && s.o.Memory != nil }

// known returns the value remembered for each event, or nil if the sink has no memory.
func (s *Sink) known(ctx context.Context, events []transform.Event) ([][]byte, error) {
	if !s.remembers() {
		return nil, nil
	}
	known, err := s.o.Memory.recall(ctx, events, s.preset.Key)
	if err != nil {
		return nil, failure.Unavailable(failure.ScopeTarget, "%s: not sent: %w", s.target, err)
	}
	return known, nil
}
