package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/traceparent"
	"ndrbridge/transform"
)

// StreamOptions configures the source of any stream.
type StreamOptions struct {
	Appliance string // its name
	URL       string // its address, remembered so that a change can be detected
	// Start returns where to begin if the state has no position, given the appliance's
	// time; the zero time means the oldest object that it keeps. A time that is not
	// before the appliance's means after the newest one.
	Start      func(now time.Time) time.Time
	PageSize   int // the most objects to request at once, at least 2
	TypePrefix string
	// Now is used for recordedtime and for speeds.
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
}

// stream is the part of a source that does not depend on what the source reads.
type stream struct {
	store    Store
	source   checkpoint.Source
	events   transform.Encoder
	progress *progressMeter

	loaded    bool   // the position of the source is the one in the store
	committed []byte // the position in the store, if loaded

	limit   pageLimit
	pages   pageFailures
	objects failedPolls
}

func newStream(store Store, name string, o StreamOptions) stream {
	source := checkpoint.Source{Appliance: o.Appliance, Stream: name}
	return stream{
		store: store, source: source,
		events:   transform.Encoder{TypePrefix: o.TypePrefix, Appliance: o.Appliance},
		progress: &progressMeter{source: source, metrics: o.Metrics, now: o.Now},
		limit:    newPageLimit(o.PageSize), objects: make(failedPolls),
	}
}

// Source returns the stream's name.
func (s *stream) Source() checkpoint.Source { return s.source }

// Progress implements Source.
func (s *stream) Progress() (p Progress, ok bool) { return s.progress.current() }

// run calls poll, whose events carry the traceparent of ctx.
func (s *stream) run(ctx context.Context, poll func(context.Context) (Next, error)) (Next, error) {
	s.events.TraceParent = traceparent.Of(ctx)
	next, err := poll(ctx)
	if errors.Is(err, checkpoint.ErrFenced) {
		return Soon, nil // an operator moved the position: the next poll reads it
	}
	return next, err
}

// changed reads the position in the store, and reports whether it is another one than the
// source has, which is then no longer loaded.
func (s *stream) changed(ctx context.Context) (bool, error) {
	stored, err := s.store.Position(ctx, s.source)
	if err != nil {
		return false, fmt.Errorf("read the position of %s: %w", s.source, err)
	}
	if s.loaded && bytes.Equal(stored, s.committed) {
		return false, nil
	}
	s.loaded, s.committed = false, stored
	return true, nil
}

// write commits c with the encoded position.
func (s *stream) write(ctx context.Context, c checkpoint.Commit, position []byte) error {
	c.Source, c.Expect, c.Position = s.source, s.committed, position
	err := s.store.Commit(ctx, c)
	if errors.Is(err, errGaveWay) {
		return err // nothing was written
	}
	if err != nil {
		// It is not known whether it was written: the position in the store decides.
		s.loaded = false
		return fmt.Errorf("commit %d events of %s: %w", len(c.Events), s.source, err)
	}
	s.loaded, s.committed = true, position
	s.count(s.progress.metrics.events, len(c.Events))
	s.count(s.progress.metrics.dead, len(c.Dead))
	s.progress.events += len(c.Events)
	return nil
}

// committedPosition returns the position in the store. It returns ErrNoPosition if there is
// none.
func committedPosition[P any](ctx context.Context, s *stream, parse func([]byte) (P, error)) (p P, err error) {
	stored, err := s.store.Position(ctx, s.source)
	switch {
	case err != nil:
		return p, fmt.Errorf("read the position of %s: %w", s.source, err)
	case stored == nil:
		return p, fmt.Errorf("%s: %w", s.source, ErrNoPosition)
	}
	return parse(stored)
}

func parsePosition[P any](stored []byte) (p P, err error) {
	if err := json.Unmarshal(stored, &p); err != nil {
		return p, fmt.Errorf("read the position %q: %w", stored, err)
	}
	return p, nil
}

func encodePosition(p any) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of numbers, strings and times
	}
	return b
}
