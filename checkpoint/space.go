package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// reserveOf returns how many bytes beyond maxBytes a journal holds for the bridge's own
// events: enough for at least a hundred events of some hundred bytes.
func reserveOf(maxBytes int64) int64 {
	const least, part = 64 << 10, 16
	return max(least, maxBytes/part)
}

// commitReserveOf returns how much of the reserve Commit.NoWait may use. The rest is left
// to the events of finished commands, however many events other sources commit.
func commitReserveOf(maxBytes int64) int64 { return reserveOf(maxBytes) / 2 }

// hasSpace reports whether a journal accepts more events, with reserve bytes beyond
// limits.MaxBytes.
func (j *journal) hasSpace(tx *bolt.Tx, configured map[string]bool, limits Limits, reserve int64) (bool, error) {
	if limits.MaxBytes <= 0 {
		return true, nil
	}
	acknowledged, err := j.totalAt(j.acknowledged(tx, configured))
	if err != nil {
		return false, err
	}
	return int64(j.total-acknowledged) < limits.MaxBytes+reserve, nil
}

// HasSpace reports whether the journal accepts events of finished commands (see
// Store.Finish). They may use its whole reserve: a sixteenth of Limits.MaxBytes beyond it,
// and at least 64 KiB.
func (s *Store) HasSpace(ctx context.Context) (has bool, err error) {
	s.mu.Lock()
	configured, limits := s.configured, s.limits
	s.mu.Unlock()
	err = s.viewJournal(ctx, func(tx *bolt.Tx, j *journal) error {
		has, err = j.hasSpace(tx, configured, limits, reserveOf(limits.MaxBytes))
		return err
	})
	return has, wrapf(err, "space in the journal")
}

// These bound what one round trims, so that operations need not wait long; a round may
// always trim twice what it has appended, so that trimming keeps up with any input.
const (
	trimEvents = 1000
	trimBytes  = 4 << 20
)

// trimming is the result of a round's trimming.
type trimming struct {
	more bool          // there is more to trim at once
	next time.Duration // when to check again; 0: not before something was written
}

// trim removes events from the journal's beginning that every configured sink has
// committed: those older than Retain that no such sink is to get again, and further ones
// while the journal holds more than MaxBytes. It never removes an event that a configured
// sink has not committed, and removes nothing before Configure.
func (r *writeRound) trim(now time.Time) (trimming, error) {
	acknowledged := r.journal.acknowledged(r.tx.Tx, r.configured)
	held, err := r.held()
	if err != nil {
		return trimming{}, err
	}
	maxEvents, maxBytes := max(trimEvents, 2*r.appendedEvents), max(trimBytes, 2*r.appendedBytes)
	expired := now.Add(-r.limits.Retain).UnixMilli()

	var (
		rest trimming
		keys []byte // one after the other
		gone int64
	)
	cursor := r.events.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		m, err := parseMark(key)
		if err != nil {
			return rest, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if m.seq > acknowledged {
			break
		}
		full := r.limits.MaxBytes > 0 && r.journal.bytes()-gone > r.limits.MaxBytes
		if !full && m.seq >= held {
			break // until it was redelivered, which is a write that trims again
		}
		if recorded := r.journal.recordedBy(m.seq, m.recorded); !full && recorded > expired {
			wait := min(recorded-expired, time.Hour.Milliseconds()) // the clock may be set meanwhile
			rest.next = max(time.Duration(wait)*time.Millisecond, retentionPause)
			break
		}
		if len(keys) >= maxEvents*markSize || gone > 0 && gone+int64(len(value)) > maxBytes {
			rest.more = true
			break
		}
		keys = append(keys, key...)
		gone += int64(len(value))
	}
	for key := range slices.Chunk(keys, markSize) {
		r.events.Delete(key)
	}
	if len(keys) > 0 {
		r.journal.first += uint64(len(keys) / markSize)
		r.journal.before += uint64(gone)
		r.changed = true
	}
	return rest, nil
}
