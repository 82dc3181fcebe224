package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// Stats implements Journal. It costs a few look-ups for every sink and owner of
// dead letters that the state knows.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	s.mu.Lock()
	configured, waiting := s.configured, s.waiting
	s.mu.Unlock()
	stats := Stats{
		MaxBytes: s.limits.MaxBytes, SourcesWait: waiting,
		Sinks: map[string]SinkStats{}, DeadLetters: map[Owner]DeadStats{},
	}
	err := s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err != nil {
			return err
		}
		stats.First, stats.Last = j.first, j.last
		stats.Events, stats.Bytes = j.last+1-j.first, j.bytes()
		err = tx.Bucket(cursorsBucket).ForEach(func(sink, value []byte) error {
			sinkStats, err := j.statsOf(binary.BigEndian.Uint64(value))
			sinkStats.Configured = configured[string(sink)]
			stats.Sinks[string(sink)] = sinkStats
			return err
		})
		if err != nil {
			return err
		}
		return tx.Bucket(deadSizeBucket).ForEach(func(owner, value []byte) error {
			stats.DeadLetters[Owner(owner)] = decodeDeadStats(value)
			return nil
		})
	})
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(s.path); err == nil {
			stats.FileBytes = info.Size()
		}
	}
	if err != nil {
		return Stats{}, fmt.Errorf("size of the state: %w", err)
	}
	return stats, nil
}

// statsOf says how far a cursor is behind.
func (j *journal) statsOf(cursor uint64) (SinkStats, error) {
	stats := SinkStats{Cursor: cursor}
	// What was trimmed while the sink was not configured is not ahead of it any more.
	settled := max(cursor, j.first-1)
	if settled >= j.last {
		return stats, nil
	}
	total, err := j.totalAt(settled)
	if err != nil {
		return stats, err
	}
	_, value, err := j.at(settled + 1)
	if err != nil {
		return stats, err
	}
	oldest, err := parseEvent(value)
	if err != nil {
		return stats, err
	}
	stats.LagEvents, stats.LagBytes, stats.Oldest = j.last-settled, int64(j.total-total), oldest.RecordedTime
	return stats, nil
}
