package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// journalQueue is the journal behind the sink's cursor.
type journalQueue struct {
	journal  Journal
	o        *Options
	preparer preparer
	cursor   uint64
	tried    uint64 // what the cursor may be, too: whether it was moved there is not known; 0: it was not tried
	lag      lagPolicy
}

func newJournalQueue(journal Journal, o *Options, t preparer) *journalQueue {
	return &journalQueue{journal: journal, o: o, preparer: t, lag: lagPolicy{journal: journal, sink: o.Name, Lag: o.Lag}}
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	q.tried = 0
	return err
}

func (q *journalQueue) next(ctx context.Context) (*deliveryBatch, error) {
	if err := q.journal.Wait(ctx, q.cursor); err != nil {
		return nil, err
	}
	if q.o.Linger > 0 && q.o.Batch.MaxEvents > 1 {
		full, cancel := context.WithTimeout(ctx, q.o.Linger)
		_ = q.journal.Wait(full, q.cursor+uint64(q.o.Batch.MaxEvents)-1) // its end is no failure
		cancel()
	}
	b := new(deliveryBatch)
	return b, q.read(ctx, b, q.cursor, q.o.Batch)
}

func (q *journalQueue) read(ctx context.Context, b *deliveryBatch, after uint64, max checkpoint.Batch) error {
	records, err := q.journal.Read(ctx, after, max)
	for _, r := range records {
		q.preparer.add(b, checkpoint.Redelivered{Record: r, Key: checkpoint.DeadKey(r.Seq)})
	}
	return err
}

func (q *journalQueue) extend(ctx context.Context, b *deliveryBatch) error {
	more := q.o.Batch
	more.MaxEvents = neighbours(more)
	return q.read(ctx, b, b.last().Seq, more)
}

// maxNeighbours is how many events are added to a batch at once: so few that a small
// journal that is full has enough for every attempt that a bad event gets, and that
// little is acknowledged behind the cursor, which a kill would repeat.
const maxNeighbours = 25

func neighbours(b checkpoint.Batch) int {
	if b.MaxEvents <= 0 {
		return maxNeighbours
	}
	return min(b.MaxEvents, maxNeighbours)
}

func (q *journalQueue) wait(ctx context.Context, b *deliveryBatch) {
	_ = q.journal.Wait(ctx, b.last().Seq) // its end is no failure
}

func (q *journalQueue) commit(ctx context.Context, b *deliveryBatch, n int, deadLetters []checkpoint.DeadLetter) error {
	s := checkpoint.Delivery{Sink: q.o.Name, Expect: q.cursor, Cursor: b.records[n-1].Seq, Dead: deadLetters}
	err := q.journal.CommitDelivery(ctx, s)
	if errors.Is(err, checkpoint.ErrFenced) {
		// It may be that an attempt before this one failed when it was done, of all of
		// this or of a part.
		now, failed := q.journal.Cursor(ctx, q.o.Name)
		switch {
		case failed != nil:
		case now == s.Cursor:
			err = nil
		case now == q.tried:
			q.cursor, s.Expect = now, now
			err = q.journal.CommitDelivery(ctx, s)
		}
	}
	switch {
	case err == nil:
		q.cursor, q.tried = s.Cursor, 0
	case !errors.Is(err, checkpoint.ErrDeadFull): // which says that nothing was written
		q.tried = s.Cursor
	}
	return err
}

func (q *journalQueue) skip(ctx context.Context, commit func() error) (bool, error) {
	return q.lag.apply(ctx, time.Now(), commit)
}

// redeliveryQueue is what operators asked to be delivered again.
type redeliveryQueue struct {
	journal  Journal
	o        *Options
	preparer preparer
	offset   checkpoint.RedeliveryOffset // where it begins; zero: to be read
}

// begin has nothing to do: next reads where the queue stands.
func (q *redeliveryQueue) begin(context.Context) error { return nil }

