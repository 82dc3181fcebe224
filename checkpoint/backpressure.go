package checkpoint

import (
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A source with a backlog appends whole pages, while each sink commits a batch per
// transaction: a sink would fall behind however fast it is, and the events that it has
// not committed yet would fill the file. So while sinks deliver, sources go no faster
// than the fastest of them.
const (
	// leadBytes is how far the fastest sink may be behind before commits wait for it.
	leadBytes = 32 << 20
	// leadWait is how long a commit waits for that sink at most, and how recently its
	// cursor must have moved: a sink that is down or slow delays no source.
	leadWait = 250 * time.Millisecond
)

// lead is how far the journal is ahead of the fastest sink.
type lead struct {
	bytes  int64
	cursor uint64 // of that sink
}

// leadOf returns the journal's lead, or none if there is no sink.
func (j *journal) leadOf(tx *bolt.Tx, configured map[string]bool) (l lead, err error) {
	if len(configured) == 0 {
		return l, nil
	}
	cursors := tx.Bucket(cursorsBucket)
	for sink := range configured {
		if value := cursors.Get([]byte(sink)); value != nil {
			l.cursor = max(l.cursor, binary.BigEndian.Uint64(value))
		}
	}
	from, err := j.totalAt(l.cursor)
	l.bytes = int64(j.total - from)
	return l, err
}

// setLead sets the lead after a round. The caller holds mu.
func (s *Store) setLead(l lead) {
	moved := l.cursor != s.lead.cursor
	s.lead = l
	if moved {
		s.ledAt = time.Now()
		close(s.led)
		s.led = make(chan struct{})
	}
}

// waitForSinks waits while the journal is far ahead of the fastest sink and that sink
// delivers, but at most for leadWait.
func (s *Store) waitForSinks(ctx context.Context) {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		far := s.lead.bytes > leadBytes && time.Since(s.ledAt) < leadWait && !s.closed
		led := s.led
		s.mu.Unlock()
		if !far {
			return
		}
		if late == nil {
			timer := time.NewTimer(leadWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-led:
		case <-late:
			return
		case <-ctx.Done():
			return
		case <-s.closing:
			return
		case <-s.failed:
			return
		}
	}
}
