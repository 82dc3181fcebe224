package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ndrbridge/transform"
)

// auditWalk is one reading of the log, a page at a time: back to a committed entry, and
// from there on to the newest. Between two pages, offsets shift by what arrives (newest
// first) or is purged (oldest first), so an offset alone proves nothing: pages are joined
// by the entries that they share.
type auditWalk struct {
	offset int                      // the offset to request next
	last   *transform.AuditPosition // the entry to continue after; nil: none
	// joint is the key of the entry to continue after if that has no position: last
	// precedes it.
	joint  string
	hint   int // the likely offset of the newest entry that was read, in a log that comes oldest first
	search auditSearch

	// gone is set once last is known not to be in the log.
	gone bool
	// edge is the key of the newest entry of the last page on the older side of last, from
	// which the walk went on to newer entries; empty: there was none.
	edge string
	// back is how far the walk stepped back from an offset after the end of the log.
	back int
	// most is the largest number of entries in a page: the server may return fewer than
	// requested.
	most int

	// learned is how often the order was learned since the walk began.
	learned int
}

// seek is where to continue a walk.
type seek int

const (
	here  seek = iota // the page joins: it is read
	older             // with older entries, although this page joins
	newer             // with newer entries, likewise
)

var errUnsteadyOrder = errors.New("the audit log comes newest first in one answer and oldest first in the next: pages cannot be joined safely")

// Bounds of what a walk does without committing anything: the log keeps a limited number of
// entries, and a log that keeps still turns a walk a few times.
const (
	maxAuditPages = 20_000
	maxAuditTurns = 100
)

var (
	errAuditUnsorted      = errors.New("the audit log is not sorted by id: its pages cannot be joined safely")
	errAuditOffsetIgnored = errors.New("the appliance returns the same page of the audit log at several offsets: it ignores offset")
	errAuditEndless       = fmt.Errorf("the audit log has no end within %d pages, nor an entry that was committed", maxAuditPages)
	errAuditUnsteady      = fmt.Errorf("reading the audit log changed its direction %d times and found nothing to commit: its answers contradict each other; check that one appliance alone answers at this address", maxAuditTurns)
)

// endlessAudit detects a log whose end a walk never reaches.
type endlessAudit struct {
	pages, turns  int // since something was committed
	upward        bool
	offset, rows  int // of the last page
	first, final  string
	sameElsewhere int // pages in a row that equal the last one, at another offset
}

// progressed records that something was committed.
func (e *endlessAudit) progressed() { e.pages, e.turns = 0, 0 }

// check returns an error if a page shows that the log does not end.
func (e *endlessAudit) check(page *auditPage) error {
	var first, final string
	rows := len(page.rows)
	if rows > 0 {
		first, final = page.rows[0].key, page.rows[rows-1].key
	}
	switch {
	case rows == 0 || e.rows != rows || e.first != first || e.final != final:
		e.sameElsewhere = 0
	case e.offset != page.offset:
		e.sameElsewhere++
	}
	e.pages++
	if upward := page.offset > e.offset; page.offset != e.offset && upward != e.upward {
		e.turns++
		e.upward = upward
	}
	e.offset, e.rows, e.first, e.final = page.offset, rows, first, final
	const several = 3 // entries that come or are purged can shift one page over another
	switch {
	case e.sameElsewhere >= several:
		return errAuditOffsetIgnored
	case e.turns > maxAuditTurns:
		return errAuditUnsteady
	case e.pages > maxAuditPages:
		return errAuditEndless
	}
	return nil
}

// pastEnd is an offset after the end of any log.
const pastEnd = 1 << 30

// begin returns the offset at which a walk begins.
func (a *Audit) begin(w *auditWalk) int {
	if a.oldestFirst {
		return w.hint
	}
	return 0
}

