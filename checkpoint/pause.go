package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Pause implements Operations.
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
	paused := r.tx.table(pausedBucket)
	already := paused.Get([]byte(p.sink)) != nil
	var err error
	switch {
	case already == (p.since != 0):
		return nil
	case already:
		err = paused.remove([]byte(p.sink))
	default:
		err = paused.add([]byte(p.sink), appendUint64(uint64(p.since)))
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
