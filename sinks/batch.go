package sinks

import (
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// deliveryBatch is what is in flight, and how far it has come.
type deliveryBatch struct {
	records  []checkpoint.Redelivered // those of the journal have no Place
	events   []transform.Event        // those of records, as they are sent
	sizes    []int                    // of records, in bytes
	counts   []int                    // how many records each stands for: the last of them
	filtered []bool                   // not to be sent
	done     []bool                   // acknowledged, or in dead
	dead     []dead
	firm     int // of dead: those in front of the last event that was taken

	// attempts counts the transient failures of each event, and alone those in
	// which it failed by itself while others passed.
	attempts, alone []int
	sends           int  // calls of Send so far
	failures        int  // attempts in a row in which nothing passed
	isolateAt       int  // failures at which it is divided next
	poisoned        bool // some events failed by themselves while others passed
	waits           bool // no events lie behind it, and it has space for some
	mixed           bool // the target rejects some of it and takes others
	probed          int  // where the next probe of a sink that rejects everything begins
}

// dead is an event of a batch that is to become a dead letter.
type dead struct {
	index  int
	reason error
}

// add appends a record, and event, which is what is sent of it, or says why there
// is none.
func (b *deliveryBatch) add(record checkpoint.Redelivered, event transform.Event, err error) {
	b.records = append(b.records, record)
	b.events = append(b.events, event)
	b.sizes = append(b.sizes, len(record.Event.Structured()))
	b.counts = append(b.counts, 1)
	b.filtered = append(b.filtered, false)
	b.done = append(b.done, false)
	b.attempts = append(b.attempts, 0)
	b.alone = append(b.alone, 0)
	if err != nil {
		b.deadLetter(len(b.events)-1, err)
	}
}

// pass appends a record that is not to be sent. Its bytes are not kept, and one
// entry stands for all that follow each other: a sink that wants little may wait
// with one event in front of a whole journal.
func (b *deliveryBatch) pass(record checkpoint.Redelivered) {
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

// matched is how many entries are to be sent, or were.
func (b *deliveryBatch) matched() (n int) {
	for _, elapsed := range b.filtered {
		if !elapsed {
			n++
		}
	}
	return n
}

// stands is how many records the first n entries stand for.
func (b *deliveryBatch) stands(n int) (records int) {
	for _, count := range b.counts[:n] {
		records += count
	}
	return records
}

// space reports whether a batch that goes on failing may become larger. Where some
// of it fails by itself, it needs others beside it in each of giveUpAfter attempts;
// where all does, more of it says nothing new. It never becomes as large as a
// backlog.
func (b *deliveryBatch) space(bound checkpoint.Batch) bool {
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
	// A kill repeats what is acknowledged behind an event that is not. It is enough for
	// each attempt that such an event gets.
	if acknowledged >= bound.MaxEvents+(giveUpAfter-1)*maxNeighbours {
		return false
	}
	if bound.MaxBytes > 0 && bytes >= batches/4*bound.MaxBytes {
		return false
	}
	if !b.poisoned {
		return events <= max(bound.MaxEvents, 8*isolateLeast)
	}
	return bound.MaxEvents <= 0 || b.matched() < batches*max(bound.MaxEvents, isolateLeast)
}

// fits returns how many of the first of some events may be sent at once: one at
// least.
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

// first is the index of the first of n leading records that is to be a dead
// letter, else n.
func (b *deliveryBatch) first(n int) int {
	for _, d := range b.dead {
		n = min(n, d.index)
	}
	return n
}

// cut takes the first n records away, which are settled.
func (b *deliveryBatch) cut(n int) {
	b.records, b.events, b.sizes, b.done = b.records[n:], b.events[n:], b.sizes[n:], b.done[n:]
	b.counts, b.filtered = b.counts[n:], b.filtered[n:]
	b.attempts, b.alone = b.attempts[n:], b.alone[n:]
	var left []dead
	firm := 0
	for i, d := range b.dead {
		if d.index < n {
			continue
		}
		if i < b.firm {
			firm++
		}
		left = append(left, dead{d.index - n, d.reason})
	}
	b.dead, b.firm = left, firm
}

// pending returns the indexes of what is not done.
func (b *deliveryBatch) pending() []int {
	pending := make([]int, 0, len(b.done))
	for i, done := range b.done {
		if !done {
			pending = append(pending, i)
		}
	}
	return pending
}

// left returns those of indexes that are not done and that f lets pass.
func (b *deliveryBatch) left(indexes []int, f *failures) []int {
	left := make([]int, 0, len(indexes))
	for _, i := range indexes {
		if !b.done[i] && !f.holds(i, orderKey(b.events[i])) {
			left = append(left, i)
		}
	}
	return left
}

// failures are the events of a batch that failed by themselves in one pass over
// it, and their keys: what comes behind them under a key has to wait. A nil
// *failures takes note of nothing.
type failures struct {
	indexes   map[int]bool
	keys      map[string]bool
	delivered int // how many events had been taken when the pass began
}

func newFailures(elapsed int) *failures {
	return &failures{indexes: make(map[int]bool), keys: make(map[string]bool), delivered: elapsed}
}

func (f *failures) add(index int, key string) {
	if f == nil {
		return
	}
	f.indexes[index] = true
	if key != "" { // those without one are in no order
		f.keys[key] = true
	}
}

// hold holds back what comes behind some events, which were not tried.
func (f *failures) hold(b *deliveryBatch, indexes []int) {
	if f == nil {
		return
	}
	for _, i := range b.left(indexes, nil) {
		if key := orderKey(b.events[i]); key != "" {
			f.keys[key] = true
		}
	}
}

func (f *failures) holds(index int, key string) bool {
	return f != nil && (f.indexes[index] || f.keys[key])
}

// orderKey is the key of events that must not pass each other: those of one
// detection. Other events have none, and so no bad one holds up what has nothing
// to do with it.
func orderKey(e transform.Event) string {
	if e.Stream() == transform.StreamDetections {
		return e.PartitionKey
	}
	return ""
}

// eventsAt returns the events with these indexes.
func (b *deliveryBatch) eventsAt(indexes []int) []transform.Event {
	// Mostly they are one stretch, which needs no copy.
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

// take notes that an event was acknowledged. Its bytes are needed no more.
func (b *deliveryBatch) take(index int) {
	b.done[index] = true
	b.firm = len(b.dead)
	b.events[index], b.records[index].Event = transform.Event{}, transform.Event{}
}

// deadLetter notes that an event is to become a dead letter.
func (b *deliveryBatch) deadLetter(index int, reason error) {
	b.done[index] = true
	b.dead = append(b.dead, dead{index, reason})
}

// giveUp makes a dead letter of an event that failed while others were taken. That the
// target takes others is known, so nothing takes it back.
func (b *deliveryBatch) giveUp(index int, reason error) {
	b.done[index] = true
	b.dead = slices.Insert(b.dead, b.firm, dead{index, reason})
	b.firm++
}

// undoDeadLetter takes back what was buried since an event was last taken. What could not
// be prepared or sent stays, for that is not the target's fault.
func (b *deliveryBatch) undoDeadLetter() {
	kept := b.dead[:b.firm]
	for _, d := range b.dead[b.firm:] {
		if b.events[d.index].ID == "" || IsUnsent(d.reason) {
			kept = append(kept, d)
			continue
		}
		b.done[d.index] = false
	}
	b.dead = kept
}

// completed returns how many of the leading records are done, and the dead
// dead letters among them. Where whole is false, it stops in front of what may be
// exhumed.
func (b *deliveryBatch) completed(now time.Time, whole bool) (n int, deadLetters []checkpoint.DeadLetter) {
	for n < len(b.done) && b.done[n] {
		n++
	}
	if !whole && n < len(b.done) {
		for _, d := range b.dead[b.firm:] {
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
