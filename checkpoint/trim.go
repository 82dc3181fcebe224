package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

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
	events := r.tx.table(journalBucket)
	cursor := events.Cursor()
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
		r.tx.sum -= entrySum(events.path, key, value)
		gone += int64(len(value))
	}
	for key := range slices.Chunk(keys, markSize) {
		if err := events.Delete(key); err != nil {
			return rest, fmt.Errorf("an event: %w", err)
		}
	}
	if len(keys) > 0 {
		r.journal.first += uint64(len(keys) / markSize)
		r.journal.before += uint64(gone)
		r.changed = true
	}
	return rest, nil
}
