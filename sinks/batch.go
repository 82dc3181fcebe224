package sinks

import (
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/poison"
	"ndrbridge/transform"
)

// deliveryBatch is the batch in flight of a worker, and its progress. Its slices
// have one entry for each record, in the records' order; consecutive filtered
// records share an entry.
type deliveryBatch struct {
	records  []checkpoint.Redelivered // records of the journal have no Offset
	events   []transform.Event        // as they are sent
	sizes    []int                    // of the records, in bytes
	counts   []int                    // of records in the entry; records has the last of them
	filtered []bool                   // not to be sent
	done     []bool                   // acknowledged, filtered or dead-lettered
	dead     []deadEvent
	// firmDead is the number of leading entries of dead that undoDeadLetters keeps:
	// an event was acknowledged after them.
	firmDead int

	transientFailures []int             // of each event
	soloFailures      []poison.Failures // of each event, in passes that delivered others
}

// deadEvent is an event of a batch that is to become a dead letter.
type deadEvent struct {
	index  int
	reason error
}

// add appends a record with event, the form in which it is sent. If err is not
// nil, the record is dead-lettered instead.
func (b *deliveryBatch) add(record checkpoint.Redelivered, event transform.Event, err error) {
	b.records = append(b.records, record)
	b.events = append(b.events, event)
	b.sizes = append(b.sizes, len(record.Event.Structured()))
	b.counts = append(b.counts, 1)
	b.filtered = append(b.filtered, false)
	b.done = append(b.done, false)
	b.transientFailures = append(b.transientFailures, 0)
	b.soloFailures = append(b.soloFailures, poison.Failures{})
	if err != nil {
		b.deadLetter(len(b.events)-1, err)
	}
}

// addFiltered appends a record that is not to be sent. It does not keep the
// record's bytes, and consecutive filtered records share one entry: with a
// selective match, one failing event may be followed by a whole journal of them.
func (b *deliveryBatch) addFiltered(record checkpoint.Redelivered) {
	size := len(record.Event.Structured())
	record.Event = transform.Event{}
	last := len(b.records) - 1
	if last >= 0 && b.filtered[last] {
		b.records[last] = record
		b.sizes[last] += size
		b.counts[last]++
		return
	}
	b.add(record, transform.Event{}, nil)
	last++
	b.sizes[last], b.filtered[last], b.done[last] = size, true, true
}

// matched returns the number of entries that are not filtered.
func (b *deliveryBatch) matched() (n int) {
	for _, filtered := range b.filtered {
		if !filtered {
			n++
		}
	}
	return n
}

// recordCount returns the number of records in the first n entries.
func (b *deliveryBatch) recordCount(n int) (records int) {
	for _, count := range b.counts[:n] {
		records += count
	}
	return records
}

// mayGrow reports whether a batch that keeps failing may be extended. If it is
// quarantined, it needs others to deliver in each of poison.GiveUpAfter passes. If all
// of its events fail, more events give no new information. The size stays bounded
// by a multiple of bound, however large the backlog is.
func (b *deliveryBatch) mayGrow(bound checkpoint.Batch, quarantined bool) bool {
	const batches = 32
	events, bytes, acknowledged := 0, 0, len(b.done)-len(b.dead)
	for i, done := range b.done {
		switch {
		case !done:
			events, bytes = events+1, bytes+b.sizes[i]
			acknowledged--
		case b.filtered[i]:
			acknowledged--
		}
	}
	// A crash repeats the events acknowledged behind a pending one. This many are
	// enough for poison.GiveUpAfter passes.
	if acknowledged >= bound.MaxEvents+(poison.GiveUpAfter-1)*maxNeighbours {
		return false
	}
	if bound.MaxBytes > 0 && bytes >= batches/4*bound.MaxBytes {
		return false
	}
	if !quarantined {
		return events <= max(bound.MaxEvents, 8*downAfter)
	}
	return bound.MaxEvents <= 0 || b.matched() < batches*max(bound.MaxEvents, downAfter)
}

// fits returns how many of the events at indexes, from the first, may be sent in
// one call: at least one.
func (b *deliveryBatch) fits(indexes []int, bound checkpoint.Batch) int {
	bytes := 0
	for n, i := range indexes {
		bytes += b.sizes[i]
		if n > 0 && (bound.MaxEvents > 0 && n >= bound.MaxEvents || bound.MaxBytes > 0 && bytes > bound.MaxBytes) {
			return n
		}
	}
	return len(indexes)
}

