package poller

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// auditRow is one entry of a page. An entry without a readable id has no position.
type auditRow struct {
	entry      transform.AuditEntry
	positioned bool
	known      bool // it was committed; set by recall
	sum        string
	raw        []byte // nil if it was too large to be read
	err        error  // why it cannot become an event
}

func auditRowOf(o appliance.Object) auditRow {
	entry, err := transform.ParseAuditEntry(o.Raw, o.Repaired)
	return auditRow{entry: entry, positioned: err == nil, raw: o.Raw, err: err}
}

// content returns a digest of the entry's content.
func (r *auditRow) content() string {
	const enough = 16 // bytes: no two entries share them
	if r.sum == "" {
		sum := r.entry.Sum()
		r.sum = hex.EncodeToString(sum[:enough])
	}
	return r.sum
}

func (r *auditRow) offset() *auditOffset {
	return &auditOffset{transform.AuditPosition{ID: r.entry.ID, Time: r.entry.Time}, r.content()}
}

// key returns the key under which an entry is remembered.
func (r *auditRow) key() string {
	if r.positioned {
		return strconv.FormatInt(r.entry.ID, 10) + "-" + r.content()
	}
	return "#" + r.content()
}

// before reports whether the entry was certainly logged before a time.
func (r *auditRow) before(t int64) bool { return r.entry.Time > 0 && r.entry.Time < t }

// deadLetter returns the dead letter of an entry that did not become an event.
func (r *auditRow) deadLetter(now time.Time) checkpoint.DeadLetter {
	return checkpoint.DeadLetter{
		Key: r.key(), Class: deadClass(r.err), Reason: r.err.Error(), Time: now,
		Body: slices.Clone(r.raw[:min(len(r.raw), maxDeadBody)]),
	}
}

// auditPage is the part of the log that an answer showed, from an offset on.
type auditPage struct {
	rows   []auditRow // as they came; oldest first once the order is known
	offset int
	limit  int // the number of entries requested: minLimit or more
	// oldest and newest are true if the page certainly reaches that end of the log: a
	// page that is merely short does not prove it.
	oldest, newest bool
}

// order reports whether the ids of the page increase. known is false if fewer than two
// entries have an id.
func (p *auditPage) order() (rising, known bool, err error) {
	var before *auditRow
	for i := range p.rows {
		r := &p.rows[i]
		if !r.positioned {
			continue
		}
		if before != nil {
			rises := r.entry.ID > before.entry.ID
			if r.entry.ID == before.entry.ID || known && rises != rising {
				return false, false, fmt.Errorf("the audit log is not sorted by id: entry %d comes after %d", r.entry.ID, before.entry.ID)
			}
			rising, known = rises, true
		}
		before = r
	}
	return rising, known, nil
}

// find returns the index of an entry; -1 if it is not in the page.
func (p *auditPage) find(offset *auditOffset) int {
	return slices.IndexFunc(p.rows, func(r auditRow) bool {
		return offset != nil && r.positioned && r.entry.ID == offset.ID && *r.offset() == *offset
	})
}

// ends returns the lowest and the highest id of a page in oldest-first order; ok is false
// if no entry has one.
func (p *auditPage) ends() (first, last int64, ok bool) {
	for i := range p.rows {
		if r := &p.rows[i]; r.positioned {
			if !ok {
				first, ok = r.entry.ID, true
			}
			last = r.entry.ID
		}
	}
	return first, last, ok
}

// fetch requests the entries from an offset on. If the answer is too large, or the
// appliance rejects the limit, it requests half as many entries. The rows are valid until
// the next fetch.
func (a *Audit) fetch(ctx context.Context, offset int) (auditPage, error) {
	for {
		page := auditPage{offset: offset, limit: a.limit.now, rows: a.rows[:0]}
		err := a.client.AuditLog(ctx, page.limit, offset, &a.answer)
		switch {
		case err == nil:
			a.limit.grow()
			a.date = a.answer.Date
			for _, o := range a.answer.Objects {
				page.rows = append(page.rows, auditRowOf(o))
			}
			a.rows = page.rows
			return page, nil
		case errors.Is(err, appliance.ErrTooLarge):
			if a.limit.halve() {
				continue
			}
			page.rows, err = a.fetchSingly(ctx, offset)
			if err == nil {
				a.limit.grow()
			}
			return page, err
		case limitMayBeRefused(err):
			if a.limit.halve() {
				a.limit.ceiling = a.limit.now
				continue
			}
		}
		if a.entryAtFault(ctx, err) {
			if a.limit.halve() {
				continue
			}
			page.rows, err = a.fetchSingly(ctx, offset)
			return page, err
		}
		if limitMayBeRefused(err) {
			a.limit = newPageLimit(a.o.PageSize) // the limit was not the reason
		}
		return auditPage{}, err
	}
}

// endsLog reports whether a page of a log that comes newest first, shorter than requested,
// reaches the oldest entry: one of its own entries is, or has become, the last there is.
// If the server returns fewer entries than requested, no more than that are requested from
// now on.
func (a *Audit) endsLog(ctx context.Context, page *auditPage) (bool, error) {
	err := a.client.AuditLog(ctx, minLimit, page.offset+len(page.rows)-1, &a.probe)
	if errors.Is(err, appliance.ErrTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch len(a.probe.Objects) {
	case 0:
		return false, nil
	case 1:
		last := auditRowOf(a.probe.Objects[0])
		return slices.ContainsFunc(page.rows, func(r auditRow) bool { return r.key() == last.key() }), nil
	}
	behind, oldest := auditRowOf(a.probe.Objects[1]), &page.rows[0]
	if behind.positioned && oldest.positioned && behind.entry.ID < oldest.entry.ID {
		a.limit.now = max(minLimit, len(page.rows))
		a.limit.ceiling = a.limit.now
	}
	return false, nil
}
