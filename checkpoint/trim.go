package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

// One round trims at most so much, so that operations are not kept waiting; or
// twice what it has appended, so that trimming keeps up whatever comes in.
const (
	trimEvents = 1000
	trimBytes  = 4 << 20
)

// trimming says what is left to trim.
type trimming struct {
	more bool          // at once
	next time.Duration // after a while; 0: not before something was written
}

// trim removes events from the journal's beginning that every configured sink
// has settled: those older than Retain that no such sink is to get again, and
// more while the journal holds more than MaxBytes. Nothing that a configured
// sink has yet to settle is touched, and nothing at all before Configure.
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
			break // until it was delivered again, which is written
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
