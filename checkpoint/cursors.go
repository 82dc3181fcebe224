package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Configure implements Journal.
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
	cursors := r.tx.table(cursorsBucket)
	r.configured = make(map[string]bool, len(c))
	for sink, start := range c {
		r.configured[sink] = true
		if cursors.Get([]byte(sink)) != nil {
			continue
		}
		seq, err := start.cursor(&r.journal)
		if err == nil {
			err = cursors.put([]byte(sink), appendUint64(seq))
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

// Cursor implements Journal.
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

// CommitDelivery implements Journal.
func (s *Store) CommitDelivery(ctx context.Context, acknowledged Delivery) error {
	err := validateDead(acknowledged.Dead)
	if err == nil {
		err = s.do(ctx, &deliveryChange{acknowledged})
	}
	if err != nil {
		return fmt.Errorf("commit the delivery to %s up to %d: %w", acknowledged.Sink, acknowledged.Cursor, err)
	}
	return nil
}

// deliveryChange is the change that CommitDelivery makes.
type deliveryChange struct{ Delivery }

func (s *deliveryChange) check(r *writeRound) error {
	cursor, err := cursorOf(r.tx.Tx, s.Sink)
	switch {
	case err != nil:
		return err
	case cursor != s.Expect:
		return ErrFenced
	case s.Cursor < s.Expect:
		return fmt.Errorf("a cursor cannot go back from %d", s.Expect)
	case s.Cursor > r.journal.last:
		return fmt.Errorf("the journal ends at %d", r.journal.last)
	}
	return r.deadSpace(s.Sink, s.Dead)
}

func (s *deliveryChange) write(r *writeRound) error {
	r.changed = true
	if err := r.tx.table(cursorsBucket).put([]byte(s.Sink), appendUint64(s.Cursor)); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	return putDead(r.tx, SinkOwner(s.Sink), s.Dead)
}
