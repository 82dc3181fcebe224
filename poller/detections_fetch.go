package poller

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// object is one row of a page, with its content.
type object struct {
	key
	detection transform.Detection
	// version distinguishes the versions of an object: its mod_time, or a negative digest if
	// that cannot be read; 0 if nothing of the version could be read.
	version   int64
	raw       []byte // nil if it was too large to be read
	err       error  // why it cannot become an event
	reread    bool   // it is delivered although it is known
	delivered bool   // it cannot be read, but its version was delivered before
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
	d, err := transform.ParseDetection(o.Raw, o.Repaired)
	if err == nil {
		return object{key: key{d.ModTime, d.ID}, detection: d, version: d.ModTime, raw: o.Raw}
	}
	if d.ID <= 0 {
		d.ID = identity(o.Raw)
	}
	var modTime []byte
	for name, value := range jsonscan.Members(o.Raw) {
		if string(name) == "mod_time" {
			modTime = value
		}
	}
	// Other fields may differ between two answers that show one version.
	version := digest(modTime, transform.FirstTracked(d.Tracked))
	return object{key: key{id: d.ID}, version: version, raw: o.Raw, err: err}
}

// digest returns a negative number that distinguishes texts.
func digest(texts ...[]byte) int64 {
	sum := sha256.Sum256(bytes.Join(texts, []byte{0}))
	return int64(binary.BigEndian.Uint64(sum[:]) | 1<<63)
}

// identity returns a substitute for the id of an object without a readable one. It is
// negative, which no id is, and the same for all versions of an object: a digest of the
// value of its id, else of when it began and what it is, else of its bytes. Other fields
// may differ between two answers that show the same version.
func identity(raw []byte) int64 {
	names := [...]string{"create_time", "start_time", "type", "title", "categories", "participants"}
	var id []byte
	var rest [len(names)][]byte
	for name, value := range jsonscan.Members(raw) {
		if string(name) == "id" && string(value) != "null" {
			id = value
		} else if i := slices.Index(names[:], string(name)); i >= 0 {
			rest[i] = value
		}
	}
	switch {
	case id != nil:
		return digest(id)
	case slices.ContainsFunc(rest[:], func(value []byte) bool { return value != nil }):
		return digest(rest[:]...)
	}
	return digest(raw)
}

// deadLetter returns the dead letter of a version that did not become an event. Its key is
// the object's id, and the version if that is known: each version has its own.
func (o *object) deadLetter(now time.Time) checkpoint.DeadLetter {
	key := strconv.FormatInt(o.id, 10)
	if o.id < 0 {
		key = fmt.Sprintf("sha256-%016x", uint64(o.id))
	}
	switch {
	case o.version > 0:
		key += "-" + strconv.FormatInt(o.version, 10)
	case o.version < 0:
		key += fmt.Sprintf("-%016x", uint64(o.version))
	}
	return deadLetter(key, o.err, o.raw, now)
}

// fetch requests the walk's page. If the answer is too large, or the appliance rejects the
// limit, it requests half the rows. short is true if the page has fewer rows than the
// appliance could have returned. The objects are valid until the next fetch.
func (d *Detections) fetch(ctx context.Context, w *walk) (rows []object, short bool, err error) {
	search := appliance.Search{ModTime: w.bound, Offset: w.offset, Filter: d.o.Filter}
	for again := true; again; {
		search.Limit = d.limit.now
		if rows, again, err = d.request(ctx, w, search); err != nil {
			return nil, false, err
		}
	}
	short = len(rows) < min(d.longest, search.Limit)
	d.longest = max(d.longest, len(rows))
	return rows, short, nil
}

// request requests a page of the walk. again is true if the page has to be requested again:
// with the limit as it is now, or since there was no memory, for which the next request waits.
func (d *Detections) request(ctx context.Context, w *walk, s appliance.Search) (rows []object, again bool, err error) {
	err = d.client.SearchDetections(ctx, s, &d.page)
	if err == nil {
		d.clock = d.page.Date.UnixMilli()
		d.limit.grow()
		rows = make([]object, len(d.page.Objects))
		for i, o := range d.page.Objects {
			rows[i] = parse(o)
		}
		return rows, false, nil
	}
	if errors.Is(err, appliance.ErrNoMemory) && ctx.Err() == nil {
		return nil, true, nil
	}
	switch d.remedy(err, func() bool { return d.objectAtFault(ctx, w, s, err) }) {
	case failPoll:
		return nil, false, err
	case shrinkPage:
		return nil, true, nil
	}
	tooLarge := errors.Is(err, appliance.ErrTooLarge)
	if rows, err = d.fetchSingly(ctx, s); err == nil && tooLarge {
		d.limit.grow()
	}
	return rows, false, err
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
