package poller

import (
	"context"
	"errors"
	"fmt"

	"ndrbridge/appliance"
	"ndrbridge/transform"
)

// entryAtFault reports whether a page failed because of an entry in it: it failed in
// several polls in a row, and the appliance answers for an offset after the end of the
// log.
func (a *Audit) entryAtFault(ctx context.Context, err error) bool {
	if !a.pages.failed(ctx, err) {
		return false
	}
	const pastEnd = 1 << 30
	if a.client.AuditLog(ctx, 1, pastEnd, &a.probe) != nil {
		return false
	}
	if !a.pages.apart {
		a.pages.apart = true
		a.o.Log.Warn("a page of the audit log keeps failing although others are answered; it is read in smaller parts", "error", err)
	}
	return true
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
