package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// journal is the journal within one transaction.
type journal struct {
	events        *bolt.Bucket
	first, last   uint64       // first is last+1 if it is empty
	before, total uint64       // sums of bytes before the first event and up to the last
	recorded      int64        // the latest RecordedTime, by the clock as it is now
	corrections   []correction // of recorded times
}

func (j *journal) empty() bool { return j.first > j.last }

func (j *journal) bytes() int64 { return int64(j.total - j.before) }

// openJournal reads the journal's ends. It costs two lookups.
func openJournal(tx *bolt.Tx) (journal, error) {
	j := journal{events: tx.Bucket(journalBucket)}
	cursor := j.events.Cursor()
	key, value := cursor.First()
	if key == nil {
		j.last = j.events.Sequence()
		j.first = j.last + 1
		return j, nil
	}
	first, err := parseMark(key)
	if err != nil {
		return j, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	j.first, j.before = first.seq, first.total-uint64(len(value))
	key, _ = cursor.Last()
	last, err := parseMark(key)
	if err != nil {
		return j, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	j.last, j.total = last.seq, last.total
	j.corrections = correctionsOf(tx)
	j.recorded = j.recordedBy(last.seq, last.recorded)
	return j, nil
}

// viewJournal reads the state and its journal, whose recorded times are by the clock as it
// is now.
func (s *Store) viewJournal(ctx context.Context, do func(*bolt.Tx, *journal) error) error {
	return s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err != nil {
			return err
		}
		j.correct(s.clock)
		return do(tx, &j)
	})
}

// append adds events to the journal's table and returns how many bytes they have. bbolt
// keeps the events' bytes until the transaction ends, and copies them once, into pages.
func (j *journal) append(to *boltfile.Table, events []transform.Event, now time.Time) (size int64, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	if j.empty() {
		j.before, j.total, j.recorded = 0, 0, 0
	}
	key := make([]byte, 0, markSize)
	for _, e := range events {
		j.last++
		j.total += uint64(len(e.Structured()))
		if recorded := e.RecordedTime; !recorded.IsZero() {
			if recorded.Sub(now) > aheadMost {
				recorded = now // the clock was set back in the meantime
			}
			j.recorded = max(j.recorded, recorded.UnixMilli())
		}
		key = mark{j.last, j.total, j.recorded}.append(key[:0])
		to.Add(key, e.Structured())
		size += int64(len(e.Structured()))
	}
	if err := to.SetSequence(j.last); err != nil {
		return size, fmt.Errorf("sequence number of the last event: %w", err)
	}
	return size, nil
}

// totalAt returns the sum of bytes up to and including an event.
func (j *journal) totalAt(seq uint64) (uint64, error) {
	switch {
	case seq < j.first:
		return j.before, nil
	case seq >= j.last:
		return j.total, nil
	}
	m, _, err := j.at(seq)
	return m.total, err
}

// at returns the event with a sequence number that the journal holds. The value is only
// valid within the transaction.
func (j *journal) at(seq uint64) (mark, []byte, error) {
	key, value := j.events.Cursor().Seek(encode(seq))
	m, err := parseMark(key)
	if err == nil && m.seq != seq {
		err = fmt.Errorf("event %d is not there", seq)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, value, err
}

// since returns the number of the first event whose RecordedTime is at or after t, or the
// number that the next event will get. Clocks step back, so RecordedTime does not increase
// everywhere; but a mark holds the latest one so far, which, once corrected, never
// decreases and first reaches a time at the very event that does.
func (j *journal) since(t time.Time) (uint64, error) {
	// RecordedTime has milliseconds: round a time between two of them up.
	milliseconds := t.UnixMilli()
	if t.After(time.UnixMilli(milliseconds)) {
		milliseconds++
	}
	return j.search(func(m mark) bool { return j.recordedBy(m.seq, m.recorded) >= milliseconds })
}

// search returns the number of the first event for whose mark is holds, or the number that
// the next event will get. If is holds for an event, it must hold for every later one.
func (j *journal) search(is func(mark) bool) (uint64, error) {
	var failed error
	n := sort.Search(int(j.last+1-j.first), func(i int) bool {
		m, _, err := j.at(j.first + uint64(i))
		if err != nil {
			failed = err
		}
		return is(m)
	})
	return j.first + uint64(n), failed
}

// acknowledged returns the number of the last event that every configured sink has
// committed, or the one before the first if there is none. Before sinks were configured,
// no event counts as committed.
func (j *journal) acknowledged(tx *bolt.Tx, configured map[string]bool) uint64 {
	if configured == nil {
		return j.first - 1
	}
	lowest := j.last
	cursors := tx.Bucket(cursorsBucket)
	for sink := range configured {
		if value := cursors.Get([]byte(sink)); value != nil {
			lowest = min(lowest, binary.BigEndian.Uint64(value))
		}
	}
	return max(lowest, j.first-1)
}

func parseEvent(b []byte) (transform.Event, error) {
	e, err := transform.Parse(b)
	if err != nil {
		return e, fmt.Errorf("%d bytes are not an event: %w", len(b), err)
	}
	return e, nil
}

// mark is a journal key: an event's number and the sums up to it.
type mark struct {
	seq      uint64
	total    uint64
	recorded int64
}

const markSize = 24

func (m mark) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.seq)
	b = binary.BigEndian.AppendUint64(b, m.total)
	return binary.BigEndian.AppendUint64(b, uint64(m.recorded))
}

func parseMark(key []byte) (mark, error) {
	if len(key) != markSize {
		return mark{}, fmt.Errorf("a journal key of %d bytes", len(key))
	}
	return mark{
		seq:      binary.BigEndian.Uint64(key),
		total:    binary.BigEndian.Uint64(key[8:]),
		recorded: int64(binary.BigEndian.Uint64(key[16:])),
	}, nil
}

// journalCheck checks that the keys of the journal follow each other.
type journalCheck struct {
	last mark
	err  error // the first fault
}

// journalPath is the path of the journal's bucket in boltfile.Check.
const journalPath = "/journal"

func (c *journalCheck) visit(bucket string, key []byte, size uint64) {
	if bucket != journalPath || c.err != nil {
		return
	}
	m, err := parseMark(key)
	switch last := c.last; {
	case err != nil:
		c.err = err
	case m.seq == 0:
		c.err = errors.New("event 0 in the journal")
	case last != mark{} && (m.seq != last.seq+1 || m.total != last.total+size):
		c.err = fmt.Errorf("event %d of the journal does not follow event %d", m.seq, last.seq)
	}
	c.last = m
}

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
// always trim twice as much as it has appended, so that trimming keeps up with any input.
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
	for key, value := range walk(r.events.Bucket, nil) {
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
