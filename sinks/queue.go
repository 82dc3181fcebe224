package sinks

import (
	"context"
	"errors"
	"slices"

	"ndrbridge/checkpoint"
)

// journalQueue is the journal after the sink's cursor.
type journalQueue struct {
	journal  Journal
	o        *Options
	preparer *preparer
	cursor   uint64
	// uncertain holds the cursors of the failed commits, any of which may have been
	// written nevertheless. All are in the batch in flight.
	uncertain []uint64
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	q.uncertain = nil
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
	b := new(deliveryBatch)
	return b, q.read(ctx, b, q.cursor, q.o.Batch)
}

// read appends the records after the number after to b, as many as max allows.
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

// maxNeighbours is the largest number of events by which a batch is extended at
// once. It is small, so that a small, full journal has enough events for all
// passes that a bad event gets, and few events are acknowledged ahead of the
// cursor, which a crash would repeat.
const maxNeighbours = 25

// neighbours returns the number of events by which a batch is extended at once.
func neighbours(b checkpoint.Batch) int {
	if b.MaxEvents <= 0 {
		return maxNeighbours
	}
	return min(b.MaxEvents, maxNeighbours)
}

func (q *journalQueue) waitForMore(ctx context.Context, after uint64) {
	_ = q.journal.Wait(ctx, after) // an error only ends the wait
}

func (q *journalQueue) commit(ctx context.Context, b *deliveryBatch, n int, deadLetters []checkpoint.DeadLetter) error {
	s := checkpoint.Delivery{Sink: q.o.Name, Expect: q.cursor, Cursor: b.entries[n-1].record.Seq, Dead: deadLetters}
	err := q.journal.CommitDelivery(ctx, s)
	if errors.Is(err, checkpoint.ErrFenced) {
		// An earlier commit, of all of these events or of the first ones, may have been
		// written although it returned an error.
		now, failed := q.journal.Cursor(ctx, q.o.Name)
		switch {
		case failed != nil:
		case now == s.Cursor:
			err = nil
		case slices.Contains(q.uncertain, now):
			q.cursor, s.Expect = now, now
			err = q.journal.CommitDelivery(ctx, s)
		}
	}
	switch {
	case err == nil:
		q.cursor, q.uncertain = s.Cursor, nil
	case !errors.Is(err, checkpoint.ErrDeadFull) && !slices.Contains(q.uncertain, s.Cursor): // with ErrDeadFull nothing was written
		q.uncertain = append(q.uncertain, s.Cursor)
	}
	return err
}

// redeliveryQueue holds the events that operators asked to deliver again.
type redeliveryQueue struct {
	journal  Journal
	o        *Options
	preparer *preparer
	offset   checkpoint.RedeliveryOffset // of the first event; zero: not known
}

// begin does nothing: next reads the queue's position.
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
	// The queue can only be read from its beginning.
	more := checkpoint.Batch{MaxEvents: b.recordCount(len(b.entries)) + neighbours(q.o.Batch), MaxBytes: q.o.Batch.MaxBytes}
	if more.MaxBytes > 0 {
		for _, e := range b.entries {
			more.MaxBytes += e.size
		}
	}
	next, err := q.journal.Redeliver(ctx, q.o.Name, more)
	if err != nil {
		return err
	}
	last := b.last().Offset
	for i, r := range next.Records {
		if isAfter(r.Offset, last) {
			q.add(b, next.Records[i:])
			break
		}
	}
	return nil
}

// isAfter reports whether offset comes after other.
func isAfter(offset, other checkpoint.RedeliveryOffset) bool {
	return offset.Item > other.Item || offset.Item == other.Item && offset.Seq > other.Seq
}

// waitForMore only waits for ctx: the next attempt finds what is queued in the
// meantime.
func (q *redeliveryQueue) waitForMore(ctx context.Context, _ uint64) { <-ctx.Done() }

func (q *redeliveryQueue) commit(ctx context.Context, b *deliveryBatch, n int, deadLetters []checkpoint.DeadLetter) error {
	if q.offset == (checkpoint.RedeliveryOffset{}) {
		next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if err != nil {
			return err
		}
		q.offset = next.Offset
	}
	s := checkpoint.RedeliveryCommit{Sink: q.o.Name, Expect: q.offset, Last: b.entries[n-1].record.Offset, Events: b.recordCount(n), Dead: deadLetters}
	err := q.journal.CommitRedelivery(ctx, s)
	if errors.Is(err, checkpoint.ErrFenced) {
		// An earlier commit may have been written although it returned an error.
		next, failed := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if failed == nil && (next.Offset == checkpoint.RedeliveryOffset{} || isAfter(next.Offset, s.Last)) {
			err = nil
		}
	}
	if err == nil {
		q.offset = checkpoint.RedeliveryOffset{}
	}
	return err
}
