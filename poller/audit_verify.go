package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/transform"
)

// VerifyAudit compares, by id and second, every entry that the audit log shows since a
// time with what is remembered of it. It changes nothing, and can run while the source
// does. It ends with what had been logged when it began, because an appliance may log as
// fast as it is read. It returns ErrNoPosition if the stream was never read.
func VerifyAudit(ctx context.Context, client AuditClient, store Store, o AuditOptions, since time.Time, report VerifyReport) (Verification, error) {
	a := NewAudit(client, store, o)
	a.pages.polls = unreadableAfter // entries that the source has given up must not end this
	p, err := committedPosition(ctx, &a.stream, parsePosition[auditPosition])
	if err != nil {
		return Verification{}, err
	}
	// The start is a time in whole seconds: it is no longer known which entries of that
	// second came after it.
	from := max(since.UnixMilli(), 1)
	if p.Start > 0 {
		from = max(from, p.Start+time.Second.Milliseconds())
	}
	v := newVerification(a.source.Stream, from, report)
	var suspects []auditRow
	take := func(page *auditPage, rows []auditRow, began time.Time) (done bool, err error) {
		differ, err := a.compare(ctx, v, rows)
		if err != nil {
			return false, err
		}
		suspects = append(suspects, differ...)
		newest := &page.rows[len(page.rows)-1]
		report.Progress(v.Stream, v.Compared, time.UnixMilli(newest.entry.Time))
		// What was logged since it began is compared only if the source had read it.
		later := !began.IsZero() && newest.entry.Time >= began.UnixMilli()+clockResolution
		isRead := p.Last != nil && newest.entry.ID <= p.Last.ID
		return newest.positioned && later && !isRead, nil
	}
	if err := a.readSince(ctx, p.Offset, from, take); err != nil {
		return v.Verification, fmt.Errorf("verify %s: %w", a.source, err)
	}
	err = a.explain(ctx, v, suspects)
	return v.Verification, err
}

// compare counts the rows, and returns those that are not remembered.
func (a *Audit) compare(ctx context.Context, v *verification, rows []auditRow) (differ []auditRow, err error) {
	if _, err := a.recall(ctx, rows); err != nil {
		return nil, err
	}
	for i := range rows {
		r := &rows[i]
		v.Compared++
		switch {
		case !r.known:
			differ = append(differ, auditRow{entry: transform.AuditEntry{ID: r.entry.ID, Time: r.entry.Time}, positioned: r.positioned, key: r.key})
		case r.err != nil:
			v.found(diffDead, r.key, r.entry.Time, 0)
		default:
			v.Same++
		}
	}
	return differ, nil
}

// explain reports which of the rows are still not remembered, and whether they are still
// to be read.
func (a *Audit) explain(ctx context.Context, v *verification, rows []auditRow) error {
	if _, err := a.recall(ctx, rows); err != nil {
		return err
	}
	p, err := committedPosition(ctx, &a.stream, parsePosition[auditPosition])
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		id := fmt.Sprint(r.entry.ID)
		switch {
		case r.known:
			v.Same++
		case p.Last == nil || r.entry.ID > p.Last.ID:
			v.found(diffPending, id, r.entry.Time, 0)
		default:
			v.found(DiffMissing, id, r.entry.Time, 0)
		}
	}
	return nil
}
