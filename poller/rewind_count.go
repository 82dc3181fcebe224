package poller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
)

// Reread counts the objects that a stream would read again after a rewind: those that the
// appliance shows from the rewind's time on, as far as the stream has read.
type Reread struct {
	Objects int64
	// AtLeast is true if there may be more.
	AtLeast bool
}

// maxReread bounds the objects that are counted one by one.
const maxReread = 10_000

// RereadDetections counts what Rewind to a time would make a source of detections read
// again. It changes nothing, and can run while the source does. If the appliance cannot be
// asked, it returns an error and the number of detections that are known to have changed
// since. It returns ErrNoPosition if the stream was never read.
func RereadDetections(ctx context.Context, client DetectionsClient, store Store, o DetectionsOptions, to time.Time) (Reread, error) {
	d := NewDetections(client, store, o)
	position, err := committedPosition(ctx, &d.stream, parseDetectionsPosition)
	if err != nil {
		return Reread{}, err
	}
	from := max(to.UnixMilli(), 1)
	if from > position.ModTime {
		return Reread{}, nil
	}
	shown := make(map[int64]struct{}) // ids
	for w, done := newWalk(from-1), false; !done && len(shown) < maxReread; {
		var rows []object
		err := untilAnswered(ctx, func() (err error) {
			rows, _, err = d.fetch(ctx, w)
			return err
		})
		joined := false
		if err == nil {
			joined, done, err = w.step(keysOf(rows), len(rows) == 0)
		}
		if err != nil {
			known, knownErr := d.knownSince(context.WithoutCancel(ctx), from) // the time for requests may have ended
			return known, errors.Join(fmt.Errorf("count what %s would read again: %w", d.source, err), knownErr)
		}
		for _, row := range rows {
			if joined && row.modTime >= from { // also the newest, which the position may not cover yet
				shown[row.id] = struct{}{}
			}
		}
		// The rest is read without a rewind, and may change as fast as it is counted.
		done = done || w.bound >= position.ModTime
	}
	return Reread{Objects: int64(len(shown)), AtLeast: len(shown) >= maxReread}, nil
}

// knownSince counts the detections that are known in a version of a time or a later one.
func (d *Detections) knownSince(ctx context.Context, from int64) (known Reread, err error) {
	const chunk = 1000
	for after := (checkpoint.Entry{At: from}); known.Objects < maxReread; {
		entries, err := d.store.Known(ctx, d.source, after, chunk)
		if err != nil {
			return known, fmt.Errorf("list what is known of %s: %w", d.source, err)
		}
		known.Objects += int64(len(entries))
		if len(entries) < chunk {
			return known, nil
		}
		last := entries[len(entries)-1]
		after = checkpoint.Entry{Key: last.Key, At: last.At}
	}
	known.AtLeast = true
	return known, nil
}

// RereadAudit counts what Rewind to a time would make a source of an audit log read again.
// It changes nothing, and can run while the source does. It returns ErrNoPosition if the
// stream was never read.
func RereadAudit(ctx context.Context, client AuditClient, store Store, o AuditOptions, to time.Time) (n Reread, err error) {
	a := NewAudit(client, store, o)
	p, err := committedPosition(ctx, &a.stream, parsePosition[auditPosition])
	from := max(to.UnixMilli(), 1)
	if err != nil || p.Last == nil || p.Last.Time > 0 && p.Last.Time < from {
		return Reread{}, err
	}
	take := func(_ *auditPage, rows []auditRow, _ time.Time) (done bool, err error) {
		for _, row := range rows {
			if row.positioned && row.entry.ID > p.Last.ID {
				return true, nil
			}
			n.Objects++
		}
		n.AtLeast = n.Objects >= maxReread
		return n.AtLeast, nil
	}
	if err := a.readSince(ctx, p.Offset, from, take); err != nil {
		return Reread{}, fmt.Errorf("count what %s would read again: %w", a.source, err)
	}
	return n, nil
}

// errNoTotal means that a record store does not count what a search finds.
var errNoTotal = errors.New("the record store does not return how many records a search finds")

// RereadRecords returns how many records Rewind to a time would make a source read again,
// by a single search. It changes nothing, and can run while the source does. It returns
// ErrNoPosition if the stream was never read.
func RereadRecords(ctx context.Context, client RecordsClient, store Store, o RecordsOptions, to time.Time) (Reread, error) {
	r := NewRecords(client, store, o)
	p, err := committedPosition(ctx, &r.stream, parsePosition[recordsPosition])
	from := max(to.UnixMilli(), 1)
	if err != nil || from >= p.Until {
		return Reread{}, err
	}
	// Whether a bound is part of a window is not known, so one millisecond more counts.
	err = r.request(ctx, appliance.RecordSearch{From: max(1, from-1), Until: p.Until, Types: r.o.Types, Filter: r.o.Filter, Limit: 1})
	if err == nil && r.page.Total < 0 {
		err = errNoTotal
	}
	if err != nil {
		return Reread{}, fmt.Errorf("count what %s would read again: %w", r.source, err)
	}
	return Reread{Objects: r.page.Total, AtLeast: r.page.TerminatedEarly}, nil
}
