package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Stats is the size of the state at one moment.
type Stats struct {
	First, Last uint64 // sequence numbers of the journal's ends; First = Last+1 if it is empty
	Events      uint64 // in the journal
	Bytes       int64  // of events in the journal
	MaxBytes    int64
	Sinks       map[string]SinkStats // by name, sinks that are no longer configured included
	DeadLetters map[Owner]DeadStats
	Commands    CommandStats
	FileBytes   int64 // size of the file on disk
	Layout      int   // version of the file's layout
	SourcesWait bool  // sources wait for space in the journal
}

// SinkStats is the state of one sink.
type SinkStats struct {
	Cursor     uint64
	LagEvents  uint64    // events after the cursor
	LagBytes   int64     // their bytes
	Oldest     time.Time // RecordedTime of the first of them, by the clock as it is now; zero if there is none
	Configured bool
	// PausedSince is when an operator paused it; zero if it is not paused.
	PausedSince time.Time
	// Trimmed counts events after the cursor that were trimmed while the sink was
	// not configured: it will never get them. A Skip over them counts them.
	Trimmed     uint64
	Queued      uint64 // events in the redelivery queue
	Parked      uint64 // events that the sink delivers later
	ParkedBytes int64  // their bytes
	// Skipped counts all events that the sink never got, because a Skip moved its cursor over
	// them, or they were trimmed from its redelivery queue. It never decreases.
	Skipped uint64
}

// DeadStats counts dead letters.
type DeadStats struct {
	Count uint64
	Bytes int64 // of their bodies
	// Dropped counts all dead letters of a source that gave way to newer ones. It
	// never decreases.
	Dropped uint64
}

// Stats returns the size of the state. Its cost does not grow with the journal: a few lookups
// for every sink and every owner of dead letters that the state knows.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	s.mu.Lock()
	configured, waiting, limits := s.configured, s.waiting, s.limits
	s.mu.Unlock()
	stats := Stats{
		MaxBytes: limits.MaxBytes, SourcesWait: waiting,
		Sinks: map[string]SinkStats{}, DeadLetters: map[Owner]DeadStats{},
	}
	err := s.viewJournal(ctx, func(tx *bolt.Tx, j *journal) error { return stats.read(tx, j, configured) })
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(s.path); err == nil {
			stats.FileBytes = info.Size()
		}
	}
	if err != nil {
		return Stats{}, fmt.Errorf("read the size of the state: %w", err)
	}
	return stats, nil
}

// read reads the file.
func (s *Stats) read(tx *bolt.Tx, j *journal, configured map[string]bool) (err error) {
	if s.Layout, err = layoutOf(tx); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	s.Commands = commandStats(tx)
	s.First, s.Last = j.first, j.last
	s.Events, s.Bytes = j.last+1-j.first, j.bytes()
	err = tx.Bucket(cursorsBucket).ForEach(func(sink, value []byte) error {
		of, err := j.statsOf(binary.BigEndian.Uint64(value))
		if err == nil {
			err = j.queueStats(tx, string(sink), &of)
		}
		of.Configured = configured[string(sink)]
		of.PausedSince = pausedSince(tx, string(sink))
		s.Sinks[string(sink)] = of
		return err
	})
	if err != nil {
		return err
	}
	return tx.Bucket(deadSizeBucket).ForEach(func(owner, value []byte) error {
		s.DeadLetters[Owner(owner)] = decodeDeadStats(value)
		return nil
	})
}

// statsOf returns how far a cursor is behind the journal's end.
func (j *journal) statsOf(cursor uint64) (SinkStats, error) {
	// Events trimmed while the sink was not configured will not be delivered.
	acknowledged := max(cursor, j.first-1)
	stats := SinkStats{Cursor: cursor, Trimmed: acknowledged - cursor}
	if acknowledged >= j.last {
		return stats, nil
	}
	total, err := j.totalAt(acknowledged)
	if err != nil {
		return stats, err
	}
	_, value, err := j.at(acknowledged + 1)
	if err != nil {
		return stats, err
	}
	oldest, err := parseEvent(value)
	if err != nil {
		return stats, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	stats.LagEvents, stats.LagBytes = j.last-acknowledged, int64(j.total-total)
	if !oldest.RecordedTime.IsZero() {
		stats.Oldest = time.UnixMilli(j.recordedBy(acknowledged+1, oldest.RecordedTime.UnixMilli())).UTC()
	}
	return stats, nil
}

// queueStats adds a sink's queued, parked and skipped events to stats.
func (j *journal) queueStats(tx *bolt.Tx, sink string, stats *SinkStats) error {
	c := countsOf(tx, sink)
	stats.Queued, stats.Skipped, stats.Parked, stats.ParkedBytes = c.requeued, c.skipped, c.parked, c.parkedBytes
	return openQueue(tx, sink).ranges(func(i item) {
		first := max(i.first, j.first)
		if first > i.last {
			stats.Skipped += i.events()
			return
		}
		stats.Skipped += first - i.first
		stats.Queued += i.last + 1 - first
	})
}
