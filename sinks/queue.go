package sinks

import (
	"context"

	"ndrbridge/checkpoint"
)

// journalQueue is the journal behind the sink's cursor.
type journalQueue struct {
	journal checkpoint.Journal
	o       *Options
	cursor  uint64
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	return err
}

func (q *journalQueue) next(ctx context.Context) (*batch, error) {
	if err := q.journal.Wait(ctx, q.cursor); err != nil {
		return nil, err
	}
	if q.o.Linger > 0 && q.o.Batch.MaxEvents > 1 {
		full, cancel := context.WithTimeout(ctx, q.o.Linger)
		_ = q.journal.Wait(full, q.cursor+uint64(q.o.Batch.MaxEvents)-1) // its end is no failure
		cancel()
	}
	b := new(batch)
	return b, q.read(ctx, b, q.cursor, q.o.Batch)
}

func (q *journalQueue) read(ctx context.Context, b *batch, after uint64, max checkpoint.Batch) error {
	records, err := q.journal.Read(ctx, after, max)
	if err == nil {
		b.add(records, q.o.Prepare)
	}
	return err
}

func (q *journalQueue) extend(ctx context.Context, b *batch) error {
	if most := q.o.Batch.MaxEvents; most > 0 && len(b.pending()) > most {
		return nil
	}
	more := q.o.Batch
	more.MaxEvents = max(more.MaxEvents, 1) // no bound would be the whole of a backlog
	return q.read(ctx, b, b.last(), more)
}

func (q *journalQueue) wait(ctx context.Context, b *batch) {
	_ = q.journal.Wait(ctx, b.last()) // its end is no failure
}

// last is the number of the batch's last record.
func (b *batch) last() uint64 { return b.records[len(b.records)-1].Seq }

func (q *journalQueue) settle(ctx context.Context, b *batch, n int, letters []checkpoint.DeadLetter) error {
	s := checkpoint.Settlement{Sink: q.o.Name, Expect: q.cursor, Cursor: b.records[n-1].Seq, Dead: letters}
	if err := q.journal.Settle(ctx, s); err != nil {
		return err
	}
	q.cursor = s.Cursor
	return nil
}
