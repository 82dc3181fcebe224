package poller

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// gapState records whether there is a gap before the next entry to be committed.
type gapState int

const (
	unconfirmed gapState = iota // there is none, unless the log was replaced: no page showed position.Last
	noGap
	restored // the log is not the one that position.Last was in
	unjoined // the entry is from the oldest end of a log that does not hold position.Last
)

func (g gapState) isGap() bool { return g == restored || g == unjoined }

// recall marks the rows that are committed, gives them the time with which they were first
// seen, and returns the index of the newest of them that has a position; -1 if there is none.
func (a *Audit) recall(ctx context.Context, rows []auditRow) (newest int, err error) {
	newest = -1
	if len(rows) == 0 {
		return newest, nil
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].key
	}
	values, err := a.store.Recall(ctx, a.source, keys)
	if err != nil {
		return newest, fmt.Errorf("recall what is known of %d audit log entries: %w", len(rows), err)
	}
	last := ""
	if a.position.Last != nil {
		last = auditKey(a.position.Last)
	}
	for i := range rows {
		r := &rows[i]
		r.known = values[i] != nil || r.key == last
		if values[i] != nil {
			r.entry.Time, _ = binary.Varint(values[i])
		}
		if r.known && r.positioned {
			newest = i
		}
	}
	return newest, nil
}

// recognize marks the rows of a page that are committed, or were there before the stream
// began, and returns the index of the newest that is committed and has a position; -1 if
// there is none. news is true if there are others.
func (a *Audit) recognize(ctx context.Context, page *auditPage) (newest int, news bool, err error) {
	if newest, err = a.recall(ctx, page.rows); err != nil {
		return newest, false, err
	}
	begun := false // an entry without an id is as old as the next one with an id
	if first := slices.IndexFunc(page.rows, func(r auditRow) bool { return r.positioned }); first >= 0 {
		begun = page.rows[first].entry.ID > a.position.Floor
	}
	for i := range page.rows {
		r := &page.rows[i]
		if r.positioned {
			begun = r.entry.ID > a.position.Floor
		}
		r.known = r.known || i < newest && !begun
		news = news || !r.known
	}
	return newest, news, nil
}

// lastKnown returns the index of the newest row that is known; -1 if none is.
func lastKnown(rows []auditRow) int {
	i := len(rows) - 1
	for i >= 0 && !rows[i].known {
		i--
	}
	return i
}

