package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// gapState is the kind of gap that is known to precede the next entry to be committed.
type gapState int

const (
	noGap    gapState = iota
	restored          // the log is not the one that position.Last was in
	unjoined          // the entry is from the oldest end of a log that does not hold position.Last
)

// recall marks the rows that were committed, and returns the index of the newest of them
// that has a position; -1 if there is none.
func (a *Audit) recall(ctx context.Context, rows []auditRow) (newest int, err error) {
	newest = -1
	if len(rows) == 0 {
		return newest, nil
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].key()
	}
	values, err := a.store.Recall(ctx, a.source, keys)
	if err != nil {
		return newest, fmt.Errorf("recall what is known of %d audit log entries: %w", len(rows), err)
	}
	for i := range rows {
		if rows[i].known = values[i] != nil; rows[i].known && rows[i].positioned {
			newest = i
		}
	}
	return newest, nil
}

// take commits rows, which extend to the end of the page, and reports the gap before them.
// It returns the gap that is still to be reported.
func (a *Audit) take(ctx context.Context, page *auditPage, rows []auditRow, front gapState, kept *auditOffset) (gapState, error) {
	p := a.position
	var c checkpoint.Commit
	recorded := a.o.Now()
	var gap transform.AuditGap
	report := func() error {
		front = noGap
		if gap.Reason == "" {
			return nil
		}
		event, err := a.events.AuditGap(gap, recorded)
		c.Events = append(c.Events, event)
		return err
	}
	for i := range rows {
		r := &rows[i]
		if r.known {
			continue // it has no position, and is among the dead letters
		}
		if r.positioned && front != noGap {
			gap = gapBetween(p.Last, r.offset(), front)
			if front == unjoined && gap.Reason == transform.GapRestarted {
				p.Past = p.Start > 0
			}
			if err := report(); err != nil {
				return front, err
			}
		}
		p.Count++
		c.Remember = append(c.Remember, checkpoint.Entry{Key: r.key(), Value: []byte{1}, At: p.Count})
		if r.positioned {
			p.Last = r.offset()
		}
		switch {
		case p.Past && r.before(p.Start):
		case r.err != nil:
			c.Dead = append(c.Dead, deadLetter(r.key(), r.err, r.raw, recorded))
		default:
			event, err := a.events.AuditEntry(r.entry, recorded)
			if err != nil {
				return front, err
			}
			c.Events = append(c.Events, event)
		}
	}
	if page.newest {
		p.Past = false
		if front == restored { // there is nothing after the entry that was kept
			gap = transform.AuditGap{Reason: transform.GapRestarted, Last: p.Last.AuditPosition, First: kept.AuditPosition}
			if err := report(); err != nil {
				return front, err
			}
			p.Last = kept
		}
	}
	p.Offset = 0
	if i := page.find(p.Last); a.oldestFirst && i >= 0 {
		p.Offset = page.offset + i
	}
	if len(c.Remember) > 0 || p.Last != a.position.Last || p.Past != a.position.Past {
		if err := a.commit(ctx, p, c); err != nil {
			return front, err
		}
		a.reportGap(gap)
	}
	a.rank = p.Offset
	return front, nil
}

// gapBetween returns the gap between the last committed entry and the next one; its Reason
// is empty if there is none.
func gapBetween(last, first *auditOffset, front gapState) transform.AuditGap {
	gap := transform.AuditGap{Reason: transform.GapRestarted, Last: last.AuditPosition, First: first.AuditPosition}
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
	find := func(page *auditPage) (int, error) { return page.find(w.last), nil }
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
	p := a.position
	again := *p.Reread
	p.Reread = &again
	end := page.find(p.Last)
	if end >= 0 || page.newest {
		p.Reread = nil
	}
	if end < 0 {
		end = len(page.rows) - 1
	}
	var c checkpoint.Commit
	recorded := a.o.Now()
	for i := base + 1; i <= end; i++ {
		r := &page.rows[i]
		if !r.positioned {
			continue
		}
		again.Last = r.offset()
		if a.oldestFirst {
			again.Offset = page.offset + i
		}
		p.Count++
		c.Remember = append(c.Remember, checkpoint.Entry{Key: r.key(), Value: []byte{1}, At: p.Count})
		switch {
		case r.before(again.To):
		case r.err != nil:
			c.Dead = append(c.Dead, deadLetter(r.key(), r.err, r.raw, recorded))
		default:
			event, err := a.events.AuditEntry(r.entry, recorded)
			if err != nil {
				return err
			}
			c.Events = append(c.Events, event)
		}
	}
	if len(c.Remember) == 0 && p.Reread != nil {
		return nil
	}
	return a.commit(ctx, p, c)
}

// commit writes c with the position p.
func (a *Audit) commit(ctx context.Context, p auditPosition, c checkpoint.Commit) error {
	c.ForgetBefore = max(0, p.Count-rememberedEntries)
	if err := a.write(ctx, c, encodePosition(p)); err != nil {
		return err
	}
	a.position = p
	a.endless.pages = 0
	return nil
}
