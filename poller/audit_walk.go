package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// auditWalk is one reading of the log, a page at a time: back to a committed entry, and
// from there on to the newest. Between two pages, offsets shift by what arrives (newest
// first) or is purged (oldest first), so an offset alone proves nothing: pages are joined
// by the entries that they share.
type auditWalk struct {
	offset int          // the offset to request next
	last   *auditOffset // the entry to continue after; nil: none
	// joint is the key of the entry to continue after if that has no position: last
	// precedes it.
	joint string
	hint  int // the likely offset of last in a log that comes oldest first

	// gone is set once last is known not to be in the log.
	gone bool
	// newer is set while the walk moves towards newer entries to find last, and edge is
	// the key of the newest entry seen while it does.
	newer bool
	edge  string
	// back is how far the walk stepped back from an offset after the end of the log.
	back int

	// ordered is set once the order is known, and flips counts how often it changed.
	// probing is set while pages are requested from the start to learn the order; lone
	// is the first entry with an id that they have shown. guessed is set if there was
	// only that one: its order does not matter until there is another.
	ordered bool
	flips   int
	probing bool
	lone    *loneEntry
	guessed bool
}

// loneEntry is the only entry of a page that has an id, and its position in the answer.
type loneEntry struct {
	id            int64
	offset, index int
}

// lone returns the first entry that has an id.
func (p *auditPage) lone() *loneEntry {
	for i := range p.rows {
		if r := &p.rows[i]; r.positioned {
			return &loneEntry{r.entry.ID, p.offset, i}
		}
	}
	return nil
}

var errUnsteadyOrder = errors.New("the audit log comes newest first in one answer and oldest first in the next: pages cannot be joined safely")

// maxAuditPages bounds the pages that a walk reads without committing any: the log keeps a
// limited number of entries.
const maxAuditPages = 20_000

var (
	errAuditOffsetIgnored = errors.New("the appliance returns the same page of the audit log at several offsets: it ignores offset")
	errAuditEndless       = fmt.Errorf("the audit log has no end within %d pages, nor an entry that was committed", maxAuditPages)
)

// endlessAudit detects a log whose end a walk never reaches.
type endlessAudit struct {
	pages         int // since something was committed, or a walk ended
	offset, rows  int // of the last page
	first, final  string
	sameElsewhere int // pages in a row that equal the last one, at another offset
}

