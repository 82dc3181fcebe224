package sinks

import (
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
	// setAhead records that an event that behind returned is done.
	setAhead(record checkpoint.Parked)
	// waitForMore blocks until there are events after the sequence number after, or ctx
	// is done.
	waitForMore(ctx context.Context, after uint64)
	// keeps reports whether events that were not delivered stay in the queue, so that it can
	// return them again later, behind others.
	keeps() bool
	// commit removes the first n entries of b from the queue, and stores the dead letters
	// and parked events among them, in one transaction. It returns checkpoint.ErrFenced if
	// the queue's position is not the expected one.
	commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error
}

// journalQueue is the journal after the sink's cursor.
type journalQueue struct {
	journal  Journal
	o        *Options
	preparer *preparer
	parked   *parkedIndex
	cursor   uint64
	// ahead holds the numbers of events behind the cursor that were sent ahead. The scout
	// reads it while the lag policy commits.
	aheadMu sync.Mutex
	ahead   map[uint64]bool
	// uncertain holds the cursors of the failed commits, any of which may have been
	// written nevertheless. All are in the batch in flight.
	uncertain []uint64
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	if err = q.parked.load(ctx, true); err == nil {
		q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	}
	q.uncertain = nil
	q.aheadMu.Lock()
	defer q.aheadMu.Unlock()
	q.ahead = make(map[uint64]bool)
	return err
}

func (q *journalQueue) isAhead(seq uint64) bool {
	q.aheadMu.Lock()
	defer q.aheadMu.Unlock()
	return q.ahead[seq]
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
	b := new(deliveryBatch)
	records, err := q.journal.Read(ctx, after, max)
	held := make(map[string]bool)
	for _, r := range records {
		q.preparer.add(b, checkpoint.Parked{Redelivered: checkpoint.Redelivered{Record: r, Key: checkpoint.DeadKey(r.Seq)}})
		e := &b.entries[len(b.entries)-1]
		switch key := e.record.Order; {
		case q.isAhead(r.Seq):
			e.state = entryDone
		case e.state == entryPending && key != "" && (held[key] || q.parked.holds(key)):
			e.state, held[key] = entryHeld, true // also if it ends to be held now
		}
	}
	return b, err
}

func (q *journalQueue) setAhead(record checkpoint.Parked) {
	q.aheadMu.Lock()
	defer q.aheadMu.Unlock()
	q.ahead[record.Seq] = true
}

// dropAhead forgets the events up to a number.
func (q *journalQueue) dropAhead(upTo uint64) {
	q.aheadMu.Lock()
	defer q.aheadMu.Unlock()
	maps.DeleteFunc(q.ahead, func(seq uint64, _ bool) bool { return seq <= upTo })
}

func (q *journalQueue) waitForMore(ctx context.Context, after uint64) {
	_ = q.journal.Wait(ctx, after) // an error only ends the wait
}

func (q *journalQueue) keeps() bool { return false }

func (q *journalQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error {
	d := checkpoint.Delivery{Sink: q.o.Name, Expect: q.cursor, Cursor: b.entries[n-1].record.Seq, Dead: dead, Parked: b.parked(n)}
	for n == len(b.entries) && q.isAhead(d.Cursor+1) {
		d.Cursor++
	}
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
	if err == nil && len(d.Parked) > 0 {
		err = q.parked.load(ctx, false) // before an event with one of their keys is read
	}
	switch {
	case err == nil:
		q.dropAhead(d.Cursor)
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
	journal  Journal
	o        *Options
	preparer *preparer
	parked   *parkedIndex
	offset   checkpoint.RedeliveryOffset // of the first event; zero: not known
	ahead    map[checkpoint.RedeliveryOffset]bool
}

// begin only forgets what was sent ahead: next reads the queue's position.
func (q *redeliveryQueue) begin(context.Context) error {
	q.ahead = make(map[checkpoint.RedeliveryOffset]bool)
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
	b := new(deliveryBatch)
	held := make(map[string]bool)
	for _, r := range records {
		q.preparer.add(b, checkpoint.Parked{Redelivered: r})
		e := &b.entries[len(b.entries)-1]
		switch key := e.record.Order; {
		case q.ahead[r.Offset]:
			e.state = entryDone
		case e.state == entryPending && key != "" && (held[key] || q.parked.holds(key)):
			e.state, held[key] = entryHeld, true
		}
	}
	return b
}

func (q *redeliveryQueue) setAhead(record checkpoint.Parked) { q.ahead[record.Offset] = true }

// waitForMore only waits for ctx: the next attempt finds what is queued in the
// meantime.
func (q *redeliveryQueue) waitForMore(ctx context.Context, _ uint64) { <-ctx.Done() }

func (q *redeliveryQueue) keeps() bool { return false }

func (q *redeliveryQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error {
	if q.offset == (checkpoint.RedeliveryOffset{}) {
		next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.RedeliveryOffset{}, checkpoint.Batch{MaxEvents: 1})
		if err != nil {
			return err
		}
		q.offset = next.Offset
	}
	c := checkpoint.RedeliveryCommit{
		Sink: q.o.Name, Expect: q.offset, Last: b.entries[n-1].record.Offset, Events: b.recordCount(n), Dead: dead, Parked: b.parked(n),
	}
	err := q.journal.CommitRedelivery(ctx, c)
	if errors.Is(err, checkpoint.ErrFenced) {
		// An earlier commit may have been written although it returned an error.
		next, failed := q.journal.Redeliver(ctx, q.o.Name, checkpoint.RedeliveryOffset{}, checkpoint.Batch{MaxEvents: 1})
		if failed == nil && (next.Offset == checkpoint.RedeliveryOffset{} || next.Offset.IsAfter(c.Last)) {
			err = nil
		}
	}
	if err == nil && len(c.Parked) > 0 {
		err = q.parked.load(ctx, false)
	}
	if err == nil {
		q.offset = checkpoint.RedeliveryOffset{}
		for offset := range q.ahead {
			if !offset.IsAfter(c.Last) {
				delete(q.ahead, offset)
			}
		}
	}
	return err
}

// parkedQueue holds the events that the sink has parked.
type parkedQueue struct {
	journal  Journal
	o        *Options
	preparer *preparer
	parked   *parkedIndex
}

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
			q.parked.confirm(&r, time.Now())
			q.preparer.add(b, r)
		}
		return b, nil
	}
}

// waitFor blocks for a time (negative: for ever), until changed is closed or until ctx is
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

func (q *parkedQueue) setAhead(checkpoint.Parked) {}

func (q *parkedQueue) waitForMore(ctx context.Context, _ uint64) { <-ctx.Done() }

func (q *parkedQueue) keeps() bool { return true }

func (q *parkedQueue) commit(ctx context.Context, b *deliveryBatch, n int, dead []checkpoint.DeadLetter) error {
	c := checkpoint.ParkedCommit{Sink: q.o.Name, Dead: dead}
	for i := range n {
		switch e := &b.entries[i]; {
		case !e.state.isParked():
			c.Done = append(c.Done, e.record.Number)
		case !q.parked.isStored(e.record):
			c.Failed = append(c.Failed, e.record)
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
