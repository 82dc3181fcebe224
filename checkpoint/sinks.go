package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Start sets where a sink that the state has never seen begins.
type Start struct {
	Now   bool      // with the first event appended from now on
	Since time.Time // with the first event recorded at or after this; zero: with everything that the journal holds
}

// Configure sets which sinks there are, before any of them reads. A sink that the state
// has never seen gets a cursor at its Start. Only these sinks hold the journal back; the
// cursors of others are kept, and returned by Stats. Before Configure is called, nothing
// is trimmed, and every event in the journal counts as not yet committed.
func (s *Store) Configure(ctx context.Context, sinks map[string]Start) error {
	for sink := range sinks {
		if sink == "" || len(sink) > maxKey {
			return fmt.Errorf("configure sinks: a name of %d bytes", len(sink))
		}
	}
	if err := s.do(ctx, configuration(sinks)); err != nil {
		return fmt.Errorf("configure sinks: %w", err)
	}
	return nil
}

// configuration is the change that Configure makes.
type configuration map[string]Start

func (configuration) check(*writeRound) error { return nil }

func (c configuration) write(r *writeRound) error {
	cursors := r.tx.Table(cursorsBucket)
	r.configured = make(map[string]bool, len(c))
	for sink, start := range c {
		r.configured[sink] = true
		if cursors.Get([]byte(sink)) != nil {
			continue
		}
		seq, err := start.cursor(&r.journal)
		if err == nil {
			err = cursors.Put([]byte(sink), appendUint64(seq))
		}
		if err != nil {
			return fmt.Errorf("cursor of %s: %w", sink, err)
		}
		r.changed = true
	}
	return nil
}

// cursor returns the number of the event before the first one to deliver.
func (s Start) cursor(j *journal) (uint64, error) {
	switch {
	case s.Now:
		return j.last, nil
	case s.Since.IsZero():
		return j.first - 1, nil
	}
	first, err := j.since(s.Since)
	return first - 1, err
}

// Cursor returns the sequence number of the last event that the sink has committed. It
// returns an error if the sink was never configured.
func (s *Store) Cursor(ctx context.Context, sink string) (seq uint64, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		seq, err = cursorOf(tx, sink)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cursor of %s: %w", sink, err)
	}
	return seq, nil
}

func cursorOf(tx *bolt.Tx, sink string) (uint64, error) {
	value := tx.Bucket(cursorsBucket).Get([]byte(sink))
	if len(value) != 8 {
		return 0, errors.New("the sink was never configured")
	}
	return binary.BigEndian.Uint64(value), nil
}

// Pause records, across restarts, whether an operator has paused a sink; Stats returns it.
// It has no other effect here. It returns an error if the sink was never configured.
func (s *Store) Pause(ctx context.Context, sink string, paused bool) error {
	p := pausing{sink: sink}
	if paused {
		p.since = s.clock.now().UnixMilli()
	}
	if err := s.do(ctx, p); err != nil {
		return fmt.Errorf("pause %s: %w", sink, err)
	}
	return nil
}

// pausing is the change that Pause makes.
type pausing struct {
	sink  string
	since int64 // milliseconds since 1970; 0: not paused
}

func (p pausing) check(r *writeRound) error {
	_, err := cursorOf(r.tx.Tx, p.sink)
	return err
}

func (p pausing) write(r *writeRound) error {
	paused := r.tx.Table(pausedBucket)
	already := paused.Get([]byte(p.sink)) != nil
	var err error
	switch {
	case already == (p.since != 0):
		return nil
	case already:
		err = paused.Delete([]byte(p.sink))
	default:
		err = paused.Add([]byte(p.sink), appendUint64(uint64(p.since)))
	}
	if err != nil {
		return fmt.Errorf("paused sinks: %w", err)
	}
	r.changed = true
	return nil
}

// pausedSince returns when a sink was paused, or the zero time if it is not paused.
func pausedSince(tx *bolt.Tx, sink string) time.Time {
	bucket := tx.Bucket(pausedBucket)
	if bucket == nil { // a file of version 1, opened read-only
		return time.Time{}
	}
	value := bucket.Get([]byte(sink))
	if len(value) != 8 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
}
