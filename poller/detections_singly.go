package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ndrbridge/appliance"
)

// givenUp is an object that could not be read in several polls.
type givenUp struct {
	object
	retry int64 // when it is asked for again, by the appliance's clock
}

// givenUpRetry is how long an object that was given up is not asked for again, in
// milliseconds: it may take as long as a request is allowed to.
const givenUpRetry = 10 * 60_000

// objectAtFault reports whether a page failed for an object in it: it failed in
// several polls in a row, and the appliance lists the ids of the same page.
func (d *Detections) objectAtFault(ctx context.Context, w *walk, s appliance.Search, err error) bool {
	pages := &d.pages
	if d.sweep != nil && d.sweep.walk == w {
		pages = &d.sweep.pages
	}
	if !pages.failed(ctx, err) {
		return false
	}
	if _, listErr := d.client.SearchDetectionIDs(ctx, s); listErr != nil {
		return false
	}
	if !pages.apart {
		pages.apart = true
		d.o.Log.Warn("a page of detections keeps failing although its ids are listed; it is read in smaller parts", "error", err)
	}
	return true
}

// fetchSingly reads each row of a page by itself. Of one that is too large even so
// only its place is read; one that cannot be read at all in several polls is given
// up.
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
		var failed []int // the indexes of those that could not be read
		for i, id := range ids {
			if rows[i], err = d.fetchListed(ctx, s, i, id); err == nil {
				continue
			}
			if !mayBeObject(ctx, err) {
				return nil, err
			}
			rows[i].err = err
			failed = append(failed, i)
		}
		// The rows were read one after the other. They are a page only if none
		// of them moved meanwhile.
		again, err := d.client.SearchDetectionIDs(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ask for the ids of a page that is read one by one: %w", err)
		}
		if !slices.Equal(ids, again) {
			continue
		}
		for _, i := range failed {
			if err := d.giveUp(ctx, &rows[i]); err != nil {
				return nil, err
			}
		}
		displace(rows)
		ended, err := d.askTime(ctx)
		d.clock = min(began, ended)
		return rows, err
	}
	return nil, fmt.Errorf("a page of detections changed %d times while its rows were read one by one", attempts)
}

// fetchListed reads the row of a page whose id is listed at an index; 0: its id
// cannot be read. It is read by its id, or by a search for it alone. After an error
// the row has its key alone.
func (d *Detections) fetchListed(ctx context.Context, s appliance.Search, index int, id int64) (o object, err error) {
	s.Offset, s.Limit = s.Offset+index, 1
	if o.id = id; id <= 0 {
		o.id = identity(fmt.Appendf(nil, "%d/%d", s.ModTime, s.Offset))
	}
	if up, ok := d.givenUp[o.id]; ok && d.clock < up.retry && up.retry-d.clock <= givenUpRetry {
		return up.object, nil
	}
	err = &appliance.Error{Err: errUnreadable}
	if id > 0 {
		var read object
		if read, err = d.fetchOne(ctx, id); err == nil {
			d.legible(id)
			return read, nil
		}
		if !mayBeObject(ctx, err) {
			return o, err
		}
	}
	var page appliance.Page // the object keeps what it holds
	searchErr := d.client.SearchDetections(ctx, s, &page)
	switch {
	case searchErr == nil && len(page.Objects) == 1:
		read := parse(page.Objects[0])
		if id <= 0 || read.id == id {
			d.legible(o.id)
			return read, nil
		}
	case searchErr != nil && !mayBeObject(ctx, searchErr):
		return o, searchErr
	case id <= 0 && searchErr != nil:
		err = searchErr
	}
	return o, err
}

// shownWithOthers takes note that a page shows an object. One that was given up has
// its place in time from there: pages are joined by it.
func (d *Detections) shownWithOthers(o *object) {
	if up, ok := d.givenUp[o.id]; ok && o.err == nil {
		up.row, up.elsewhere = o.row, true
		d.givenUp[o.id] = up
	}
}

// displace takes the place in time from objects that were given up and that their
// neighbours show not to be at it any more.
func displace(rows []object) {
	for i := range rows {
		o := &rows[i]
		for j := range rows {
			other := &rows[j]
			if o.placed && other.placed && errors.Is(o.err, errUnreadable) &&
				(j < i && other.modTime > o.modTime || j > i && other.modTime < o.modTime) {
				o.row, o.elsewhere = row{key: key{id: o.id}}, false
			}
		}
	}
}

// legible takes note that an object could be read.
func (d *Detections) legible(id int64) {
	delete(d.objects, strconv.FormatInt(id, 10))
	delete(d.givenUp, id)
}

// fetchOne reads a detection by its id.
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

// giveUp makes an object that could not be read a dead letter, if that happened in
// enough polls in a row or is known already. It returns the error of the poll
// otherwise. A later version, or the same one if it can be read by then, is
// delivered when it is read.
func (d *Detections) giveUp(ctx context.Context, o *object) error {
	cause, text := o.err, strconv.FormatInt(o.id, 10)
	values, err := d.store.Recall(ctx, d.source, []string{knownKey(o.id, false), knownKey(o.id, true)})
	if err != nil {
		return fmt.Errorf("recall what is known of detection %d: %w", o.id, err)
	}
	dead := values[0] != nil
	var delivered int64 // the mod_time of the version last delivered
	if values[1] != nil {
		k, err := parseKnown(values[1])
		if err != nil {
			return err
		}
		if dead = dead || k.dead; !k.dead {
			delivered = k.modTime
		}
	}
	if polls := d.objects.failed(text); polls < unreadableAfter && !dead {
		// The appliance answers otherwise, so this says nothing about it or the key.
		return fmt.Errorf("%v; the object is given up after %d such polls, of which this is number %d", cause, unreadableAfter, polls)
	}
	o.err = fmt.Errorf("%v: %w", cause, errUnreadable)
	if o.id > 0 { // its mod_time may be legible all the same
		if modTime, _, err := d.client.DetectionModTime(ctx, o.id); err == nil && modTime > 0 {
			o.row = row{key: key{modTime, o.id}, placed: true}
			o.elsewhere = modTime <= delivered
		}
	}
	if len(d.givenUp) >= maxFailedPolls {
		clear(d.givenUp)
	}
	d.givenUp[o.id] = givenUp{*o, d.clock + givenUpRetry}
	if !dead {
		d.o.Log.Error("a detection cannot be read; it is kept among the dead letters, and the stream goes on without it",
			"detection", o.id, "error", cause)
	}
	return nil
}