func (q *redeliveryQueue) next(ctx context.Context) (*deliveryBatch, error) {
	for {
		if err := q.journal.WaitRedelivery(ctx, q.o.Name); err != nil {
			return nil, err
		}
		next, err := q.journal.Redeliver(ctx, q.o.Name, q.o.Batch)
		if err != nil {
			return nil, err
		}
		if len(next.Records) == 0 {
			continue // trimmed in the meantime
		}
		b := new(deliveryBatch)
		q.offset = next.Offset
		q.add(b, next.Records)
		return b, nil
	}
}

func (q *redeliveryQueue) add(b *deliveryBatch, records []checkpoint.Redelivered) {
	for _, r := range records {
		q.preparer.add(b, r)
	}
}

func (q *redeliveryQueue) extend(ctx context.Context, b *deliveryBatch) error {
	// The queue is read from its beginning.
	more := checkpoint.Batch{MaxEvents: b.stands(len(b.records)) + neighbours(q.o.Batch), MaxBytes: q.o.Batch.MaxBytes}
	if more.MaxBytes > 0 {
		for _, size := range b.sizes {
			more.MaxBytes += size
		}
	}
	next, err := q.journal.Redeliver(ctx, q.o.Name, more)
	if err != nil {
		return err
	}
	last := b.last().Offset
	for i, r := range next.Records {
		if behind(r.Offset, last) {
			q.add(b, next.Records[i:])
			break
		}
	}
	return nil
}

// behind reports whether a place lies behind another.
func behind(p, other checkpoint.RedeliveryOffset) bool {
	return p.Item > other.Item || p.Item == other.Item && p.Seq > other.Seq
}

// wait waits for ctx alone: what is queued meanwhile is found by the next
// attempt.
func (q *redeliveryQueue) wait(ctx context.Context, _ *deliveryBatch) { <-ctx.Done() }

func (q *redeliveryQueue) commit(ctx context.Context, b *deliveryBatch, n int, deadLetters []checkpoint.DeadLetter) error {
	if q.offset == (checkpoint.RedeliveryOffset{}) {
		next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if err != nil {
			return err
		}
		q.offset = next.Offset
	}
	s := checkpoint.RedeliveryCommit{Sink: q.o.Name, Expect: q.offset, Last: b.records[n-1].Offset, Events: b.stands(n), Dead: deadLetters}
	err := q.journal.CommitRedelivery(ctx, s)
	if errors.Is(err, checkpoint.ErrFenced) {
		// It may be that an attempt before this one failed when it was done.
		next, failed := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if failed == nil && (next.Offset == checkpoint.RedeliveryOffset{} || behind(next.Offset, s.Last)) {
			err = nil
		}
	}
	if err == nil {
		q.offset = checkpoint.RedeliveryOffset{}
	}
	return err
}

// skip skips nothing: no lag policy rules what an operator asked for.
func (q *redeliveryQueue) skip(context.Context, func() error) (bool, error) { return false, nil }

// last is the batch's last record.
func (b *deliveryBatch) last() checkpoint.Redelivered { return b.records[len(b.records)-1] }

// preparer says what of the events a sink is sent.
type preparer struct {
	matcher *matcher                                       // nil: all match
	prepare func(transform.Event) (transform.Event, error) // nil: all of it
}

// add adds a record to a batch, as it is sent, or as settled where the sink does
// not want it. A dead letter is sent whatever the sink wants by now: that it was
// requeued says so, and it would be gone otherwise.
func (t preparer) add(b *deliveryBatch, r checkpoint.Redelivered) {
	again := r.Offset.Item
	if requeued := r.Seq == 0; t.matcher != nil && !requeued {
		asked := r.Event
		if again != 0 {
			asked = asked.Redeliver(again)
		}
		switch matches, err := t.matcher.matches(asked); {
		case err != nil:
			b.add(r, transform.Event{}, err)
			return
		case !matches:
			b.pass(r)
			return
		}
	}
	event, err := r.Event, error(nil)
	if t.prepare != nil {
		if event, err = t.prepare(event); err != nil {
			err = fmt.Errorf("prepare the event: %w", err)
		}
	}
	if again != 0 && err == nil {
		event = event.Redeliver(again)
	}
	b.add(r, event, err)
}
