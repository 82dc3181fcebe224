package checkpoint

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Read implements Journal.
func (s *Store) Read(ctx context.Context, after uint64, max Batch) ([]Record, error) {
	if records := s.readTail(ctx, after, max); len(records) > 0 {
		return records, nil
	}
	var (
		seqs   []uint64
		values [][]byte
	)
	err := s.view(ctx, func(tx *bolt.Tx) error {
		size := 0
		cursor := tx.Bucket(journalBucket).Cursor()
		for key, value := cursor.Seek(appendUint64(after + 1)); key != nil; key, value = cursor.Next() {
			if !max.admits(len(values), size, len(value)) {
				break
			}
			m, err := parseMark(key)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			seqs, values = append(seqs, m.seq), append(values, value)
			size += len(value)
		}
		own(values, size)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal after %d: %w", after, err)
	}
	records := make([]Record, len(seqs))
	for i, seq := range seqs {
		e, err := parseEvent(values[i])
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w: event %d: %w", ErrDamaged, seq, err)
		}
		records[i] = Record{Seq: seq, Event: e}
	}
	return records, nil
}

// Since implements Operations.
func (s *Store) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err != nil {
			return err
		}
		j.correct(s.clock)
		seq, err = j.since(t)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find the first event since %s: %w", t, err)
	}
	return seq, nil
}

// readTail reads events from memory. It returns none if Read must not return an event.
func (s *Store) readTail(ctx context.Context, after uint64, max Batch) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.closed || after+1 < s.ends.first {
		return nil
	}
	return s.tail.read(after, max)
}

// Wait implements Journal.
func (s *Store) Wait(ctx context.Context, after uint64) error {
	for {
		s.mu.Lock()
		e, appended, closed := s.ends, s.appended, s.closed
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case closed:
			return ErrClosed
		case !e.empty() && e.last > after:
			return nil
		}
		select {
		case <-appended:
		case <-s.closing:
		case <-ctx.Done():
		}
	}
}
