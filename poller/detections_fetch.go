package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// object is one row of a page, with its content.
type object struct {
	key
	detection transform.Detection
	raw       []byte // nil if it was too large to be read
	err       error  // why it cannot become an event
	reread    bool   // it is delivered although it is known
	elsewhere bool   // it cannot be read alone, but its version was read, or is shown on pages
}

func keysOf(objects []object) []key {
	keys := make([]key, len(objects))
	for i := range objects {
		keys[i] = objects[i].key
	}
	return keys
}

// parse parses an object of a page.
func parse(o appliance.Object) object {
	fields := o.Fields()
	if fields == nil {
		fields = jsonscan.Members(o.Raw)
	}
	d, err := transform.DetectionOf(o.Raw, fields, o.Repaired)
	if err == nil {
		return object{key: key{d.ModTime, d.ID}, detection: d, raw: o.Raw}
	}
	if d.ID <= 0 {
		d.ID = identity(o.Raw)
	}
	return object{key: key{id: d.ID}, raw: o.Raw, err: err}
}

// identity returns a substitute for the id of an object without a readable one. It is
// negative, which no id is, and the same for all versions of an object: a digest of the
// value of its id, else of when it began and what it is, else of its bytes. Other fields
// may differ between two answers that show the same version.
func identity(raw []byte) int64 {
	var id, rest []byte
	for name, value := range jsonscan.Members(raw) {
		switch string(name) {
		case "id":
			if string(value) != "null" {
				id = value
			}
		case "create_time", "start_time", "type", "title", "categories", "participants":
			rest = append(append(append(rest, name...), ':'), value...)
		}
	}
	for _, of := range [][]byte{id, rest, raw} {
		if len(of) > 0 {
			raw = of
			break
		}
	}
	sum := sha256.Sum256(raw)
	return int64(binary.BigEndian.Uint64(sum[:]) | 1<<63)
}

// deadLetter returns the dead letter of an object that did not become an event. Its key is
// the object's id.
func (o *object) deadLetter(now time.Time) checkpoint.DeadLetter {
	key := strconv.FormatInt(o.id, 10)
	if o.id < 0 {
		key = fmt.Sprintf("sha256-%016x", uint64(o.id))
	}
	return deadLetter(key, o.err, o.raw, now)
}

// fetch requests the walk's page. If the answer is too large, or the appliance rejects the
// limit, it returns errAskAgain, and the next call requests half the rows (see
// untilAnswered). short is true if the page has fewer rows than the appliance could have
// returned. The objects are valid until the next fetch.
func (d *Detections) fetch(ctx context.Context, w *walk) (rows []object, short bool, err error) {
	limit := d.limit.now
	search := appliance.Search{ModTime: w.bound, Offset: w.offset, Limit: limit, Filter: d.o.Filter}
	if err = d.client.SearchDetections(ctx, search, &d.page); err == nil {
		d.clock = d.page.Date.UnixMilli()
		d.limit.grow()
		rows = make([]object, len(d.page.Objects))
		for i, o := range d.page.Objects {
			rows[i] = parse(o)
			d.shownWithOthers(&rows[i])
		}
	} else {
		switch d.remedy(err, func() bool { return d.objectAtFault(ctx, w, search, err) }) {
		case failPoll:
			return nil, false, err
		case shrinkPage:
			return nil, false, errAskAgain
		}
		tooLarge := errors.Is(err, appliance.ErrTooLarge)
		if rows, err = d.fetchSingly(ctx, search); err != nil {
			return nil, false, err
		}
		if tooLarge {
			d.limit.grow()
		}
	}
	short = len(rows) < min(d.longest, limit)
	d.longest = max(d.longest, len(rows))
	return rows, short, nil
}

// askTime requests the appliance's time, by a search that finds nothing.
func (d *Detections) askTime(ctx context.Context) (milliseconds int64, err error) {
	const farFuture = 253402300799000 // the last second of 9999
	var page appliance.Page
	if err := d.client.SearchDetections(ctx, appliance.Search{ModTime: farFuture, Limit: 1}, &page); err != nil {
		return 0, fmt.Errorf("ask for the appliance's time: %w", err)
	}
	return page.Date.UnixMilli(), nil
}
