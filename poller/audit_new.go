package poller

import (
	"context"

	"ndrbridge/transform"
)

// auditPhase is the state of a walk that reads new entries. It begins with searching:
//
//	searching    last is in the page                             ▶ lookingBack
//	             committed entries are, but not last, in a log
//	             that comes oldest first                         ▶ climbing
//	             enough entries precede a committed one, or the
//	             log begins                                      ▶ joined
//	climbing     last is in the page                             ▶ lookingBack
//	             the newest page was seen                        ▶ searching
//	lookingBack  the page shares no entry with the one before,
//	             and none in it is known                         ▶ searching
//	             enough entries precede last, or the log begins  ▶ joined
//	joined       the page before is not in the log any more      ▶ searching
//	             the newest page was read                        ▶ end
type auditPhase int

const (
	searching   auditPhase = iota // for a committed entry, towards older ones
	climbing                      // for last, towards newer entries
	lookingBack                   // last was found; older entries are searched for late ones
	joined                        // everything after the committed entry is read
)

// auditSearch is the state of a walk, and what its pages have shown until one joins.
type auditSearch struct {
	phase  auditPhase
	ended  bool   // the newest page was seen
	left   bool   // a page with a committed entry was left for older ones
	bottom bool   // nothing on the older side of a committed entry is committed
	news   bool   // a page showed something to commit
	oldest string // the key of the oldest entry of the last page
}

// auditReader reads the new entries of an audit log.
type auditReader struct {
	*Audit
	auditWalk
	front gapState                 // before the next new entry
	kept  *transform.AuditPosition // the newest entry that both logs have, if front is restored
}

// readNew commits all new entries, up to the newest, and those among the entries before
// them that have become visible late.
func (a *Audit) readNew(ctx context.Context) error {
	r := auditReader{Audit: a, auditWalk: auditWalk{last: a.position.Last, hint: a.rank}, kept: a.position.Last}
	a.progress.begin()
	find := func(page *auditPage) (int, seek, error) { return r.find(ctx, page) }
	take := func(page *auditPage, base int) (bool, error) { return r.takePage(ctx, page, base) }
	if err := a.read(ctx, &r.auditWalk, find, take); err != nil {
		return err
	}
	a.progress.caughtUp(a.date.UnixMilli())
	return nil
}

// find implements the find of Audit.read.
func (r *auditReader) find(ctx context.Context, page *auditPage) (committed int, to seek, err error) {
	committed, news, err := r.recognize(ctx, page)
	if err != nil {
		return committed, here, err
	}
	s := &r.search
	if s.phase == joined && committed >= 0 && page.index(r.newest) < 0 {
		// It was in the page before: the log is another one, or has shifted.
		s.phase, s.ended = searching, false
	}
	if s.phase == joined {
		if committed >= 0 {
			r.kept = page.rows[committed].position()
		}
		r.confirm(page, committed)
		return committed, here, nil
	}
	s.news, s.ended = s.news || news, s.ended || page.newest
	if newest := len(page.rows) - 1; page.newest && page.rows[newest].key == r.newest && !s.news {
		s.phase = joined // nothing has changed
		return newest, here, nil
	}
	if to, err = r.seek(ctx, page, committed); err != nil || to != here || committed < 0 {
		return committed, to, err
	}
	// Entries that are committed although last was not found were so before another log
	// replaced the one that last was in.
	if r.front = unconfirmed; s.phase != lookingBack && r.last != nil {
		r.front = restored
	}
	s.phase, r.kept = joined, page.rows[committed].position()
	r.confirm(page, committed)
	return committed, here, nil
}

// seek enters the phase that follows from a page, unless that joins, and returns where to
// continue. A page without a committed entry is left to attach.
func (r *auditReader) seek(ctx context.Context, page *auditPage, committed int) (seek, error) {
	s := &r.search
	_, highest, ok := page.ends()
	before := !ok || r.last != nil && highest < r.last.ID // else newer entries have moved here
	s.bottom = s.bottom || (s.left || s.phase == lookingBack) && committed < 0 && before
	switch {
	case page.find(r.last) >= 0:
		s.phase = lookingBack
	case s.phase == lookingBack && lastKnown(page.rows) < 0 && page.index(s.oldest) < 0:
		s.phase = searching // the page is of another log: it shares nothing with the page before
	}
	s.oldest = page.rows[0].key
	if r.oldestFirst && !s.ended && (s.phase == climbing || s.phase == searching && committed >= 0) {
		s.phase = climbing
		return newer, nil
	}
	if s.phase == climbing {
		s.phase = searching
	}
	if committed >= 0 {
		return r.lookBack(ctx, page, committed)
	}
	return here, nil
}

// lookBack returns where to continue before a page that holds a committed entry is read:
// with older entries, until enough of them lie before it.
func (r *auditReader) lookBack(ctx context.Context, page *auditPage, committed int) (seek, error) {
	lowest, highest, _ := page.ends()
	found := r.search.phase == lookingBack
	enough := min(auditOverlap, r.o.PageSize, max(1, len(page.rows)-1))
	switch {
	case committed >= enough || found && (r.search.bottom || lowest <= r.position.Floor):
		return here, nil
	case r.search.bottom && !found && r.last != nil && highest < r.last.ID && !page.newest && !r.gone:
		r.edge = page.rows[len(page.rows)-1].key
		return newer, nil
	case r.search.bottom && !found:
		return here, nil
	}
	if err := r.probeEnd(ctx, page); err != nil {
		return here, err
	}
	if !page.oldest {
		r.search.left = true
		return older, nil
	}
	return here, nil
}

// confirm decides whether the log of a page that joins still holds last: another log may
// have replaced it since it was found.
func (r *auditReader) confirm(page *auditPage, committed int) {
	switch {
	case page.find(r.last) >= 0:
		r.front = noGap
	case r.front == unconfirmed && committed >= 0 && r.skipped(page, committed):
		r.front = restored
	}
}

// takePage implements the take of Audit.read.
func (r *auditReader) takePage(ctx context.Context, page *auditPage, base int) (done bool, err error) {
	if base < 0 && r.last != nil {
		r.front = unjoined
	}
	r.search.phase = joined
	r.reached(page)
	if r.front, err = r.commitRows(ctx, page, base, r.front, r.kept); err != nil {
		return false, err
	}
	r.last = r.position.Last
	if r.front == unconfirmed && page.find(r.last) >= 0 {
		r.front = noGap
	}
	if r.last != nil && !page.newest {
		r.progress.reached(r.last.Time, max(0, r.date.UnixMilli()-r.last.Time))
	}
	return page.newest, nil
}

// skipped reports whether the rows of a page after an index continue a log without last, which
// is not in the page: one has its id, or one has a higher id and is no neighbour that precedes
// it.
func (w *auditWalk) skipped(page *auditPage, after int) bool {
	if w.last == nil {
		return false
	}
	higher := 0
	for i := range page.rows[after+1:] {
		switch r := &page.rows[after+1+i]; {
		case !r.positioned || r.entry.ID < w.last.ID:
		case r.entry.ID == w.last.ID:
			return true
		default:
			higher++
		}
	}
	return higher > 1 || higher == 1 && (page.newest || w.most <= fewEntries)
}