// read reads the log up to its newest entry, from where w begins. For each page it calls
// find, which returns the index of the newest row that is known to be committed (-1: none)
// and, if there is one, where to continue; and then take with the index of the row up to
// which the walk had come (-1: the page begins the log), until take is done. take sets
// w.last. It does not call them if the log is empty.
func (a *Audit) read(ctx context.Context, w *auditWalk, find func(*auditPage) (int, seek, error),
	take func(page *auditPage, base int) (done bool, err error)) error {
	w.offset = a.begin(w)
	for {
		page, ok, err := a.next(ctx, w)
		if err != nil || !ok {
			return err
		}
		committed, to, err := find(&page)
		if err != nil {
			return err
		}
		if to != here {
			a.step(w, &page, to == newer)
			continue
		}
		base, ok, err := a.attach(ctx, w, &page, committed)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if done, err := take(&page, base); err != nil || done {
			return err
		}
		a.advance(w, &page)
	}
}

// readSince reads the entries that were logged at a time or later, and those without a time
// among them, up to the newest. take is called with the new rows of each page until it is
// done, and with the appliance's time when the walk began; zero: it is not known yet.
func (a *Audit) readSince(ctx context.Context, hint int, from int64, take func(page *auditPage, rows []auditRow, began time.Time) (done bool, err error)) error {
	w := auditWalk{hint: hint}
	var began time.Time
	find := func(page *auditPage) (int, seek, error) {
		if began.IsZero() { // it is after nothing but entries that are too large
			began = a.date
		}
		base := page.find(w.last)
		for i := range page.rows {
			if w.last == nil && page.rows[i].before(from) {
				base = i
			}
		}
		return base, here, nil
	}
	return a.read(ctx, &w, find, func(page *auditPage, base int) (done bool, err error) {
		done, err = take(page, page.rows[base+1:], began)
		a.endless.progressed()
		if newest := &page.rows[len(page.rows)-1]; newest.positioned {
			w.last = newest.position()
		}
		return done || page.newest, err
	})
}

// next requests a page and sorts it oldest first. ok is false if the log is empty. If the page
// shows another order than is known, the walk restarts.
func (a *Audit) next(ctx context.Context, w *auditWalk) (page auditPage, ok bool, err error) {
	for {
		if a.order == unlearned {
			if err := a.learnOrder(ctx); err != nil {
				return page, false, err
			}
			*w = auditWalk{last: w.last, hint: w.hint, learned: w.learned + 1}
			w.offset = a.begin(w)
		}
		page, err := a.fetch(ctx, w.offset)
		if err == nil {
			err = a.endless.check(&page)
		}
		if err != nil {
			return page, false, err
		}
		if len(page.rows) == 0 {
			if w.offset == 0 {
				a.rank = 0
				return page, false, nil
			}
			w.back = max(2*w.back, a.limit.now-1)
			w.offset = max(0, w.offset-w.back)
			continue
		}
		w.back = 0
		if inOrder, err := a.isInOrder(w, &page); err != nil {
			return page, false, err
		} else if !inOrder {
			a.order = unlearned
			continue
		}
		w.most = max(w.most, len(page.rows))
		single := len(page.rows) == 1
		if a.oldestFirst {
			page.oldest, page.newest = page.offset == 0, single
		} else {
			slices.Reverse(page.rows)
			page.oldest, page.newest = single, page.offset == 0
		}
		return page, true, nil
	}
}

// orderState is how well the order of the log is known.
type orderState int

const (
	unlearned orderState = iota // it has to be learned
	assumed                     // the log did not show it
	shown                       // the log showed it
)

// maxLearned is how often a walk may learn the order.
const maxLearned = 4

// isInOrder reports whether a page does not contradict the order. Few entries contradict it only
// until it was shown to the walk: they may be neighbours in the wrong order.
func (a *Audit) isInOrder(w *auditWalk, page *auditPage) (bool, error) {
	rising, rows, err := page.order()
	switch {
	case err != nil:
		return false, err
	case rows == 0, rising == a.oldestFirst, rows <= fewEntries && w.learned > 0 && a.order == shown:
		return true, nil
	case w.learned == maxLearned:
		return false, errUnsteadyOrder
	}
	return false, nil
}

