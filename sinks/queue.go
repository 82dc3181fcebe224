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
	journal Journal
	o       *Options
	intake  intake
	cursor  uint64
	tried   uint64 // what the cursor may be, too: whether it was moved there is not known; 0: it was not tried
	lag     lagPolicy
}

func newJournalQueue(journal Journal, o *Options, t intake) *journalQueue {
	return &journalQueue{journal: journal, o: o, intake: t, lag: lagPolicy{journal: journal, sink: o.Name, Lag: o.Lag}}
}

func (q *journalQueue) begin(ctx context.Context) (err error) {
	q.cursor, err = q.journal.Cursor(ctx, q.o.Name)
	q.tried = 0
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
	for _, r := range records {
		q.intake.add(b, checkpoint.Redelivered{Record: r, Key: checkpoint.DeadKey(r.Seq)})
	}
	return err
}

func (q *journalQueue) extend(ctx context.Context, b *batch) error {
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

func (q *journalQueue) wait(ctx context.Context, b *batch) {
	_ = q.journal.Wait(ctx, b.last().Seq) // its end is no failure
}

func (q *journalQueue) settle(ctx context.Context, b *batch, n int, letters []checkpoint.DeadLetter) error {
	s := checkpoint.Settlement{Sink: q.o.Name, Expect: q.cursor, Cursor: b.records[n-1].Seq, Dead: letters}
	err := q.journal.Settle(ctx, s)
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
			err = q.journal.Settle(ctx, s)
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

func (q *journalQueue) skip(ctx context.Context, settle func() error) (bool, error) {
	return q.lag.apply(ctx, time.Now(), settle)
}

// redeliveryQueue is what operators asked to be delivered again.
type redeliveryQueue struct {
	journal Journal
	o       *Options
	intake  intake
	place   checkpoint.Place // where it begins; zero: to be read
}

// begin has nothing to do: next reads where the queue stands.
func (q *redeliveryQueue) begin(context.Context) error { return nil }

func (q *redeliveryQueue) next(ctx context.Context) (*batch, error) {
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
		b := new(batch)
		q.place = next.Place
		q.add(b, next.Records)
		return b, nil
	}
}

func (q *redeliveryQueue) add(b *batch, records []checkpoint.Redelivered) {
	for _, r := range records {
		q.intake.add(b, r)
	}
}

func (q *redeliveryQueue) extend(ctx context.Context, b *batch) error {
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
	last := b.last().Place
	for i, r := range next.Records {
		if behind(r.Place, last) {
			q.add(b, next.Records[i:])
			break
		}
	}
	return nil
}

// behind says whether a place lies behind another.
func behind(p, other checkpoint.Place) bool {
	return p.Item > other.Item || p.Item == other.Item && p.Seq > other.Seq
}

// wait waits for ctx alone: what is queued meanwhile is found by the next
// attempt.
func (q *redeliveryQueue) wait(ctx context.Context, _ *batch) { <-ctx.Done() }

func (q *redeliveryQueue) settle(ctx context.Context, b *batch, n int, letters []checkpoint.DeadLetter) error {
	if q.place == (checkpoint.Place{}) {
		next, err := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if err != nil {
			return err
		}
		q.place = next.Place
	}
	s := checkpoint.RedeliverySettlement{Sink: q.o.Name, Expect: q.place, Last: b.records[n-1].Place, Events: b.stands(n), Dead: letters}
	err := q.journal.SettleRedelivery(ctx, s)
	if errors.Is(err, checkpoint.ErrFenced) {
		// It may be that an attempt before this one failed when it was done.
		next, failed := q.journal.Redeliver(ctx, q.o.Name, checkpoint.Batch{MaxEvents: 1})
		if failed == nil && (next.Place == checkpoint.Place{} || behind(next.Place, s.Last)) {
			err = nil
		}
	}
	if err == nil {
		q.place = checkpoint.Place{}
	}
	return err
}

// skip skips nothing: no lag policy rules what an operator asked for.
func (q *redeliveryQueue) skip(context.Context, func() error) (bool, error) { return false, nil }

// last is the batch's last record.
func (b *batch) last() checkpoint.Redelivered { return b.records[len(b.records)-1] }

// intake says what of the events a sink is sent.
type intake struct {
	matcher *matcher                                       // nil: all match
	prepare func(transform.Event) (transform.Event, error) // nil: all of it
}

// add adds a record to a batch, as it is sent, or as settled where the sink does
// not want it. A dead letter is sent whatever the sink wants by now: that it was
// requeued says so, and it would be gone otherwise.
func (t intake) add(b *batch, r checkpoint.Redelivered) {
	again := r.Place.Item
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
