package poller

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ndrbridge/appliance"
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
		if err == nil {
			a.limit.grow()
			a.date = a.answer.Date
			for _, o := range a.answer.Objects {
				page.rows = append(page.rows, auditRowOf(o))
			}
			a.rows = page.rows
			return page, nil
		}
		switch a.remedy(err, func() bool { return a.entryAtFault(ctx, err) }) {
		case failPoll:
			return auditPage{}, err
		case splitPage:
			tooLarge := errors.Is(err, appliance.ErrTooLarge)
			if page.rows, err = a.fetchSingly(ctx, offset); err == nil && tooLarge {
				a.limit.grow()
			}
			return page, err
		}
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

// entryAtFault reports whether a page failed because of an entry in it: it failed in
// several polls in a row, and the appliance answers for an offset after the end of the
// log.
func (a *Audit) entryAtFault(ctx context.Context, err error) bool {
	return a.pages.atFault(ctx, err, func() error { return a.client.AuditLog(ctx, 1, pastEnd, &a.probe) },
		a.o.Log, "a page of the audit log keeps failing although others are answered; it is read in smaller parts")
}

// fetchSingly reads the entries of a page of minLimit one by one. If an entry is too large
// even so, only its id and time are read; an entry that cannot be read at all in several
// polls is given up.
func (a *Audit) fetchSingly(ctx context.Context, offset int) ([]auditRow, error) {
	const attempts = 3
	for range attempts {
		var rows []auditRow
		for i := range minLimit {
			row, found, err := a.fetchOne(ctx, offset+i)
			if err != nil {
				return nil, err
			}
			if found {
				rows = append(rows, row)
			}
		}
		// The entries were read one after the other: they are neighbours only if
		// nothing moved meanwhile.
		again, found, err := a.fetchOne(ctx, offset)
		if err != nil {
			return nil, err
		}
		if !found && len(rows) == 0 || found && len(rows) > 0 && again.key() == rows[0].key() {
			return rows, nil
		}
	}
	return nil, fmt.Errorf("a page of the audit log changed %d times while its entries were read one by one", attempts)
}

func (a *Audit) fetchOne(ctx context.Context, offset int) (row auditRow, found bool, err error) {
	var page appliance.Page // the row refers to its memory
	err = a.client.AuditLog(ctx, 1, offset, &page)
	switch {
	case err == nil && len(page.Objects) == 0:
		a.date = page.Date
		return auditRow{}, false, nil
	case err == nil:
		a.date = page.Date
		return auditRowOf(page.Objects[0]), true, nil
	case !errors.Is(err, appliance.ErrTooLarge):
		return a.giveUp(ctx, offset, err)
	}
	id, logged, size, found, err := a.client.AuditEntry(ctx, offset)
	if err != nil {
		return a.giveUp(ctx, offset, fmt.Errorf("find the id of an audit log entry that is too large to be read: %w", err))
	}
	row = auditRow{
		entry: transform.AuditEntry{ID: id, Time: logged}, positioned: id != 0,
		sum: fmt.Sprintf("too_large-%d", logged),
		err: fmt.Errorf("audit log entry %d has %d bytes: %w", id, size, appliance.ErrTooLarge),
	}
	if !row.positioned { // its size has to distinguish it from others
		row.sum += fmt.Sprintf("-%d", size)
	}
	return row, found, nil
}

// giveUp returns a row for the entry at an offset that could not be read, if reading it
// failed in enough polls in a row. Otherwise it returns the error of the poll.
func (a *Audit) giveUp(ctx context.Context, offset int, cause error) (row auditRow, found bool, err error) {
	if !mayBeObject(ctx, cause) {
		return auditRow{}, false, cause
	}
	row = auditRow{err: fmt.Errorf("%v: %w", cause, errUnreadable)}
	id, logged, _, found, skimErr := a.client.AuditEntry(ctx, offset)
	if skimErr == nil && !found {
		return auditRow{}, false, nil
	}
	if skimErr == nil && id != 0 { // it is not JSON, but its id can be read all the same
		row.entry, row.positioned = transform.AuditEntry{ID: id, Time: logged}, true
		row.sum = fmt.Sprintf("unreadable-%d", logged)
	} else if row.sum, err = a.neighbour(ctx, offset); err != nil {
		return auditRow{}, false, err
	}
	values, err := a.store.Recall(ctx, a.source, []string{row.key()})
	if err != nil {
		return auditRow{}, false, fmt.Errorf("recall what is known of an audit log entry: %w", err)
	}
	if polls := a.objects.failed(row.key()); polls < unreadableAfter && values[0] == nil {
		return auditRow{}, false, fmt.Errorf("read the audit log entry at offset %d: %v; it is given up after %d such polls, of which this is number %d",
			offset, cause, unreadableAfter, polls)
	}
	if values[0] == nil {
		a.o.Log.Error("an audit log entry cannot be read; it becomes a dead letter, and the stream continues without it",
			"offset", offset, "error", cause)
	}
	return row, true, nil
}

// neighbour returns a key for an entry of which nothing can be read: it is made of the
// entry logged before it, which stays the same while offsets shift. If the appliance
// answers for none of the entries before it, the appliance itself is at fault, and its
// error is returned.
func (a *Audit) neighbour(ctx context.Context, offset int) (string, error) {
	step := 1 // to older entries
	if a.oldestFirst {
		step = -1
	}
	var err error
	for n := 1; n <= maxNeighbours; n++ {
		at := offset + n*step
		if at < 0 {
			return fmt.Sprintf("unreadable-%d-from-the-oldest", n), nil
		}
		var page appliance.Page
		if err = a.client.AuditLog(ctx, 1, at, &page); err != nil {
			if !mayBeObject(ctx, err) {
				return "", err
			}
			continue
		}
		if len(page.Objects) == 0 {
			return fmt.Sprintf("unreadable-%d-from-the-oldest", n), nil
		}
		before := auditRowOf(page.Objects[0])
		return fmt.Sprintf("unreadable-%d-after-%s", n, before.key()), nil
	}
	return "", err
}

// maxNeighbours is how many entries in a row may be unreadable.
const maxNeighbours = 16
