package sinks

import (
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/poison"
	"ndrbridge/transform"
)

// deliveryBatch is the batch in flight of a worker, and its progress.
type deliveryBatch struct {
	entries []batchEntry
	events  []transform.Event // of the entries, as they are sent
	// undoable holds the indexes of the dead letters that undoDeadLetters undoes: no
	// event was acknowledged after them.
	undoable []int
}

// batchEntry is a record of a batch, or consecutive filtered records.
type batchEntry struct {
	record checkpoint.Redelivered // the last one; a record of the journal has no Offset
	count  int                    // of records
	size   int                    // of the records, in bytes

	filtered bool  // not to be sent
	done     bool  // acknowledged, filtered or dead-lettered
	dead     error // the reason why the event is to become a dead letter; nil: it is not

	transientFailures int
	soloFailures      poison.Failures // in passes that delivered others
}

// add appends a record with event, the form in which it is sent. If err is not
// nil, the record is dead-lettered instead.
func (b *deliveryBatch) add(record checkpoint.Redelivered, event transform.Event, err error) {
	b.entries = append(b.entries, batchEntry{record: record, count: 1, size: len(record.Event.Structured())})
	b.events = append(b.events, event)
	if err != nil {
		b.deadLetter(len(b.entries)-1, err)
	}
}

// addFiltered appends a record that is not to be sent. It does not keep the
// record's bytes, and consecutive filtered records share one entry: with a
// selective match, one failing event may be followed by a whole journal of them.
func (b *deliveryBatch) addFiltered(record checkpoint.Redelivered) {
	if last := len(b.entries) - 1; last < 0 || !b.entries[last].filtered {
		b.entries = append(b.entries, batchEntry{filtered: true, done: true})
		b.events = append(b.events, transform.Event{})
	}
	e := &b.entries[len(b.entries)-1]
	e.count++
	e.size += len(record.Event.Structured())
	record.Event = transform.Event{}
	e.record = record
}

// last returns the batch's last record.
func (b *deliveryBatch) last() checkpoint.Redelivered { return b.entries[len(b.entries)-1].record }

// matched returns the number of entries that are not filtered.
func (b *deliveryBatch) matched() (n int) {
	for i := range b.entries {
		if !b.entries[i].filtered {
			n++
		}
	}
	return n
}

// recordCount returns the number of records in the first n entries.
func (b *deliveryBatch) recordCount(n int) (records int) {
	for i := range n {
		records += b.entries[i].count
	}
	return records
}

// mayGrow reports whether a batch that keeps failing may be extended. If it is
// quarantined, it needs others to deliver in each of poison.GiveUpAfter passes. If all
// of its events fail, more events give no new information. The size stays bounded
// by a multiple of bound, however large the backlog is.
func (b *deliveryBatch) mayGrow(bound checkpoint.Batch, quarantined bool) bool {
	const batches = 32
	events, bytes, acknowledged := 0, 0, 0
	for i := range b.entries {
		switch e := &b.entries[i]; {
		case !e.done:
			events, bytes = events+1, bytes+e.size
		case !e.filtered && e.dead == nil:
			acknowledged++
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
		bytes += b.entries[i].size
		if n > 0 && (bound.MaxEvents > 0 && n >= bound.MaxEvents || bound.MaxBytes > 0 && bytes > bound.MaxBytes) {
			return n
		}
	}
	return len(indexes)
}

// beforeFirstDead returns how many of the first n entries precede the first one to
// be dead-lettered.
func (b *deliveryBatch) beforeFirstDead(n int) int {
	if i := slices.IndexFunc(b.entries[:n], func(e batchEntry) bool { return e.dead != nil }); i >= 0 {
		return i
	}
	return n
}

// removeFirst removes the first n entries, which have been committed.
func (b *deliveryBatch) removeFirst(n int) {
	b.entries, b.events = b.entries[n:], b.events[n:]
	b.undoable = slices.DeleteFunc(b.undoable, func(i int) bool { return i < n })
	for at := range b.undoable {
		b.undoable[at] -= n
	}
}

// pending returns the indexes of the entries that are not done.
func (b *deliveryBatch) pending() []int {
	pending := make([]int, 0, len(b.entries))
	for i := range b.entries {
		if !b.entries[i].done {
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
	e := &b.entries[index]
	e.done = true
	b.events[index], e.record.Event = transform.Event{}, transform.Event{}
	b.undoable = b.undoable[:0]
}

// deadLetter records that the event at index is to become a dead letter.
func (b *deliveryBatch) deadLetter(index int, reason error) {
	b.giveUp(index, reason)
	b.undoable = append(b.undoable, index)
}

// giveUp is like deadLetter, for an event that failed while others were delivered.
// undoDeadLetters does not undo it, because the target is known to accept others.
func (b *deliveryBatch) giveUp(index int, reason error) {
	b.entries[index].done, b.entries[index].dead = true, reason
}

// undoDeadLetters makes dead-lettered events pending again, back to the last
// acknowledgement. It leaves out events that could not be prepared or sent: the
// target is not at fault for them.
func (b *deliveryBatch) undoDeadLetters() {
	b.undoable = slices.DeleteFunc(b.undoable, func(i int) bool {
		e := &b.entries[i]
		undo := b.events[i].ID != "" && !IsUnsent(e.dead)
		if undo {
			e.done, e.dead = false, nil
		}
		return undo
	})
}

// completed returns the number of leading entries that are done, and the dead
// letters among them. Unless final is set or the whole batch is done, it stops
// before the first dead letter that undoDeadLetters may undo.
func (b *deliveryBatch) completed(now time.Time, final bool) (n int, deadLetters []checkpoint.DeadLetter) {
	for n < len(b.entries) && b.entries[n].done {
		n++
	}
	if !final && n < len(b.entries) {
		for _, i := range b.undoable {
			n = min(n, i)
		}
	}
	for i := range n {
		if e := &b.entries[i]; e.dead != nil {
			deadLetters = append(deadLetters, checkpoint.DeadLetter{
				Key: e.record.Key, Class: string(Rejected), Reason: e.dead.Error(), Time: now, Body: e.record.Event.Structured(),
			})
		}
	}
	return n, deadLetters
}
