package sinks

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"ndrbridge/checkpoint"
)

// eventQueue is the source of a worker's events: the journal after the sink's cursor, the
// redeliveries that operators asked for, or the events that the sink has parked.
type eventQueue interface {
	// begin loads the queue's position.
	begin(ctx context.Context) error
	// next blocks until there are events and returns a batch of them.
	next(ctx context.Context) (*deliveryBatch, error)
	// behind returns some of the events that follow a record, which stay in the queue.
	behind(ctx context.Context, after checkpoint.Parked, max checkpoint.Batch) (*deliveryBatch, error)
	// setAhead records that the target accepted an event that behind returned.
	setAhead(record checkpoint.Parked)
	// commit removes the first n entries of b from the queue, and stores the dead letters
	// and parked events among them, in one transaction. It returns checkpoint.ErrFenced if
	// the queue's position is not the expected one.
	commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error
}

// queueBase is the common part of a sink's queues.
type queueBase struct {
	journal  Journal
	o        *Options
	preparer *preparer
	parked   *parkedIndex

	mu    sync.Mutex                           // the scout reads ahead while the lag policy commits
	ahead map[checkpoint.RedeliveryOffset]bool // offsets of events behind the batch in flight that were sent ahead of it
}

// offsetOf returns the position of a record in its queue. In the journal, Item is 0.
func offsetOf(r checkpoint.Parked) checkpoint.RedeliveryOffset {
	return cmp.Or(r.Offset, checkpoint.RedeliveryOffset{Seq: r.Seq})
}

func (q *queueBase) isAhead(offset checkpoint.RedeliveryOffset) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ahead[offset]
}

func (q *queueBase) setAhead(record checkpoint.Parked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead[offsetOf(record)] = true
}

func (q *queueBase) clearAhead() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead = make(map[checkpoint.RedeliveryOffset]bool)
}

// add appends a record to b: done if it was sent ahead, and held if an event before it with its
// ordering key is parked.
func (q *queueBase) add(b *deliveryBatch, r checkpoint.Parked) {
	q.preparer.add(b, r)
	e := &b.entries[len(b.entries)-1]
	switch key := e.record.Order; {
	case q.isAhead(offsetOf(r)):
		e.state = entryDone
	case e.state == entryPending && key != "" && (b.held[key] || q.parked.holds(key)):
		b.hold(e)
	}
}

// committed updates the queue after a commit up to last, which parked events if parks is set.
func (q *queueBase) committed(ctx context.Context, last checkpoint.RedeliveryOffset, parks bool) error {
	if parks { // before an event with one of their keys is read
		if err := q.parked.load(ctx, false); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.ahead, func(offset checkpoint.RedeliveryOffset, _ bool) bool { return !offset.IsAfter(last) })
	return nil
}

// journalQueue is the journal after the sink's cursor.
type journalQueue struct {
	queueBase
	cursor uint64
	// uncertain holds the cursors of the failed commits, any of which may have been
	// written nevertheless. All are in the batch in flight.
	uncertain []uint64
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	if err = q.parked.load(ctx, true); err == nil {
		q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	}
	q.uncertain = nil
	q.clearAhead()
	return err
}

func (q *journalQueue) next(ctx context.Context) (*deliveryBatch, error) {
	if err := q.journal.Wait(ctx, q.cursor); err != nil {
		return nil, err
	}
	if q.o.Linger > 0 && q.o.Batch.MaxEvents > 1 {
		full, cancel := context.WithTimeout(ctx, q.o.Linger)
		_ = q.journal.Wait(full, q.cursor+uint64(q.o.Batch.MaxEvents)-1) // a timeout is no failure
		cancel()
	}
	return q.read(ctx, q.cursor, q.o.Batch)
}

func (q *journalQueue) behind(ctx context.Context, after checkpoint.Parked, max checkpoint.Batch) (*deliveryBatch, error) {
	return q.read(ctx, after.Seq, max)
}

// read returns the records after the number after, as many as max allows.
func (q *journalQueue) read(ctx context.Context, after uint64, max checkpoint.Batch) (*deliveryBatch, error) {
	records, err := q.journal.Read(ctx, after, max)
	b := newDeliveryBatch(len(records))
	for _, r := range records {
		q.add(b, checkpoint.Parked{Redelivered: checkpoint.Redelivered{Record: r, Key: checkpoint.DeadKey(r.Seq)}})
	}
	return b, err
}

