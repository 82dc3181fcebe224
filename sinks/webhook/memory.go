package webhook

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Remembering is a Preset that remembers what it made at the service, as the message
// that later versions of a detection edit. Its methods only compute, too: the sink
// reads what is remembered, and writes what is to be, in Options.Memory.
//
// What Learn returns is durable before the next request is sent, and before Send
// reports the events as delivered. A crash between an answer and that makes the
// thing once more: a preset that cannot have that asks the service for it first, and
// has Judge return the request that makes it where the answer shows none.
type Remembering interface {
	Preset
	// Key is what something of an event is remembered under, DetectionKey where it is
	// of the detection; empty: nothing of it is.
	Key(transform.Event) string
	// ComposeKnowing takes the place of Compose where there is a memory. known has, for
	// each of the events, what is remembered under its key; nil: nothing.
	ComposeKnowing(events []transform.Event, known [][]byte) (Request, error)
	// Learn is what is to be remembered, by key, after an answer in which Judge saw no
	// error; none: nothing.
	Learn(Request, Answer) map[string][]byte
}

// Finishing is a Remembering with something of its own to do, not at the service,
// before events count as delivered.
type Finishing interface {
	Remembering
	// Finish is called when no request follows, and for a Request that is Nothing,
	// whose Answer is empty. What Learn returned is durable by then. It returns what
	// is to be remembered, as Learn does, and is called again where that fails. An
	// error is the result of the request's events, and a *sinks.Error.
	Finish(context.Context, Request, Answer) (map[string][]byte, error)
}

// DetectionKey is what a sink remembers something of an event's detection under;
// empty for events that are of none.
func DetectionKey(e transform.Event) string {
	if e.Stream() != transform.StreamDetections {
		return ""
	}
	return e.Source + "/" + e.Subject // checkpoint.SourceKey, by which it is kept as long as the detection is known
}

// Memory is the part of the state that a sink remembers in.
type Memory struct {
	Store checkpoint.Memories
	// Sink is the sink's name in the state.
	Sink string
	// Keep is how long something is remembered after the last event that is remembered
	// under its key; above 0. What is of a detection is kept as long as that is known.
	Keep time.Duration
	// Now is the clock that Keep is measured with; nil: time.Now.
	Now func() time.Time
}

// recall returns what is remembered under the keys of events, in their order.
func (m *Memory) recall(ctx context.Context, events []transform.Event, key func(transform.Event) string) ([][]byte, error) {
	known := make([][]byte, len(events))
	var keys []string
	var of []int
	for i, e := range events {
		if k := key(e); k != "" {
			keys, of = append(keys, k), append(of, i)
		}
	}
	if len(keys) == 0 {
		return known, nil
	}
	values, err := m.Store.RecallSink(ctx, m.Sink, keys)
	if err != nil {
		return nil, err
	}
	if err := m.refresh(ctx, keys, values); err != nil {
		return nil, err
	}
	for i, value := range values {
		known[of[i]] = value
	}
	return known, nil
}

// refresh keeps what is remembered of events, which need not set it once more. One write
// in a while does for each key.
func (m *Memory) refresh(ctx context.Context, keys []string, values [][]byte) error {
	const often = 16 // times in Keep
	var there []string
	for i, key := range keys {
		if values[i] != nil {
			there = append(there, key)
		}
	}
	if len(there) == 0 {
		return nil
	}
	at := m.now()
	return m.Store.RefreshSink(ctx, m.Sink, there, at.UnixMilli(), at.Add(-m.Keep/often).UnixMilli())
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// remember sets what is remembered, by key. It does so though ctx has ended: the
// thing is there, and would be made again.
func (m *Memory) remember(ctx context.Context, made map[string][]byte) error {
	if len(made) == 0 {
		return nil
	}
	at := m.now()
	entries := make([]checkpoint.Entry, 0, len(made))
	for key, value := range made {
		entries = append(entries, checkpoint.Entry{Key: key, Value: value, At: at.UnixMilli()})
	}
	return m.Store.RememberSink(context.WithoutCancel(ctx), m.Sink, entries, max(0, at.Add(-m.Keep).UnixMilli()))
}

// known returns what is remembered of each event; nil where nothing ever is.
func (s *Sink) known(ctx context.Context, events []transform.Event) ([][]byte, error) {
	if s.remembering == nil {
		return nil, nil
	}
	known, err := s.memory.recall(ctx, events, s.remembering.Key)
	if err != nil {
		return nil, sinks.Errorf(sinks.Transient, "%s: not sent: %w", s.target, err)
	}
	return known, nil
}

// compose makes the request for the leading events.
func (s *Sink) compose(events []transform.Event, known [][]byte) (Request, error) {
	if s.remembering == nil {
		return s.preset.Compose(events)
	}
	return s.remembering.ComposeKnowing(events, known)
}

// learn remembers what a request has made.
func (s *Sink) learn(ctx context.Context, request Request, answer Answer) error {
	if s.remembering == nil {
		return nil
	}
	if err := s.memory.remember(ctx, s.remembering.Learn(request, answer)); err != nil {
		return sinks.Errorf(sinks.Transient, "%s: done, but it could not be remembered: %w", s.target, err)
	}
	return nil
}

// finish does what a Finishing has to do, and remembers it.
func (s *Sink) finish(ctx context.Context, request Request, answer Answer) error {
	finishing, ok := s.remembering.(Finishing)
	if !ok {
		return nil
	}
	done, err := finishing.Finish(ctx, request, answer)
	if err != nil {
		return s.report(err)
	}
	if err := s.memory.remember(ctx, done); err != nil {
		return sinks.Errorf(sinks.Transient, "%s: done, but it could not be remembered: %w", s.target, err)
	}
	return nil
}
