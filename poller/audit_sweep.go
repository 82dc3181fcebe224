package poller

import (
	"context"
	"fmt"

	"ndrbridge/checkpoint"
)

// auditSweep reads the recent past again, from the newest entry to older ones: entries that
// arrive or are purged meanwhile move no other entry past it.
type auditSweep struct {
	auditWalk
	began int64
	rows  int  // that it has read
	from  int  // the offset of the page before, in a log that comes oldest first
	found bool // the last committed entry was seen
}

// sweepPage reads one page of the sweep, and begins one if it is due.
func (a *Audit) sweepPage(ctx context.Context) error {
	if a.sweep == nil {
		since := a.date.UnixMilli() - a.position.Swept
		if every := a.o.ReconcileEvery.Milliseconds(); a.date.IsZero() || every <= 0 || 0 <= since && since < every {
			return nil
		}
		// The server may return fewer entries than requested: a page that begins further back
		// might not reach the newest.
		a.sweep = &auditSweep{auditWalk: auditWalk{hint: max(0, a.rank-1)}, began: a.date.UnixMilli()}
		a.sweep.offset = a.begin(&a.sweep.auditWalk)
	}
	s := a.sweep
	requested := s.offset
	page, ok, err := a.next(ctx, &s.auditWalk)
	if rows := len(page.rows); ok && a.oldestFirst && page.offset == requested && rows > 1 && page.offset+rows <= s.from {
		// It is shorter than the page before: it does not reach back to that.
		s.offset = s.from - rows + 1
		return nil
	}
	s.from = page.offset
	done := !ok
	if ok && err == nil {
		done, err = a.sweepRows(ctx, s, &page)
	}
	if err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	if !done {
		return nil
	}
	p := a.position
	p.Swept = s.began
	a.sweep = nil
	return a.commit(ctx, p, checkpoint.Commit{})
}

// sweepRows commits the rows of a page that have become visible late, and moves on to older
// ones. done is true if there is nothing more to read.
func (a *Audit) sweepRows(ctx context.Context, s *auditSweep, page *auditPage) (done bool, err error) {
	newest, _, err := a.recognize(ctx, page)
	if err != nil {
		return false, err
	}
	oldest := page.rows[0]
	lowest, _, ok := page.ends()
	s.rows += len(page.rows)
	done = page.oldest || ok && lowest <= a.position.Floor || s.rows >= rememberedEntries/2 ||
		oldest.before(a.date.Add(-a.o.ReconcileBack).UnixMilli())
	s.found = s.found || page.find(a.position.Last) >= 0
	a.step(&s.auditWalk, page, false)
	// Newer rows than the known ones are left to the next poll, as are those of another log.
	last, floor := lastKnown(page.rows), a.position.Floor
	if !s.found {
		last = -1
	}
	page.rows, page.newest = page.rows[:last+1], false
	for i := range page.rows {
		switch r, p := &page.rows[i], a.position.Last; {
		case r.positioned:
			r.known = r.known || p == nil || r.entry.ID > p.ID || r.entry.ID <= floor
		case i > newest && lowest <= floor:
			r.known = true // it may be from before the stream began
		}
	}
	_, err = a.commitRows(ctx, page, last, unconfirmed, nil)
	return done, err
}