func (q *journalQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error {
	d := checkpoint.Delivery{Sink: q.o.Name, Expect: q.cursor, Cursor: b.entries[n-1].record.Seq, Dead: dead, Parked: b.parked(n)}
	for n == len(b.entries) && q.isAhead(checkpoint.RedeliveryOffset{Seq: d.Cursor + 1}) {
		d.Cursor++
	}
	parks := len(d.Parked) > 0
	err := q.journal.CommitDelivery(ctx, d)
	if errors.Is(err, checkpoint.ErrFenced) {
		// An earlier commit, of all of these events or of the first ones, may have been
		// written although it returned an error.
		now, failed := q.journal.Cursor(ctx, q.o.Name)
		switch {
		case failed != nil:
		case now == d.Cursor:
			err = nil
		case slices.Contains(q.uncertain, now):
			q.cursor, d.Expect = now, now
			d.Parked = slices.DeleteFunc(d.Parked, func(p checkpoint.Parked) bool { return p.Seq <= now })
			err = q.journal.CommitDelivery(ctx, d)
		}
	}
	if err == nil {
		err = q.committed(ctx, checkpoint.RedeliveryOffset{Seq: d.Cursor}, parks)
	}
	switch {
	case err == nil:
		q.cursor, q.uncertain = d.Cursor, nil
	case isFull(err): // nothing was written
	case !slices.Contains(q.uncertain, d.Cursor):
		q.uncertain = append(q.uncertain, d.Cursor)
	}
	return err
}

// isFull reports whether a commit failed because there is no space for its dead letters or
// parked events.
func isFull(err error) bool {
	return errors.Is(err, checkpoint.ErrDeadFull) || errors.Is(err, checkpoint.ErrParkedFull)
}

// redeliveryQueue holds the events that operators asked to deliver again.
type redeliveryQueue struct {
	queueBase
	offset checkpoint.RedeliveryOffset // of the first event; zero: not known
}

// begin only forgets what was sent ahead: next reads the queue's position.
func (q *redeliveryQueue) begin(context.Context) error {
	q.clearAhead()
	return nil
}

func (q *redeliveryQueue) next(ctx context.Context) (*deliveryBatch, error) {
	for {
		if err := q.journal.WaitRedelivery(ctx, q.o.Name); err != nil {
			return nil, err
		}
		next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.RedeliveryOffset{}, q.o.Batch)
		if err != nil {
			return nil, err
		}
		if len(next.Records) == 0 {
			continue // trimmed in the meantime
		}
		q.offset = next.Offset
		return q.batch(next.Records), nil
	}
}

func (q *redeliveryQueue) behind(ctx context.Context, after checkpoint.Parked, max checkpoint.Batch) (*deliveryBatch, error) {
	next, err := q.journal.Redeliver(ctx, q.o.Name, after.Offset, max)
	return q.batch(next.Records), err
}

func (q *redeliveryQueue) batch(records []checkpoint.Redelivered) *deliveryBatch {
	b := newDeliveryBatch(len(records))
	for _, r := range records {
		q.add(b, checkpoint.Parked{Redelivered: r})
	}
	return b
}

// first returns the offset of the first event; zero if there is none.
func (q *redeliveryQueue) first(ctx context.Context) (checkpoint.RedeliveryOffset, error) {
	next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.RedeliveryOffset{}, checkpoint.Batch{MaxEvents: 1})
	return next.Offset, err
}

func (q *redeliveryQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) (err error) {
	if q.offset == (checkpoint.RedeliveryOffset{}) {
		if q.offset, err = q.first(ctx); err != nil {
			return err
		}
	}
	c := checkpoint.RedeliveryCommit{
		Sink: q.o.Name, Expect: q.offset, Last: b.entries[n-1].record.Offset, Events: b.recordCount(n), Dead: dead, Parked: b.parked(n),
	}
	err = q.journal.CommitRedelivery(ctx, c)
	if errors.Is(err, checkpoint.ErrFenced) {
		// An earlier commit may have been written although it returned an error.
		first, failed := q.first(ctx)
		if failed == nil && (first == checkpoint.RedeliveryOffset{} || first.IsAfter(c.Last)) {
			err = nil
		}
	}
	if err == nil {
		err = q.committed(ctx, c.Last, len(c.Parked) > 0)
	}
	if err == nil {
		q.offset = checkpoint.RedeliveryOffset{}
	}
	return err
}

// parkedQueue holds the events that the sink has parked. Those that are not delivered stay in
// it, and next returns them again later.
type parkedQueue struct{ queueBase }

func (q *parkedQueue) begin(ctx context.Context) error { return q.parked.load(ctx, true) }

func (q *parkedQueue) next(ctx context.Context) (*deliveryBatch, error) {
	for {
		numbers, up, wait, changed := q.parked.due(time.Now(), q.o.Batch.MaxEvents)
		if len(numbers) == 0 {
			if err := waitFor(ctx, wait, changed); err != nil {
				return nil, err
			}
			continue
		}
		records, err := q.journal.Parked(ctx, q.o.Name, numbers, q.o.Batch)
		if err != nil {
			return nil, err
		}
		if len(records) == 0 { // they were forgotten with the sink
			q.parked.remove(numbers)
			continue
		}
		b := &deliveryBatch{up: up}
		for _, r := range records {
			q.parked.confirm(&r.ParkedHead, time.Now())
			q.preparer.add(b, r)
		}
		return b, nil
	}
}

// waitFor blocks for a time (negative: without limit), until changed is closed or until ctx is
// done, which is the only error.
func waitFor(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	var timer <-chan time.Time
	if d >= 0 {
		timer = time.After(d)
	}
	select {
	case <-timer:
	case <-changed:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (q *parkedQueue) behind(context.Context, checkpoint.Parked, checkpoint.Batch) (*deliveryBatch, error) {
	return new(deliveryBatch), nil // next returns the others
}

func (q *parkedQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error {
	c := checkpoint.ParkedCommit{Sink: q.o.Name, Dead: dead}
	for i := range n {
		switch e := &b.entries[i]; {
		case !e.state.isParked():
			c.Done = append(c.Done, e.record.Number)
		case !q.parked.isStored(e.record.ParkedHead):
			c.Failed = append(c.Failed, e.record.ParkedHead)
		}
	}
	if len(c.Done) > 0 || len(c.Failed) > 0 {
		if err := q.journal.CommitParked(ctx, c); err != nil {
			return err
		}
	}
	q.parked.remove(c.Done)
	q.parked.postpone(b.entries[:n], time.Now())
	return nil
}
