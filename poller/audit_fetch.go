package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// auditRow is one entry of a page. An entry without a readable id has no position.
type auditRow struct {
	entry      transform.AuditEntry
	positioned bool
	key        string // under which the entry is remembered: see auditKey
	known      bool   // it is committed, or not to be
	raw        []byte // nil if it was too large to be read
	err        error  // why it cannot become an event
}

func auditRowOf(o appliance.Object) auditRow {
	entry, err := transform.ParseAuditEntry(o.Raw, o.Repaired)
	r := auditRow{entry: entry, positioned: err == nil, raw: o.Raw, err: err}
	if !r.positioned && entry.Time == 0 {
		sum := sha256.Sum256(o.Raw)
		return r.keyed(hex.EncodeToString(sum[:16]))
	}
	return r.keyed("")
}

// keyed returns the row with its key, which contains mark if the entry has neither an id
// nor a time.
func (r auditRow) keyed(mark string) auditRow {
	switch {
	case r.positioned:
		r.key = auditKey(r.position())
	case r.entry.Time != 0:
		r.key = "#" + strconv.FormatInt(r.entry.Time, 10)
	default:
		r.key = "#" + mark
	}
	return r
}

// auditKey returns the key under which an entry is remembered. It contains the second of the
// time, because an upgrade of the appliance may change the precision of its times. That
// identifies an entry: an id is unique within a log, and a log that is restarted does not
// reach the same id within the same second.
func auditKey(p *transform.AuditPosition) string {
	return strconv.FormatInt(p.ID, 10) + "-" + strconv.FormatInt(p.Time/1000, 10)
}

// remembered returns the record of an entry: its time as it was first seen, which is part of
// the id of its event.
func (r *auditRow) remembered(at int64) checkpoint.Entry {
	return checkpoint.Entry{Key: r.key, Value: binary.AppendVarint(nil, r.entry.Time), At: at}
}

func (r *auditRow) position() *transform.AuditPosition {
	return &transform.AuditPosition{ID: r.entry.ID, Time: r.entry.Time}
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

const (
	fewEntries  = 3 // may show neighbours in the wrong order instead of the order of the log
	manyEntries = 8 // show that the log has no order
)

// order reports whether the ids of the page increase, or its times if fewer than two entries
// have an id, and how many entries show that; 0: the order is not known. Entries half a page
// apart are compared: neighbours may come in the other order.
func (p *auditPage) order() (rising bool, rows int, err error) {
	var ids, times []int64
	for i := range p.rows {
		r := &p.rows[i]
		if r.positioned {
			ids = append(ids, r.entry.ID)
		}
		if r.entry.Time > 0 {
			times = append(times, r.entry.Time)
		}
	}
	byID := len(ids) >= 2
	if !byID {
		ids = times
	}
	apart, rises, falls := (len(ids)+1)/2, 0, 0
	for i, id := range ids[:len(ids)-apart] {
		switch later := ids[i+apart]; {
		case later > id:
			rises++
		case later < id:
			falls++
		}
	}
	if fewer := min(rises, falls); 4*fewer > rises+falls {
		if byID && len(ids) >= manyEntries {
			return false, 0, errAuditUnsorted
		}
		return false, 0, nil
	}
	if rises == falls {
		return false, 0, nil
	}
	return rises > falls, len(ids), nil
}

// find returns the index of an entry; -1 if it is not in the page.
func (p *auditPage) find(entry *transform.AuditPosition) int {
	if entry == nil {
		return -1
	}
	return p.index(auditKey(entry))
}

// index returns the index of the entry with a key; -1 if it is not in the page.
func (p *auditPage) index(key string) int {
	return slices.IndexFunc(p.rows, func(r auditRow) bool { return r.key == key })
}

// ends returns the lowest and the highest id of a page; ok is false if no entry has one.
func (p *auditPage) ends() (lowest, highest int64, ok bool) {
	for i := range p.rows {
		r := &p.rows[i]
		if !r.positioned {
			continue
		}
		if !ok {
			lowest, highest, ok = r.entry.ID, r.entry.ID, true
		}
		lowest, highest = min(lowest, r.entry.ID), max(highest, r.entry.ID)
	}
	return lowest, highest, ok
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
		return page.index(last.key) >= 0, nil
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
// polls is given up. The entries are neighbours, and those that cannot be read are the ones
// with these ids, only if nothing moved meanwhile: they are read twice.
func (a *Audit) fetchSingly(ctx context.Context, offset int) ([]auditRow, error) {
	const attempts = 4
	var before []auditRow
	for attempt := range attempts {
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
		if attempt > 0 && slices.EqualFunc(rows, before, func(a, b auditRow) bool { return a.key == b.key && (a.raw == nil) == (b.raw == nil) }) {
			return rows, nil
		}
		before = rows
	}
	return nil, fmt.Errorf("a page of the audit log changed %d times while its entries were read one by one", attempts)
}

func (a *Audit) fetchOne(ctx context.Context, offset int) (row auditRow, found bool, err error) {
	var page appliance.Page // the row refers to its memory
	if err := a.client.AuditLog(ctx, 1, offset, &page); err != nil {
		return a.unread(ctx, offset, err)
	}
	a.date = page.Date
	if len(page.Objects) == 0 {
		return auditRow{}, false, nil
	}
	return auditRowOf(page.Objects[0]), true, nil
}

// unread returns a row for the entry at an offset that could not be read because of cause: if it
// is too large, if stream.giveUp permits that, or if it is a dead letter already.
func (a *Audit) unread(ctx context.Context, offset int, cause error) (row auditRow, found bool, err error) {
	if !mayBeObject(ctx, cause) {
		return auditRow{}, false, cause
	}
	id, logged, found, err := a.client.AuditEntry(ctx, offset)
	switch {
	case err != nil && !mayBeObject(ctx, err):
		return auditRow{}, false, err
	case err == nil && !found:
		return auditRow{}, false, nil
	case err == nil && errors.Is(cause, appliance.ErrTooLarge):
		row.err = cause
	default:
		row.err = fmt.Errorf("%v: %w", cause, errUnreadable)
	}
	row.entry, row.positioned = transform.AuditEntry{ID: id, Time: logged}, id != 0
	mark := ""
	if id == 0 && logged == 0 {
		if mark, err = a.neighbour(ctx, offset); err != nil {
			return auditRow{}, false, err
		}
	}
	if row = row.keyed(mark); errors.Is(row.err, appliance.ErrTooLarge) {
		return row, true, nil
	}
	values, err := a.store.Recall(ctx, a.source, []string{row.key})
	if err != nil {
		return auditRow{}, false, fmt.Errorf("recall what is known of an audit log entry: %w", err)
	}
	if values[0] == nil {
		what := fmt.Sprintf("the audit log entry at offset %d", offset)
		if err := a.giveUp(row.key, what, cause, func() error { return nil }); err != nil {
			return auditRow{}, false, err
		}
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
		return fmt.Sprintf("unreadable-%d-after-%s", n, before.key), nil
	}
	return "", err
}

// maxNeighbours is how many entries in a row may be unreadable.
const maxNeighbours = 16
