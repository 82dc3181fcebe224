package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// object is one row of a page, with what it says.
type object struct {
	row
	detection transform.Detection
	raw       []byte // nil where it was too large to be read
	err       error  // why it cannot become an event
	again     bool   // it is delivered although it is known
}

func places(objects []object) []row {
	rows := make([]row, len(objects))
	for i := range objects {
		rows[i] = objects[i].row
	}
	return rows
}

// parse reads an object of a page.
func parse(o appliance.Object) object {
	fields := o.Fields()
	if fields == nil {
		fields = transform.Fields(o.Raw)
	}
	d, err := transform.DetectionOf(o.Raw, fields, o.Repaired)
	if err == nil {
		return object{row: row{key: key{d.ModTime, d.ID}, placed: true}, detection: d, raw: o.Raw}
	}
	if d.ID == 0 { // what it says has to tell it from others
		sum := sha256.Sum256(o.Raw)
		d.ID = int64(binary.BigEndian.Uint64(sum[:]))
	}
	return object{row: row{key: key{id: d.ID}}, raw: o.Raw, err: err}
}

// knownKey is the key under which an object is remembered.
func (o *object) knownKey() string { return knownKey(o.id, o.placed) }

// maxDeadBody bounds how much of an object that became no event is kept.
const maxDeadBody = 64 << 10

// deadLetter is what is kept of an object that became no event.
func (o *object) deadLetter(now time.Time) checkpoint.DeadLetter {
	class := "invalid"
	if errors.Is(o.err, appliance.ErrTooLarge) {
		class = "too_large"
	}
	return checkpoint.DeadLetter{
		Key: o.knownKey(), Class: class, Reason: o.err.Error(), Time: now,
		Body: append([]byte(nil), o.raw[:min(len(o.raw), maxDeadBody)]...),
	}
}

// minLimit is the fewest rows that a page is asked for: one to join on, and one
// to get on with.
const minLimit = 2

// pageLimit is how many objects a page is asked for.
type pageLimit struct {
	now     int
	ceiling int // that the appliance lets us ask for
	most    int // that the configuration lets us ask for
	good    int // pages in a row that came as they were asked for
}

func newPageLimit(most int) pageLimit {
	most = max(most, minLimit)
	return pageLimit{now: most, ceiling: most, most: most}
}

// halve reports that a page was too large, and whether it can be smaller.
func (l *pageLimit) halve() bool {
	if l.now <= minLimit {
		return false
	}
	l.now, l.good = max(minLimit, l.now/2), 0
	return true
}

// grow asks for more after some pages that came as they were asked for.
func (l *pageLimit) grow() {
	const pages = 4
	if l.good++; l.good%pages == 0 {
		l.ceiling = min(2*l.ceiling, l.most)
		l.now = min(2*l.now, l.ceiling)
	}
}

// fetch asks for the walk's page. An answer that is too large, or a limit that
// the appliance refuses, is asked for again with half the rows. short says that
// the page has fewer rows than the appliance could have returned. The objects
// are valid until the next fetch.
func (d *Detections) fetch(ctx context.Context, w *walk) (rows []object, short bool, err error) {
	for {
		limit := d.limit.now
		search := appliance.Search{ModTime: w.bound, Offset: w.offset, Limit: limit, Filter: d.o.Filter}
		err := d.client.SearchDetections(ctx, search, &d.page)
		switch {
		case err == nil:
			d.clock = d.page.Date.UnixMilli()
			d.limit.grow()
			rows = make([]object, len(d.page.Objects))
			for i, o := range d.page.Objects {
				rows[i] = parse(o)
			}
		case errors.Is(err, appliance.ErrTooLarge) && d.limit.halve():
			continue
		case errors.Is(err, appliance.ErrTooLarge):
			if rows, err = d.fetchSingly(ctx, search); err != nil {
				return nil, false, err
			}
			d.limit.grow()
		case limitMayBeRefused(err) && d.limit.halve():
			d.limit.ceiling = d.limit.now
			continue
		default:
			if limitMayBeRefused(err) { // it was not for the limit
				d.limit = newPageLimit(d.o.PageSize)
			}
			return nil, false, err
		}
		short = len(rows) < min(d.longest, limit)
		d.longest = max(d.longest, len(rows))
		return rows, short, nil
	}
}

// limitMayBeRefused says whether an appliance that refuses a large limit would
// answer so. Which status it uses is not shown.
func limitMayBeRefused(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && !e.Refused() && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity)
}

// fetchSingly reads the rows of a page that is too large although it has but
// minLimit of them, each by itself. Of one that is too large even so only its
// place is read.
func (d *Detections) fetchSingly(ctx context.Context, s appliance.Search) ([]object, error) {
	began, err := d.askTime(ctx)
	if err != nil {
		return nil, err
	}
	const attempts = 3
	for range attempts {
		ids, err := d.client.SearchDetectionIDs(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ask for the ids of a page that is too large: %w", err)
		}
		rows := make([]object, len(ids))
		for i, id := range ids {
			if rows[i], err = d.fetchOne(ctx, id); err != nil {
				return nil, err
			}
		}
		// The rows were read one after the other. They are a page only if none
		// of them moved meanwhile.
		again, err := d.client.SearchDetectionIDs(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ask for the ids of a page that is too large: %w", err)
		}
		if fmt.Sprint(ids) == fmt.Sprint(again) {
			ended, err := d.askTime(ctx)
			d.clock = min(began, ended)
			return rows, err
		}
	}
	return nil, fmt.Errorf("a page that is too large for one answer changed %d times while its rows were read one by one", attempts)
}

func (d *Detections) fetchOne(ctx context.Context, id int64) (object, error) {
	var page appliance.Page
	err := d.client.Detection(ctx, id, &page)
	switch {
	case err == nil && len(page.Objects) == 1:
		return parse(page.Objects[0]), nil
	case errors.Is(err, appliance.ErrTooLarge):
		modTime, size, skimErr := d.client.DetectionModTime(ctx, id)
		if skimErr != nil {
			return object{}, fmt.Errorf("find the mod_time of detection %d, which is too large to be read: %w", id, skimErr)
		}
		return object{
			row: row{key: key{modTime, id}, placed: modTime > 0},
			err: fmt.Errorf("detection %d has %d bytes: %w", id, size, appliance.ErrTooLarge),
		}, nil
	}
	return object{}, fmt.Errorf("read detection %d: %w", id, err)
}

// askTime asks for the appliance's time, by a search that finds nothing.
func (d *Detections) askTime(ctx context.Context) (milliseconds int64, err error) {
	const farFuture = 253402300799000 // the last second of 9999
	var page appliance.Page
	if err := d.client.SearchDetections(ctx, appliance.Search{ModTime: farFuture, Limit: 1}, &page); err != nil {
		return 0, fmt.Errorf("ask for the appliance's time: %w", err)
	}
	return page.Date.UnixMilli(), nil
}