// unknown returns the rows that are not known, sorted by id.
func unknown(rows []auditRow) []*auditRow {
	var all []*auditRow
	for i := range rows {
		if r := &rows[i]; !r.known {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *auditRow) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
	return all
}

// auditChanges are the changes that a page makes.
type auditChanges struct {
	auditPosition
	checkpoint.Commit
	recorded time.Time
}

func (a *Audit) newChanges() *auditChanges {
	return &auditChanges{auditPosition: a.position, recorded: a.o.Now()}
}

// add remembers an entry, and delivers it unless it is to be skipped.
func (c *auditChanges) add(a *Audit, r *auditRow, skip bool) error {
	c.Remember = append(c.Remember, r.remembered(c.Count))
	switch {
	case skip:
	case r.err != nil:
		c.Dead = append(c.Dead, deadLetter(r.key, r.err, r.raw, c.recorded))
	default:
		event, err := a.events.AuditEntry(r.entry, c.recorded)
		if err != nil {
			return err
		}
		c.Events = append(c.Events, event)
	}
	return nil
}

// commitRows commits the rows of a page that are not known: those before base have become visible
// late, those after it are new, and the gap before them is reported. It returns the gap that
// is still to be reported.
func (a *Audit) commitRows(ctx context.Context, page *auditPage, base int, front gapState, kept *transform.AuditPosition) (gapState, error) {
	c := a.newChanges()
	for _, r := range unknown(page.rows[:max(base, 0)]) {
		c.Count++
		if err := c.add(a, r, c.Past && r.before(c.Start)); err != nil {
			return front, err
		}
		if r.positioned && !front.isGap() {
			c.advance(r)
		}
	}
	late := len(c.Events)
	var gap transform.AuditGap
	report := func() error {
		front = noGap
		if gap.Reason == "" {
			return nil
		}
		event, err := a.events.AuditGap(gap, c.recorded)
		c.Events = append(c.Events, event)
		return err
	}
	for _, r := range unknown(page.rows[base+1:]) {
		if r.positioned && front.isGap() {
			gap = gapBetween(c.Last, r.position(), front)
			switch {
			case front == restored:
				c.Floor = min(c.Floor, kept.ID)
			case gap.Reason == transform.GapRestarted:
				c.Past, c.Floor = c.Start > 0, 0
			}
			if err := report(); err != nil {
				return front, err
			}
			c.Last = nil
		}
		c.Count++
		if err := c.add(a, r, c.Past && r.before(c.Start)); err != nil {
			return front, err
		}
		if r.positioned {
			c.advance(r)
		}
	}
	if page.newest {
		c.Past = false
		if front == restored { // there is nothing after the entry that was kept
			gap = transform.AuditGap{Reason: transform.GapRestarted, Last: *c.Last, First: *kept}
			if err := report(); err != nil {
				return front, err
			}
			c.Last, c.Floor = kept, min(c.Floor, kept.ID)
		}
	}
	c.Offset = a.rank
	if len(c.Remember) > 0 || c.Last != a.position.Last || c.Past != a.position.Past {
		if err := a.commit(ctx, c.auditPosition, c.Commit); err != nil {
			return front, err
		}
		a.count(a.o.Metrics.found, late)
		a.reportGap(gap)
	}
	return front, nil
}

// gapBetween returns the gap between the last committed entry and the next one; its Reason
// is empty if there is none.
func gapBetween(last, first *transform.AuditPosition, front gapState) transform.AuditGap {
	gap := transform.AuditGap{Reason: transform.GapRestarted, Last: *last, First: *first}
	if front == unjoined && first.ID > last.ID {
		gap.Reason, gap.Missing = transform.GapPurged, first.ID-last.ID-1
		if gap.Missing == 0 {
			gap.Reason = ""
		}
	}
	return gap
}

func (a *Audit) reportGap(g transform.AuditGap) {
	if g.Reason == "" {
		return
	}
	a.count(a.o.Metrics.gaps, 1)
	a.o.Log.Warn("there is a gap in the audit log", "reason", g.Reason, "missing", g.Missing,
		"last_id", g.Last.ID, "last_time", time.UnixMilli(g.Last.Time).UTC(),
		"first_id", g.First.ID, "first_time", time.UnixMilli(g.First.Time).UTC())
}

// reread delivers again what the position was moved back for, up to the last committed
// entry; newer entries are left to readNew.
func (a *Audit) reread(ctx context.Context) error {
	if a.position.Reread == nil {
		return nil
	}
	w := auditWalk{last: a.position.Reread.Last, hint: a.position.Reread.Offset}
	find := func(page *auditPage) (int, seek, error) { return page.find(w.last), here, nil }
	take := func(page *auditPage, base int) (done bool, err error) {
		if err := a.repeat(ctx, page, base); err != nil || a.position.Reread == nil {
			return true, err
		}
		w.last = a.position.Reread.Last
		return false, nil
	}
	if err := a.read(ctx, &w, find, take); err != nil || a.position.Reread == nil {
		return err
	}
	p := a.position // of a log that is empty
	p.Reread = nil
	return a.commit(ctx, p, checkpoint.Commit{})
}

// repeat commits again the rows of a page after base, with the same event ids. Entries
// that are too old are remembered all the same: what is remembered of a log has no gaps.
func (a *Audit) repeat(ctx context.Context, page *auditPage, base int) error {
	end, err := a.recall(ctx, page.rows)
	if err != nil {
		return err
	}
	c := a.newChanges()
	again := *c.Reread
	c.Reread = &again
	found := page.find(c.Last) >= 0
	if !found {
		end = len(page.rows) - 1
	}
	if found || page.newest {
		c.Reread = nil
	}
	for i := base + 1; i <= end; i++ {
		r := &page.rows[i]
		if !r.positioned {
			continue
		}
		again.Last = r.position()
		if a.oldestFirst {
			again.Offset = page.offset + i
		}
		if err := c.add(a, r, r.before(again.To) || again.To == rememberOnly); err != nil {
			return err
		}
	}
	if len(c.Remember) == 0 && c.Reread != nil {
		return nil
	}
	return a.commit(ctx, c.auditPosition, c.Commit)
}

// commit writes c with the position p.
func (a *Audit) commit(ctx context.Context, p auditPosition, c checkpoint.Commit) error {
	c.ForgetBefore = max(0, p.Count-rememberedEntries)
	if err := a.write(ctx, c, encodePosition(p)); err != nil {
		return err
	}
	if p.Last != a.position.Last || p.Reread != a.position.Reread {
		a.endless.progressed()
	}
	a.position = p
	return nil
}