// learnOrder learns the order from the first pages of the log. Two pages of a few entries have to
// show the same one. If they do not show it, the known order stays.
func (a *Audit) learnOrder(ctx context.Context) error {
	const sure, maxPages = 2, 8
	offset, rises := 0, 0
	for range maxPages {
		page, err := a.fetch(ctx, offset)
		if err != nil {
			return err
		}
		rising, rows, err := page.order()
		if err != nil {
			return err
		}
		shows := min(rows, 1)
		if rows > fewEntries {
			shows = sure
		}
		if !rising {
			shows = -shows
		}
		rises += shows
		if offset += len(page.rows); len(page.rows) == 0 || rises >= sure || rises <= -sure {
			break
		}
	}
	a.order = assumed
	if rises != 0 {
		a.oldestFirst, a.order = rises > 0, shown
	}
	return nil
}

// attach returns the index of the row up to which the walk has come, given the index of
// the newest row known to be committed (-1: none). It returns -1 and ok if the page begins
// the log and nothing in it was committed. If ok is false, the page does not count, and
// the walk has moved on.
func (a *Audit) attach(ctx context.Context, w *auditWalk, page *auditPage, committed int) (base int, ok bool, err error) {
	if committed < 0 && w.joint != "" {
		committed = page.index(w.joint)
	}
	if committed >= 0 {
		return committed, true, nil
	}
	overshot := w.overshot(page)
	if !overshot {
		if err := a.probeEnd(ctx, page); err != nil {
			return 0, false, err
		}
		if page.oldest {
			return -1, true, nil
		}
	}
	a.step(w, page, overshot)
	return 0, false, nil
}

// probeEnd sets page.oldest if a page that is shorter than requested reaches the oldest
// entry.
func (a *Audit) probeEnd(ctx context.Context, page *auditPage) (err error) {
	if !page.oldest && !a.oldestFirst && len(page.rows) < page.limit {
		page.oldest, err = a.endsLog(ctx, page)
	}
	return err
}

// step moves on to older or newer entries than those of a page. The next page shares a row
// with it.
func (a *Audit) step(w *auditWalk, page *auditPage, newer bool) {
	step := max(1, len(page.rows)-1)
	if len(page.rows) == 1 && a.oldestFirst && !newer {
		step = a.limit.now - 1
	}
	if a.oldestFirst != newer {
		step = -step
	}
	w.offset = max(0, w.offset+step)
}

// overshot reports whether a page that holds no committed entry is on the older side of
// last: its entries were skipped at the first contact, or are forgotten.
func (w *auditWalk) overshot(page *auditPage) bool {
	// If this page holds the newest entry of one on the older side, there is nothing between
	// the two.
	shared := w.edge != "" && page.index(w.edge) >= 0
	lowest, highest, ok := page.ends()
	overshot := false
	switch {
	case w.last == nil || w.gone:
	case !ok: // such a page shows only whether the log ends, unless last was seen behind it
		found := w.search.phase == lookingBack || w.search.phase == joined
		overshot, w.gone = (found || shared) && !page.newest, shared && page.newest
	default:
		overshot = highest < w.last.ID && !page.newest
		w.gone = !overshot && (shared || lowest <= w.last.ID)
	}
	if overshot {
		w.edge = page.rows[len(page.rows)-1].key
	}
	return overshot
}

// advance moves on to the page after one that was read. The next page still holds the
// newest row of this one, with a quarter of a page to spare for entries that move
// meanwhile.
func (a *Audit) advance(w *auditWalk, page *auditPage) {
	newest := &page.rows[len(page.rows)-1]
	w.joint, w.gone, w.edge = "", false, ""
	if !newest.positioned {
		w.joint = newest.key
	}
	rows := min(a.limit.now, w.most)
	spare := rows / 4
	if rows == 3 {
		spare = 1
	}
	if a.oldestFirst {
		w.offset = page.offset + len(page.rows) - 1
		if len(page.rows) >= page.limit { // else it may be the last: a single row then proves it
			w.offset -= spare
		}
		return
	}
	w.offset = max(0, page.offset-max(1, rows-1-spare))
}
