package poller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// journalReader reads the journal. *checkpoint.Store implements it.
type journalReader interface {
	Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error)
	Stats(ctx context.Context) (checkpoint.Stats, error)
}

// VerifyRecords compares, by id, every record that the appliance shows since a time, and
// up to where the stream was read, with the contents of the journal. Trimmed events cannot
// be compared, so it begins no earlier than the journal does. It changes nothing, and can
// run while the source does. It returns ErrNoPosition if the stream was never read.
func VerifyRecords(ctx context.Context, client RecordsClient, store Store, journal journalReader, o RecordsOptions, since time.Time, report VerifyReport) (Verification, error) {
	r := NewRecords(client, store, o)
	p, err := committedPosition(ctx, &r.stream, parsePosition[recordsPosition])
	if err != nil {
		return Verification{}, err
	}
	journalled, whole, err := r.journalled(ctx, journal, p.Until)
	if err != nil {
		return Verification{}, err
	}
	from := max(since.UnixMilli(), p.Start, whole, 1)
	v := newVerification(r.source.Stream, from, report)
	seen := make(map[uint64]struct{}) // in this window and the last, which overlap
	for at := from; at < p.Until; {
		window := recordList{From: max(1, at-1), Until: min(at+r.size.span, p.Until)}
		fits, err := r.verifyWindow(ctx, v, p, window, journalled, seen)
		if err != nil {
			return v.Verification, fmt.Errorf("verify %s: %w", r.source, err)
		}
		if !fits {
			r.size.span /= 2
			continue
		}
		report.Progress(v.Stream, v.Compared, time.UnixMilli(window.Until))
		at = window.Until
		if len(seen) <= r.size.most/4 {
			r.size.span = min(2*r.size.span, maxSpan.Milliseconds())
		}
	}
	return v.Verification, nil
}

// journalled returns the hashes of the stream's records in the journal, and the time from
// which on the journal holds all of them: until, if it holds none.
func (r *Records) journalled(ctx context.Context, journal journalReader, until int64) (hashes map[uint64]struct{}, whole int64, err error) {
	stats, err := journal.Stats(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("read the journal: %w", err)
	}
	if stats.First > 1 { // the beginning was trimmed
		whole = until
	}
	hashes = make(map[uint64]struct{})
	source := "ndrbridge://" + r.o.Appliance + "/" + r.source.Stream
	for after := stats.First - 1; ; {
		const chunk = 4 << 20
		records, err := journal.Read(ctx, after, checkpoint.Batch{MaxBytes: chunk})
		if err != nil {
			return nil, 0, fmt.Errorf("read the journal: %w", err)
		}
		if len(records) == 0 {
			return hashes, whole, nil
		}
		for _, record := range records {
			after = record.Seq
			if record.Event.Source != source {
				continue
			}
			if len(hashes) == 0 && stats.First > 1 {
				// It may have been stored late: records that were read before it, and
				// trimmed, may be younger by as much.
				late := max(r.o.Recheck, r.o.Delay) + r.o.Window
				whole = min(until, record.Event.Time.Add(late).UnixMilli())
			}
			hashes[hashOf(record.Event.ID)] = struct{}{}
		}
	}
}

// errRecordsRepeat ends a comparison that would never end.
var errRecordsRepeat = errors.New("the record store returns the same records at several offsets: it ignores offset")

// verifyWindow compares the records of a window by offset. fits is false if the window has
// too many records.
func (r *Records) verifyWindow(ctx context.Context, v *verification, p recordsPosition, window recordList, journalled, seen map[uint64]struct{}) (fits bool, err error) {
	var found []recordRow
	shown := make(map[uint64]struct{})
	for repeated := 0; ; {
		page, err := r.search(ctx, window, len(found), 0)
		if errors.Is(err, errOffset) && r.size.span > 1 {
			r.size.most = max(1, min(r.size.most, len(found)))
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if (page.total > int64(r.size.most) || len(found) > r.size.most) && r.size.span > 1 {
			return false, nil
		}
		before := len(shown)
		for _, row := range page.rows {
			shown[row.hash] = struct{}{}
			found = append(found, recordRow{hash: row.hash, key: row.key, err: row.err, record: transform.Record{Time: row.record.Time}})
		}
		if len(page.rows) == 0 || page.total >= 0 && int64(len(found)) >= page.total {
			break
		}
		if len(found) > maxUndivided {
			return false, errEndlessWindow
		}
		const several = 3 // records stored meanwhile can repeat a page
		if repeated++; len(shown) > before {
			repeated = 0
		} else if repeated >= several {
			return false, errRecordsRepeat
		}
	}
	for _, row := range found {
		if _, again := seen[row.hash]; again {
			continue
		}
		seen[row.hash] = struct{}{}
		v.Compared++
		_, there := journalled[row.hash]
		switch {
		case there:
			v.Same++
		case row.err != nil:
			v.found(diffDead, row.key, row.record.Time, 0)
		case p.awaitsRecheck(row.record.Time):
			v.found(diffPending, row.key, row.record.Time, 0)
		default:
			v.found(DiffMissing, row.key, row.record.Time, 0)
		}
	}
	clear(seen)
	maps.Copy(seen, shown)
	return true, nil
}

// awaitsRecheck reports whether the window of a time is still to be checked again.
func (p recordsPosition) awaitsRecheck(at int64) bool {
	return slices.ContainsFunc(p.Lists, func(l recordList) bool { return l.Due > 0 && l.From <= at && at <= l.Until })
}
