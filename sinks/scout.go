package sinks

import (
	"context"
	"hash/maphash"
	"slices"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// scout finds events behind a batch that may be sent ahead of it, to learn whether the target
// accepts anything: the first of each ordering key, evenly spread over the records that it reads.
// Each time that a batch needs more of them, it reads further.
type scout struct {
	queue eventQueue
	seed  maphash.Seed
	read  checkpoint.Batch // at a time

	end   checkpoint.Parked   // the last record of the batch that the fields below are about
	after checkpoint.Parked   // the last record that was read
	keys  map[uint64]struct{} // hashes of the ordering keys up to there
	found []*candidate
	some  bool // found one since it began
	round int  // how often it began again
}

// candidate is an event behind the batch, with its record.
type candidate struct {
	record checkpoint.Parked
	event  transform.Event
}

const (
	// maxScoutReads bounds the reads in search of one event that may be sent.
	maxScoutReads = 8
	// maxScoutKeys bounds the memory for keys: behind so many, the scout begins again.
	maxScoutKeys = 1 << 18
	// scoutEvents is the number of events that are read at a time, regardless of the batch size.
	scoutEvents = 500
)

func newScout(queue eventQueue, batch checkpoint.Batch) *scout {
	batch.MaxEvents = scoutEvents
	return &scout{queue: queue, seed: maphash.MakeSeed(), read: batch}
}

// next returns the next candidate behind b. It returns nil if there is none, or if none is
// found soon; the next call reads on then.
func (s *scout) next(ctx context.Context, b *deliveryBatch) (*candidate, error) {
	if s.keys == nil || offsetOf(b.last()) != offsetOf(s.end) {
		s.round = 0
		s.begin(b)
	}
	for read := 0; len(s.found) == 0; read++ {
		if read == maxScoutReads {
			return nil, nil
		}
		ended, err := s.readOn(ctx)
		if err != nil || ended && !s.some {
			return nil, err
		}
		if ended || len(s.keys) > maxScoutKeys {
			s.round++
			s.begin(b)
		}
	}
	c := s.found[0]
	s.found = s.found[1:]
	return c, nil
}

// readOn reads the next events, and reports whether there are none.
func (s *scout) readOn(ctx context.Context) (ended bool, err error) {
	more, err := s.queue.behind(ctx, s.after, s.read)
	if err != nil {
		return false, err
	}
	if len(more.entries) == 0 {
		return true, nil
	}
	s.add(more)
	return false, nil
}

// begin makes the scout begin behind b.
func (s *scout) begin(b *deliveryBatch) {
	s.end, s.after, s.found, s.some = b.last(), b.last(), nil, false
	s.keys = make(map[uint64]struct{})
	for i := range b.entries {
		// A dead letter that is undone is pending again.
		if e := &b.entries[i]; e.blocks() || slices.Contains(b.undoable, i) {
			s.isFirst(e.record.Order)
		}
	}
}

// isFirst reports whether no event that blocks its key was seen before.
func (s *scout) isFirst(key string) bool {
	if key == "" {
		return true
	}
	hash := maphash.String(s.seed, key)
	_, seen := s.keys[hash]
	s.keys[hash] = struct{}{}
	return !seen
}

// add adds the records that were read.
func (s *scout) add(more *deliveryBatch) {
	s.after = more.last()
	var first []int
	for i := range more.entries {
		if e := &more.entries[i]; e.blocks() && s.isFirst(e.record.Order) && e.state == entryPending {
			first = append(first, i)
		}
	}
	s.some = s.some || len(first) > 0
	step := max(1, len(first)/triesAtFirst)
	for n := s.round % step; n < len(first); n += step {
		s.found = append(s.found, &candidate{more.entries[first[n]].record, more.events[first[n]]})
	}
}
