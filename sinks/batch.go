package sinks

import (
	"cmp"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// deliveryBatch is the batch in flight of a worker, and its progress.
type deliveryBatch struct {
	entries []batchEntry
	events  []transform.Event // of the entries, as they are sent
	// undoable holds the indexes of the dead letters that undoDeadLetters undoes: no
	// event was acknowledged after them.
	undoable []int
	up       bool            // the target has just accepted something
	held     map[string]bool // ordering keys of the held entries
}

// newDeliveryBatch returns an empty batch with space for n records.
func newDeliveryBatch(n int) *deliveryBatch {
	return &deliveryBatch{entries: make([]batchEntry, 0, n), events: make([]transform.Event, 0, n)}
}

// entryState is the state of the delivery of a batch's entry.
type entryState int

const (
	entryPending entryState = iota
	entryDone               // acknowledged, or filtered
	entryDead               // to become a dead letter, because of reason
	entryParked             // to be parked, or to stay so
	entryHeld               // like entryParked, because an event before it with its key is parked
)

// batchEntry is a record of a batch, or consecutive filtered records.
type batchEntry struct {
	// record is the last one, as it is stored if it is parked. A record that is not parked has
	// no Number, one of the journal no Offset.
	record checkpoint.Parked
	count  int // of records
	size   int // of the records, in bytes

	filtered bool // not to be sent
	state    entryState
	reason   error // of the last failure; nil: none

	failed *mark // when it failed and its part of the target accepted nothing after; nil: it did not
	// retryAfter is the least wait before it is sent again, of the last failure.
	retryAfter time.Duration
}

// add appends a record with event, the form in which it is sent. If err is not
// nil, the record is dead-lettered instead.
func (b *deliveryBatch) add(record checkpoint.Parked, event transform.Event, err error) {
	b.entries = append(b.entries, batchEntry{record: record, count: 1, size: len(record.Event.Structured())})
	b.events = append(b.events, event)
	if err != nil {
		b.deadLetter(len(b.entries)-1, err)
	}
}

// addFiltered appends a record that is not to be sent. It does not keep the
// record's bytes, and consecutive filtered records share one entry, unless they are parked:
// with a selective match, one failing event may be followed by a whole journal of them.
func (b *deliveryBatch) addFiltered(record checkpoint.Parked) {
	if last := len(b.entries) - 1; last < 0 || !b.entries[last].filtered || record.Number != 0 {
		b.entries = append(b.entries, batchEntry{filtered: true, state: entryDone})
		b.events = append(b.events, transform.Event{})
	}
	e := &b.entries[len(b.entries)-1]
	e.count++
	e.size += len(record.Event.Structured())
	record.Event = transform.Event{}
	e.record = record
}

// last returns the batch's last record.
func (b *deliveryBatch) last() checkpoint.Parked { return b.entries[len(b.entries)-1].record }

// recordCount returns the number of records in the first n entries.
func (b *deliveryBatch) recordCount(n int) (records int) {
	for i := range n {
		records += b.entries[i].count
	}
	return records
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

// beforeFirst returns how many of the first n entries precede the first one for which is holds.
func (b *deliveryBatch) beforeFirst(n int, is func(entryState) bool) int {
	if i := slices.IndexFunc(b.entries[:n], func(e batchEntry) bool { return is(e.state) }); i >= 0 {
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

// pending returns the indexes of the pending entries.
func (b *deliveryBatch) pending() []int {
	pending := make([]int, 0, len(b.entries))
	for i := range b.entries {
		if b.entries[i].state == entryPending {
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
		if key := b.entries[i].record.Order; !keys[key] || key == "" {
			keys[key] = true
			first = append(first, i)
		}
	}
	return first
}

// orderingKey returns the key of events that must not overtake each other: events
// of the same detection. Events of other streams have no key, so that a failing
// one blocks no other. Redeliveries are apart from first deliveries.
func orderingKey(r checkpoint.Redelivered) string {
	switch {
	case r.Event.Stream() != transform.StreamDetections || r.Event.PartitionKey == "":
		return ""
	case r.Offset != (checkpoint.RedeliveryOffset{}):
		return "redelivered/" + r.Event.PartitionKey
	}
	return r.Event.PartitionKey
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
	e.state = entryDone
	b.events[index], e.record.Event = transform.Event{}, transform.Event{}
	b.undoable = b.undoable[:0]
}

// deadLetter records that the event at index is to become a dead letter.
func (b *deliveryBatch) deadLetter(index int, reason error) {
	b.giveUp(index, reason)
	b.undoable = append(b.undoable, index)
}

// hold holds e. Later events of its ordering key are held too, even if the parked event before
// them is delivered in the meantime.
func (b *deliveryBatch) hold(e *batchEntry) {
	if b.held == nil {
		b.held = make(map[string]bool)
	}
	e.state, b.held[e.record.Order] = entryHeld, true
}

// giveUp is like deadLetter, but undoDeadLetters does not undo it, because the target is
// known to accept others.
func (b *deliveryBatch) giveUp(index int, reason error) {
	b.entries[index].state, b.entries[index].reason = entryDead, reason
}

// undoDeadLetters makes dead-lettered events pending again, back to the last
// acknowledgement. It leaves out events that could not be prepared or sent: the
// target is not at fault for them.
func (b *deliveryBatch) undoDeadLetters() {
	b.undoable = slices.DeleteFunc(b.undoable, func(i int) bool {
		e := &b.entries[i]
		undo := b.events[i].ID != "" && !failure.IsUnsent(e.reason)
		if undo {
			e.state = entryPending
		}
		return undo
	})
}

// unpark makes parked events pending again because there is no space for them. Held ones stay
// behind the event that they follow.
func (b *deliveryBatch) unpark() {
	for i := range b.entries {
		if e := &b.entries[i]; e.state == entryParked {
			e.state = entryPending
		}
	}
}

// completed returns the number of leading entries that are not pending. Unless final is set
// or the whole batch is done, it stops before the first dead letter that undoDeadLetters may
// undo.
func (b *deliveryBatch) completed(final bool) (n int) {
	for n < len(b.entries) && b.entries[n].state != entryPending {
		n++
	}
	if !final && n < len(b.entries) {
		for _, i := range b.undoable {
			n = min(n, i)
		}
	}
	return n
}

// deadLetters returns the dead letters among the first n entries.
func (b *deliveryBatch) deadLetters(n int, now time.Time) (dead []checkpoint.DeadLetter) {
	for i := range n {
		if e := &b.entries[i]; e.state == entryDead {
			dead = append(dead, checkpoint.DeadLetter{
				Key: e.record.Key, Class: string(failure.Rejected), Reason: e.reason.Error(), Time: now, Body: e.record.Event.Structured(),
			})
		}
	}
	return dead
}

// parked returns the parked events among the first n entries.
func (b *deliveryBatch) parked(n int) (parked []checkpoint.Parked) {
	for i := range n {
		if e := &b.entries[i]; e.state.isParked() {
			parked = append(parked, e.record)
		}
	}
	return parked
}

func (s entryState) isParked() bool { return s == entryParked || s == entryHeld }

// newlyParked returns how many of the first n entries are parked that were not before, and
// the last of the failures that caused that.
func (b *deliveryBatch) newlyParked(n int) (events int, reason error) {
	for i := range n {
		if e := &b.entries[i]; e.state.isParked() && e.record.Number == 0 {
			events++
			reason = cmp.Or(e.reason, reason)
		}
	}
	return events, reason
}
