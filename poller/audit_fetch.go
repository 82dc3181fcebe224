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

// auditRow is one entry of a page. One that has no id that can be read has no
// place.
type auditRow struct {
	entry  transform.AuditEntry
	placed bool
	known  bool // it was committed; as far as that was asked
	sum    string
	raw    []byte // nil where it was too large to be read
	err    error  // why it cannot become an event
}

func auditRowOf(o appliance.Object) auditRow {
	entry, err := transform.ParseAuditEntry(o.Raw, o.Repaired)
	return auditRow{entry: entry, placed: err == nil, raw: o.Raw, err: err}
}

// content stands for what the entry says.
func (r *auditRow) content() string {
	const enough = 16 // bytes, that no two entries have in common
	if r.sum == "" {
		sum := r.entry.Sum()
		r.sum = hex.EncodeToString(sum[:enough])
	}
	return r.sum
}

func (r *auditRow) offset() *auditOffset {
	return &auditOffset{transform.AuditPlace{ID: r.entry.ID, Time: r.entry.Time}, r.content()}
}

// key is the key under which an entry is remembered.
func (r *auditRow) key() string {
	if r.placed {
		return strconv.FormatInt(r.entry.ID, 10) + "-" + r.content()
	}
	return "#" + r.content()
}

// before reports whether the entry was certainly logged before a time.
func (r *auditRow) before(t int64) bool { return r.entry.Time > 0 && r.entry.Time < t }

// deadLetter is what is kept of an entry that became no event.
func (r *auditRow) deadLetter(now time.Time) checkpoint.DeadLetter {
	return checkpoint.DeadLetter{
		Key: r.key(), Class: deadClass(r.err), Reason: r.err.Error(), Time: now,
		Body: slices.Clone(r.raw[:min(len(r.raw), maxDeadBody)]),
	}
}

// auditPage is what the log showed behind an offset.
type auditPage struct {
	rows   []auditRow // as they came; oldest first once the order is known
	offset int
	limit  int // how many were asked for: minLimit or more
	// oldest and newest say that the page reaches that end of the log. That is
	// certain: a page that merely is short does not say it.
	oldest, newest bool
}

// order says how the ids of the page run. told is false where fewer than two
// entries have one.
func (p *auditPage) order() (rising, told bool, err error) {
	var before *auditRow
	for i := range p.rows {
		r := &p.rows[i]
		if !r.placed {
			continue
		}
		if before != nil {
			rises := r.entry.ID > before.entry.ID
			if r.entry.ID == before.entry.ID || told && rises != rising {
				return false, false, fmt.Errorf("the audit log is not sorted by id: entry %d comes behind %d", r.entry.ID, before.entry.ID)
			}
			rising, told = rises, true
		}
		before = r
	}
	return rising, told, nil
}

// find returns the index of an entry; -1: it is not there.
func (p *auditPage) find(place *auditOffset) int {
	return slices.IndexFunc(p.rows, func(r auditRow) bool {
		return place != nil && r.placed && r.entry.ID == place.ID && *r.offset() == *place
	})
}

// ends returns the lowest and the highest id of a page that runs oldest first; ok
// is false where there is none.
func (p *auditPage) ends() (first, last int64, ok bool) {
	for i := range p.rows {
		if r := &p.rows[i]; r.placed {
			if !ok {
				first, ok = r.entry.ID, true
			}
			last = r.entry.ID
		}
	}
	return first, last, ok
}

// fetch asks for the entries behind an offset. An answer that is too large, or a
// limit that the appliance refuses, is asked for again with half the entries. The
// rows are valid until the next fetch.
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
			a.limit = newPageLimit(a.o.PageSize) // it was not for the limit
		}
		return auditPage{}, err
	}
}

// endsLog reports whether a page of a log that comes newest first, shorter than it
// was asked for, reaches the oldest entry: one of its own is, or has become, the
// last there is. A server that returns fewer entries than asked for is asked for
// no more than that from now on.
func (a *Audit) endsLog(ctx context.Context, page *auditPage) (bool, error) {
	err := a.client.AuditLog(ctx, minLimit, page.offset+len(page.rows)-1, &a.behind)
	if errors.Is(err, appliance.ErrTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch len(a.behind.Objects) {
	case 0:
		return false, nil
	case 1:
		last := auditRowOf(a.behind.Objects[0])
		return slices.ContainsFunc(page.rows, func(r auditRow) bool { return r.key() == last.key() }), nil
	}
	behind, oldest := auditRowOf(a.behind.Objects[1]), &page.rows[0]
	if behind.placed && oldest.placed && behind.entry.ID < oldest.entry.ID {
		a.limit.now = max(minLimit, len(page.rows))
		a.limit.ceiling = a.limit.now
	}
	return false, nil
}