// check returns an error if a page shows that the log does not end.
func (e *endlessAudit) check(page *auditPage) error {
	if len(page.rows) == 0 {
		e.rows = 0
		return nil
	}
	first, final := page.rows[0].key(), page.rows[len(page.rows)-1].key()
	switch {
	case e.rows != len(page.rows) || e.first != first || e.final != final:
		e.sameElsewhere = 0
	case e.offset != page.offset:
		e.sameElsewhere++
	}
	e.pages++
	e.offset, e.rows, e.first, e.final = page.offset, len(page.rows), first, final
	const several = 3 // entries that come or are purged can shift one page over another
	switch {
	case e.sameElsewhere >= several:
		return errAuditOffsetIgnored
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
// find, which returns the index of the newest row that is known to be committed (-1: none),
// and then take with the index of the row up to which the walk had come (-1: the page begins
// the log), until take is done. take sets w.last. It does not call them if the log is empty.
func (a *Audit) read(ctx context.Context, w *auditWalk, find func(*auditPage) (int, error),
	take func(page *auditPage, base int) (done bool, err error)) error {
	w.offset = a.begin(w)
	for {
		page, ok, err := a.next(ctx, w)
		if err != nil || !ok {
			return err
		}
		committed, err := find(&page)
		if err != nil {
			return err
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

// next requests a page and sorts it oldest first. ok is false if the log is empty.
func (a *Audit) next(ctx context.Context, w *auditWalk) (page auditPage, ok bool, err error) {
	for {
		page, err := a.fetch(ctx, w.offset)
		if err == nil {
			err = a.endless.check(&page)
		}
		if err != nil {
			return page, false, err
		}
		if len(page.rows) == 0 {
			if w.offset == 0 {
				return page, false, nil
			}
			w.back = max(2*w.back, a.limit.now-1)
			w.offset = max(0, w.offset-w.back)
			continue
		}
		w.back = 0
		fits, err := a.orient(ctx, w, &page)
		if err != nil {
			return page, false, err
		}
		if !fits {
			continue
		}
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

// orient learns the order from a page. fits is false if the walk restarts, or has to read
// other pages first.
func (a *Audit) orient(ctx context.Context, w *auditWalk, page *auditPage) (fits bool, err error) {
	rising, known, err := page.order()
	single := len(page.rows) == 1
	switch {
	case err != nil:
		return false, err
	case known && rising == a.oldestFirst && !w.probing:
		w.ordered = true
		return true, nil
	case known && rising != a.oldestFirst && w.ordered:
		if w.flips++; w.flips > 3 {
			return false, errUnsteadyOrder
		}
		fallthrough
	case known:
		return a.restart(w, rising) == page.offset, nil
	case w.guessed:
		lone := page.lone()
		if w.lone == nil {
			w.lone = lone
		}
		if lone == nil || lone.id == w.lone.id {
			return true, nil
		}
		*w = auditWalk{last: w.last, hint: w.hint, flips: w.flips, probing: true}
		return false, nil
	case w.ordered:
		return true, nil
	case single && page.offset == 0:
		return true, nil // in either order
	case single && a.oldestFirst && a.polls%idlePolls != 0 && page.find(w.last) == 0:
		// The log would have to reverse its order and have as many entries before last
		// as there were after it: that is checked from time to time.
		return true, nil
	}

	// Too few entries of the page have an id to conclude the order from it.
	if !w.probing {
		w.probing = true
		if page.offset > 0 {
			w.offset = 0
			return false, nil
		}
	}
	if lone := page.lone(); w.lone == nil {
		w.lone = lone
	} else if lone != nil && lone.id != w.lone.id {
		// Two pages show the order if nothing moved between them.
		again, err := a.fetch(ctx, w.lone.offset)
		if err != nil {
			return false, err
		}
		if there := again.lone(); there != nil && *there == *w.lone {
			a.restart(w, lone.id > w.lone.id)
		} else {
			w.lone, w.offset = nil, 0
		}
		return false, nil
	}
	if single {
		lone := w.lone
		a.restart(w, a.oldestFirst)
		w.lone, w.guessed = lone, true
		return false, nil
	}
	w.offset += len(page.rows) - 1
	return false, nil
}

// restart restarts the walk in an order, and returns at what offset.
func (a *Audit) restart(w *auditWalk, oldestFirst bool) int {
	a.oldestFirst = oldestFirst
	*w = auditWalk{last: w.last, hint: w.hint, ordered: true, flips: w.flips}
	w.offset = a.begin(w)
	return w.offset
}

// attach returns the index of the row up to which the walk has come, given the index of
// the newest row known to be committed (-1: none). It returns -1 and ok if the page begins
// the log and nothing in it was committed. If ok is false, the page does not count, and
// the walk has moved on.
func (a *Audit) attach(ctx context.Context, w *auditWalk, page *auditPage, committed int) (base int, ok bool, err error) {
	if committed < 0 && w.joint != "" {
		committed = slices.IndexFunc(page.rows, func(r auditRow) bool { return r.key() == w.joint })
	}
	if committed >= 0 {
		return committed, true, nil
	}
	if overshot := w.overshot(page); !overshot {
		if !page.oldest && !a.oldestFirst && len(page.rows) < page.limit {
			if page.oldest, err = a.endsLog(ctx, page); err != nil {
				return 0, false, err
			}
		}
		if page.oldest {
			return -1, true, nil
		}
	}
	// A step to older or newer entries shares a row with this page.
	step := len(page.rows) - 1
	if step == 0 {
		step = 1
		if a.oldestFirst && !w.newer {
			step = a.limit.now - 1
		}
	}
	if a.oldestFirst != w.newer {
		step = -step
	}
	w.offset = max(0, w.offset+step)
	return 0, false, nil
}

// overshot reports whether a page that holds no committed entry is on the older side of
// last: its entries were skipped at the first contact, or are forgotten.
func (w *auditWalk) overshot(page *auditPage) bool {
	// If this page begins with an entry seen when coming from the older side, there is
	// nothing between the two.
	joined := w.newer && slices.ContainsFunc(page.rows, func(r auditRow) bool { return r.key() == w.edge })
	first, final, ok := page.ends()
	switch {
	case w.last == nil || w.gone:
		w.newer = false
	case !ok: // such a page shows only whether the log ends
		w.newer, w.gone = joined && !page.newest, joined && page.newest
	default:
		w.newer = final < w.last.ID && !page.newest
		w.gone = !w.newer && (joined || first <= w.last.ID)
	}
	if w.newer {
		w.edge = page.rows[len(page.rows)-1].key()
	}
	return w.newer
}

// advance moves on to the page after one that was read. The next page still holds the
// newest row of this one, with a quarter of a page to spare for entries that move
// meanwhile.
func (a *Audit) advance(w *auditWalk, page *auditPage) {
	newest := &page.rows[len(page.rows)-1]
	w.joint, w.gone, w.newer = "", false, false
	if !newest.positioned {
		w.joint = newest.key()
	}
	spare := a.limit.now / 4
	if a.limit.now == 3 {
		spare = 1
	}
	if a.oldestFirst {
		w.offset = page.offset + len(page.rows) - 1
		if len(page.rows) >= page.limit { // else it may be the last: a single row then proves it
			w.offset -= spare
		}
		return
	}
	w.offset = max(0, page.offset-(a.limit.now-1)+spare)
}