// beforeFirstDead returns how many of the first n entries precede the first one to
// be dead-lettered.
func (b *deliveryBatch) beforeFirstDead(n int) int {
	for _, d := range b.dead {
		n = min(n, d.index)
	}
	return n
}

// removeFirst removes the first n entries, which have been committed.
func (b *deliveryBatch) removeFirst(n int) {
	b.records, b.events, b.sizes, b.done = b.records[n:], b.events[n:], b.sizes[n:], b.done[n:]
	b.counts, b.filtered = b.counts[n:], b.filtered[n:]
	b.transientFailures, b.soloFailures = b.transientFailures[n:], b.soloFailures[n:]
	var left []deadEvent
	firm := 0
	for i, d := range b.dead {
		if d.index < n {
			continue
		}
		if i < b.firmDead {
			firm++
		}
		left = append(left, deadEvent{d.index - n, d.reason})
	}
	b.dead, b.firmDead = left, firm
}

// pending returns the indexes of the entries that are not done.
func (b *deliveryBatch) pending() []int {
	pending := make([]int, 0, len(b.done))
	for i, done := range b.done {
		if !done {
			pending = append(pending, i)
		}
	}
	return pending
}

// firstOfEachKey returns the indexes of the first pending event of each ordering key,
// and of those without a key.
func (b *deliveryBatch) firstOfEachKey() (first []int) {
	keys := make(map[string]bool)
	for _, i := range b.pending() {
		if key := orderingKey(b.events[i]); !keys[key] || key == "" {
			keys[key] = true
			first = append(first, i)
		}
	}
	return first
}

// orderingKey returns the key of events that must not overtake each other: events
// of the same detection. Events of other streams have no key, so that a failing
// one blocks no other.
func orderingKey(e transform.Event) string {
	if e.Stream() == transform.StreamDetections {
		return e.PartitionKey
	}
	return ""
}

// eventsAt returns the events at indexes, which are in ascending order.
func (b *deliveryBatch) eventsAt(indexes []int) []transform.Event {
	// Usually they are contiguous, and no copy is necessary.
	events := b.events[indexes[0] : indexes[len(indexes)-1]+1]
	if len(events) == len(indexes) {
		return events
	}
	events = make([]transform.Event, len(indexes))
	for i, index := range indexes {
		events[i] = b.events[index]
	}
	return events
}

// acknowledge records that the event at index was acknowledged, and releases its
// bytes.
func (b *deliveryBatch) acknowledge(index int) {
	b.done[index] = true
	b.firmDead = len(b.dead)
	b.events[index], b.records[index].Event = transform.Event{}, transform.Event{}
}

// deadLetter records that the event at index is to become a dead letter.
func (b *deliveryBatch) deadLetter(index int, reason error) {
	b.done[index] = true
	b.dead = append(b.dead, deadEvent{index, reason})
}

// giveUp dead-letters an event that failed while others were delivered.
// undoDeadLetters does not undo it, because the target is known to accept others.
func (b *deliveryBatch) giveUp(index int, reason error) {
	b.done[index] = true
	b.dead = slices.Insert(b.dead, b.firmDead, deadEvent{index, reason})
	b.firmDead++
}

// undoDeadLetters makes dead-lettered events pending again, back to the last
// acknowledgement. It leaves out events that could not be prepared or sent: the
// target is not at fault for them.
func (b *deliveryBatch) undoDeadLetters() {
	kept := b.dead[:b.firmDead]
	for _, d := range b.dead[b.firmDead:] {
		if b.events[d.index].ID == "" || IsUnsent(d.reason) {
			kept = append(kept, d)
			continue
		}
		b.done[d.index] = false
	}
	b.dead = kept
}

// completed returns the number of leading entries that are done, and the dead
// letters among them. Unless final is set or the whole batch is done, it stops
// before the first dead letter that undoDeadLetters may undo.
func (b *deliveryBatch) completed(now time.Time, final bool) (n int, deadLetters []checkpoint.DeadLetter) {
	for n < len(b.done) && b.done[n] {
		n++
	}
	if !final && n < len(b.done) {
		for _, d := range b.dead[b.firmDead:] {
			n = min(n, d.index)
		}
	}
	for _, d := range b.dead {
		if d.index < n {
			deadLetters = append(deadLetters, checkpoint.DeadLetter{
				Key: b.records[d.index].Key, Class: string(Rejected), Reason: d.reason.Error(),
				Time: now, Body: b.records[d.index].Event.Structured(),
			})
		}
	}
	return n, deadLetters
}
