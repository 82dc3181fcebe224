package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ndrbridge/internal/appliance"
)

// objectAtFault reports whether a page failed because of an object in it: it failed in
// several polls in a row, and the appliance lists the ids of the same page.
func (d *Detections) objectAtFault(ctx context.Context, w *walk, s appliance.Search, err error) bool {
	pages := &d.pages
	if d.sweep != nil && d.sweep.walk == w {
		pages = &d.sweep.pages
	}
	list := func() error {
		_, err := d.client.SearchDetectionIDs(ctx, s)
		return err
	}
	return pages.atFault(ctx, err, list,
		d.o.Log, "a page of detections keeps failing although its ids are listed; it is read in smaller parts")
}

// fetchSingly reads the rows of a page one by one. If an object is too large even so, only
// its mod_time is read; an object that cannot be read at all in several polls is given up.
func (d *Detections) fetchSingly(ctx context.Context, s appliance.Search) ([]object, error) {
	began, err := d.askTime(ctx)
	if err != nil {
		return nil, err
	}
	const attempts = 3
	for range attempts {
		ids, err := d.client.SearchDetectionIDs(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ask for the ids of a page that is read one by one: %w", err)
		}
		rows := make([]object, len(ids))
		var failed []int // indexes of the rows that could not be read
		for i, id := range ids {
			if rows[i], err = d.fetchListed(ctx, s, i, id); err != nil && !mayBeObject(ctx, err) {
				return nil, err
			} else if err != nil {
				rows[i].err = err
				failed = append(failed, i)
			}
		}
		// The rows were read one after the other: they are a page only if none of them
		// moved meanwhile.
		again, err := d.client.SearchDetectionIDs(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ask for the ids of a page that is read one by one: %w", err)
		}
		if !slices.Equal(ids, again) {
			continue
		}
		for _, i := range failed {
			if err := d.giveUp(ctx, s, rows, i); err != nil {
				return nil, err
			}
		}
		ended, err := d.askTime(ctx)
		d.clock = min(began, ended)
		return rows, err
	}
	return nil, fmt.Errorf("a page of detections changed %d times while its rows were read one by one", attempts)
}

// fetchListed reads the row of a page whose id is listed at an index; id is 0 if it could
// not be read. Of an object that is too large it reads only the mod_time. If it returns an
// error, only the row's id is set.
func (d *Detections) fetchListed(ctx context.Context, s appliance.Search, index int, id int64) (o object, _ error) {
	s.Offset, s.Limit = s.Offset+index, 1
	if o.id = id; id <= 0 {
		o.id = identity(fmt.Appendf(nil, "%d/%d", s.ModTime, s.Offset))
	}
	read, err := d.searchOne(ctx, s)
	if err == nil && id > 0 && read.id != id {
		err = &appliance.Error{Err: errUnreadable} // another one has moved there
	}
	if id > 0 && err != nil && mayBeObject(ctx, err) {
		read, err = d.fetchOne(ctx, id)
	}
	if err != nil {
		return o, err
	}
	delete(d.objects, strconv.FormatInt(o.id, 10))
	return read, nil
}

// searchOne reads the first detection that s selects.
func (d *Detections) searchOne(ctx context.Context, s appliance.Search) (object, error) {
	var page appliance.Page // the object refers to its memory
	if err := d.client.SearchDetections(ctx, s, &page); err != nil {
		return object{}, err
	}
	if len(page.Objects) != 1 {
		return object{}, &appliance.Error{Err: errUnreadable}
	}
	return parse(page.Objects[0]), nil
}

// fetchOne reads a detection by its id.
func (d *Detections) fetchOne(ctx context.Context, id int64) (object, error) {
	var page appliance.Page
	err := d.client.Detection(ctx, id, &page)
	switch {
	case err == nil && len(page.Objects) == 1:
		return parse(page.Objects[0]), nil
	case errors.Is(err, appliance.ErrTooLarge):
		modTime, skimErr := d.client.DetectionModTime(ctx, id)
		if skimErr != nil {
			return object{}, fmt.Errorf("find the mod_time of detection %d, which is too large to be read: %w", id, skimErr)
		}
		return object{key: key{max(0, modTime), id}, version: max(0, modTime), err: err}, nil
	}
	return object{}, fmt.Errorf("read detection %d: %w", id, err)
}

// giveUp makes the row at an index of the page of s, which could not be read, a dead letter, if
// stream.giveUp permits that, or if it is one already. A later version, or the same one if it
// becomes readable, is delivered when it is read.
func (d *Detections) giveUp(ctx context.Context, s appliance.Search, rows []object, i int) error {
	o := &rows[i]
	cause, text := o.err, strconv.FormatInt(o.id, 10)
	values, err := d.store.Recall(ctx, d.source, []string{unpositionedKey(o.id), text})
	if err != nil {
		return fmt.Errorf("recall what is known of detection %d: %w", o.id, err)
	}
	dead := values[0] != nil
	var delivered int64 // the mod_time of the last delivered version
	if values[1] != nil {
		k, err := parseKnown(values[1])
		if err != nil {
			return err
		}
		if dead = dead || k.dead; !k.dead {
			delivered = k.modTime
		}
	}
	if !dead {
		if err := d.stream.giveUp(text, "detection "+text, cause, func() error { return d.readOthers(ctx, s, rows, i) }); err != nil {
			return err
		}
	}
	o.err = fmt.Errorf("%v: %w", cause, errUnreadable)
	if o.id > 0 { // its mod_time may be readable all the same
		if modTime, err := d.client.DetectionModTime(ctx, o.id); err == nil && modTime > 0 && fits(rows, i, modTime) {
			o.modTime, o.version = modTime, modTime
			o.delivered = modTime <= delivered
		}
	}
	return nil
}

// fits reports whether the row at an index may have a mod_time, which the appliance may have
// returned with another version: rows are in its order.
func fits(rows []object, i int, modTime int64) bool {
	for j, other := range rows {
		if other.positioned() && (j < i && other.modTime > modTime || j > i && other.modTime < modTime) {
			return false
		}
	}
	return true
}

// readOthers returns an error unless another detection can be read than the row at an index of
// the page of s. If newer ones are listed, they decide: while the appliance cannot read a
// part of its data, older ones may well be in another part.
func (d *Detections) readOthers(ctx context.Context, s appliance.Search, rows []object, i int) error {
	newer, oldest := s, s
	newer.Offset, newer.Limit = s.Offset+i+1, min(maxNeighbours, d.limit.ceiling)
	oldest.ModTime, oldest.Offset, oldest.Limit = 1, 0, newer.Limit
	for _, search := range []appliance.Search{newer, oldest} {
		ids, err := d.client.SearchDetectionIDs(ctx, search)
		if err != nil {
			return fmt.Errorf("list others: %w", err)
		}
		var failed error
		for _, id := range ids {
			if id <= 0 || id == rows[i].id {
				continue
			}
			if _, err = d.fetchOne(ctx, id); err == nil || !mayBeObject(ctx, err) {
				return err
			}
			failed = err
		}
		if failed != nil {
			return failed
		}
	}
	return errNoOther
}
