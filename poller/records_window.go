package poller

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
)

// reading is a window being read, in as many attempts as necessary.
type reading struct {
	list recordList
	// cut is true if more could be read than the window covers.
	cut bool
	// recheck is true if the window was read before.
	recheck bool
	// seen maps the hash of the id of every record that was committed and can appear in
	// this window to the last attempt that showed it; 0: none did.
	seen map[uint64]int
	// shown counts the records that the attempts showed, and before is its value when the
	// last of them fell short.
	shown, before int
	// pending is what to commit next.
	pending checkpoint.Commit
	found   int // events created

	attempt int   // number of the current attempt, from 1
	began   int64 // the appliance's time when it began, at the latest: it may not show records stored later
	fresh   int   // records that the attempt showed
	total   int64 // number of records that the store reports; -1: not reported
	early   bool  // the store reports that it did not search everything
	gaveUp  bool  // a record that could not be read was given up

	cursorFailures, short, moved int  // attempts that ended in this way
	progress                     int  // attempts that fell short, but showed more than the one before
	tooLarge                     bool // the page of a cursor was too large
}

// How often a window is read again.
const (
	maxCursorFailures = 2  // after which it is read by offset
	maxShort          = 3  // while records are missing, the last time by offset
	maxProgress       = 30 // while records are missing, but each time fewer
	maxMoved          = 3  // while pages do not join; after that they need not
	maxEarly          = 10 // in halves, while searches are terminated early
)

// maxUndivided bounds the records of a window that cannot be divided.
const maxUndivided = 1_000_000

var errEndlessWindow = fmt.Errorf("the record store shows more than %d records of one window: they do not end", maxUndivided)

// windowsByOffset is how many windows are read by offset after one that could not be read
// by a cursor.
const windowsByOffset = 16

// ending is the result of reading a window, or of an attempt at it.
type ending int

const (
	complete  ending = iota // all of it is committed
	readAgain               // records may have been missed: read it again
	tooMany                 // it has more records than a window may have
	tooYoung                // it ends later than the delay allows
)

// begin makes a window the current one. It recalls which records of it, and of the windows
// that it touches, were committed.
func (r *Records) begin(ctx context.Context, l recordList, again bool) error {
	var keys []string
	for _, o := range r.position.Lists {
		if o.touches(l) {
			for n := range o.Parts {
				keys = append(keys, o.partKey(n))
			}
		}
	}
	entries, err := r.store.Recall(ctx, r.source, keys)
	if err != nil {
		return fmt.Errorf("recall which records of a window were committed: %w", err)
	}
	size := 0
	for _, entry := range entries {
		size += len(entry) / hashSize
	}
	w := &reading{list: l, recheck: again, seen: make(map[uint64]int, size)}
	for _, entry := range entries {
		for ; len(entry) >= hashSize; entry = entry[hashSize:] {
			w.seen[binary.BigEndian.Uint64(entry)] = 0
		}
	}
	r.reading = w
	return nil
}

// read reads a window to its end, or until it has to be replaced by another one.
func (r *Records) read(ctx context.Context, w *reading) (ending, error) {
	for {
		end, err := r.attempt(ctx, w)
		if err != nil || end != readAgain {
			return end, err
		}
	}
}

// attempt reads a window from its first page to its last.
func (r *Records) attempt(ctx context.Context, w *reading) (ending, error) {
	w.attempt++
	w.fresh, w.total, w.early = 0, -1, false
	ttl, asked := r.cursorTTL(w), r.o.Now()
	page, err := r.search(ctx, w.list, 0, ttl)
	if err != nil {
		return 0, err
	}
	w.began = r.date - r.o.Now().Sub(asked).Milliseconds()
	if !w.recheck && w.list.Until > r.date-r.o.Delay.Milliseconds() {
		return tooYoung, nil
	}
	if w.total = page.total; w.total > int64(r.most) && r.divisible(w) {
		return tooMany, nil
	}
	// A page as long as requested may not be everything, whatever the total is: some
	// stores count no further than they have to.
	last := len(page.rows) == 0 || w.total >= 0 && int64(len(page.rows)) >= w.total && len(page.rows) < page.limit
	if err := r.take(ctx, w, page, last); err != nil {
		return 0, err
	}
	end := complete
	switch {
	case last:
	case ttl > 0 && page.cursor != "":
		end, err = r.readByCursor(ctx, w, page.cursor, ttl)
	default:
		end, err = r.readByOffset(ctx, w, page)
	}
	if err != nil || end != complete {
		return end, err
	}
	return r.finish(ctx, w)
}

// cursorTTL returns the lifetime to request for a window's cursor; 0: read the window by
// offset.
func (r *Records) cursorTTL(w *reading) time.Duration {
	if r.o.Store == StoreThirdParty || r.noCursors || r.byOffset > 0 || w.needsOffset() {
		return 0
	}
	return r.o.ContextTTL
}

func (w *reading) needsOffset() bool {
	return w.cursorFailures >= maxCursorFailures || w.short >= maxShort || w.tooLarge
}

// divisible reports whether a window can be read in parts.
func (r *Records) divisible(w *reading) bool {
	return !w.recheck && w.list.Until-r.position.Until > 1
}

// readByCursor reads the pages after the first by a cursor.
func (r *Records) readByCursor(ctx context.Context, w *reading, cursor string, ttl time.Duration) (ending, error) {
	for {
		page, err := r.next(ctx, cursor, ttl)
		if err != nil {
			return r.cursorFailed(ctx, w, err)
		}
		before := w.fresh
		if err := r.take(ctx, w, page, false); err != nil {
			return 0, err
		}
		// A cursor that no longer advances is at its end too; the total shows whether it
		// should be.
		if w.fresh == before {
			return complete, nil
		}
		if w.fresh > r.most && r.divisible(w) {
			return tooMany, nil
		}
		if w.fresh > maxUndivided {
			return 0, errEndlessWindow
		}
		cursor = cmp.Or(page.cursor, cursor)
	}
}

// cursorFailed decides how to continue with a window whose cursor failed. The cursor may
// have advanced although its answer was not received, so it must not be used any more.
func (r *Records) cursorFailed(ctx context.Context, w *reading, err error) (ending, error) {
	e, ok := errors.AsType[*appliance.Error](err)
	if ctx.Err() != nil || !ok {
		return 0, err
	}
	w.cursorFailures++
	r.o.Metrics.cursorFailed(r.source)
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
		r.limit.halve()
		w.tooLarge = true
	case r.recordAtFault(ctx, err):
		w.tooLarge = true // it is read by offset, in smaller parts
	case e.Status/100 != http.StatusBadRequest/100 || e.Refused() || e.Throttled():
		return 0, err
	case w.cursorFailures == 1:
		r.o.Log.Info("a cursor expired; its window is read again", "error", err)
	}
	return readAgain, nil
}

// readByOffset reads the pages after a window's first page by offset. Each page has to
// begin with the last record of the one before: if it does not, records moved, and some
// may have crossed the page's edge unseen.
func (r *Records) readByOffset(ctx context.Context, w *reading, page recordRows) (ending, error) {
	offset, longest, repeated := len(page.rows), len(page.rows), 0
	for {
		last := page.rows[len(page.rows)-1].hash
		joined := w.moved < maxMoved
		at := offset
		if joined {
			at--
		}
		var err error
		page, err = r.search(ctx, w.list, at, 0)
		if errors.Is(err, errOffset) && r.divisible(w) {
			r.most = min(r.most, at)
			r.o.Log.Info("the appliance rejects an offset; windows are made shorter", "offset", at, "error", err)
			return tooMany, nil
		}
		if errors.Is(err, errOffset) {
			// It cannot be divided: the records after this offset cannot be read, and must
			// not block the stream.
			w.early = true
			return complete, nil
		}
		if err != nil {
			return 0, err
		}
		if w.total < 0 {
			w.total = page.total
		}
		rows := len(page.rows)
		if joined {
			if rows == 0 || page.rows[0].hash != last {
				w.moved++
				if w.moved == maxMoved && r.divisible(w) {
					// A window that fits on one page has no pages to join.
					r.most = min(r.most, max(1, r.o.PageSize-1))
					r.o.Log.Info("records move between the pages of a window; windows are made shorter", "records", r.most)
					return tooMany, nil
				}
				if w.moved == maxMoved {
					r.o.Log.Warn("records move between the pages of a window; its pages are read without joining them",
						"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC())
				}
				return readAgain, nil
			}
			page.rows = page.rows[1:]
		}
		offset += len(page.rows)
		end := len(page.rows) == 0 || page.total >= 0 && int64(offset) >= page.total && rows < min(longest, page.limit)
		before := w.fresh
		if err := r.take(ctx, w, page, end); err != nil {
			return 0, err
		}
		if end {
			return complete, nil
		}
		if w.fresh > r.most && r.divisible(w) {
			return tooMany, nil
		}
		if w.fresh > maxUndivided {
			return 0, errEndlessWindow
		}
		const several = 3 // records stored meanwhile can repeat a page
		if repeated++; w.fresh > before {
			repeated = 0
		} else if repeated >= several {
			// The records after this offset cannot be read, as if the offset were rejected.
			r.o.Log.Warn("the record store returns the same records at several offsets: it ignores offset",
				"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC())
			w.early = true
			return complete, nil
		}
		longest = max(longest, rows)
	}
}

// take commits the new records of a page. Those of a window's last page stay pending, to
// be committed with the position that the window leads to.
func (r *Records) take(ctx context.Context, w *reading, page recordRows, last bool) error {
	w.early = w.early || page.early
	recorded := r.o.Now()
	var part []byte
	for i := range page.rows {
		row := &page.rows[i]
		shownBy, known := w.seen[row.hash]
		if shownBy == 0 {
			w.shown++
		}
		if shownBy != w.attempt {
			w.fresh++
		}
		w.seen[row.hash] = w.attempt
		// The window that gave the record up may have begun again since.
		w.gaveUp = w.gaveUp || errors.Is(row.err, errUnreadable)
		if known {
			continue
		}
		part = binary.BigEndian.AppendUint64(part, row.hash)
		if row.err == nil {
			event, err := r.events.Record(r.o.Query, row.record, recorded)
			if err == nil {
				w.pending.Events = append(w.pending.Events, event)
				continue
			}
			row.err = err
		}
		w.pending.Dead = append(w.pending.Dead, row.deadLetter(recorded))
	}
	if len(part) > 0 {
		w.pending.Remember = append(w.pending.Remember, checkpoint.Entry{
			Key: w.list.partKey(w.list.Parts), Value: part, At: w.list.Until,
		})
		w.list.Parts++
	}
	if last {
		return nil
	}
	return r.flush(ctx, w)
}

// flush commits what is pending, without moving the position.
func (r *Records) flush(ctx context.Context, w *reading) error {
	if len(w.pending.Remember) == 0 {
		return nil
	}
	return r.commitWindow(ctx, w, r.position)
}

// commitWindow commits what is pending with the position p, and the window's list.
func (r *Records) commitWindow(ctx context.Context, w *reading, p recordsPosition) error {
	c := w.pending
	w.pending = checkpoint.Commit{}
	if err := r.commit(ctx, p.with(w.list), c); err != nil {
		return err
	}
	w.found += len(c.Events)
	return nil
}

// finish compares what an attempt showed with the total that the store reported. A window
// that stays incomplete is eventually given up, so that it does not block the following
// ones.
func (r *Records) finish(ctx context.Context, w *reading) (ending, error) {
	incomplete := w.early || int64(w.shown) < w.total
	switch {
	case !w.early:
		r.early = 0
	case r.divisible(w) && r.early < maxEarly:
		// The store may give up because the search is too large: make it smaller.
		r.early++
		r.reach = max(1, (w.list.Until-r.position.Until)/2)
		return tooMany, r.flush(ctx, w)
	}
	if incomplete {
		// An attempt that showed more justifies another. A store that always reports
		// more than it shows is not asked for ever.
		if w.shown > w.before && w.before > 0 {
			w.progress++
		} else {
			w.short++
		}
		w.before = w.shown
		if w.short <= maxShort-min(r.incomplete, maxShort) && w.progress < maxProgress {
			return readAgain, r.flush(ctx, w)
		}
		r.incomplete++
		r.o.Metrics.windowIncomplete(r.source)
		r.o.Log.Warn("the record store did not show all records of a window",
			"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC(),
			"shown", w.shown, "total", w.total, "terminated_early", w.early)
	} else {
		r.incomplete = 0
		// A size that the appliance once rejected is gradually tried again.
		r.most = min(r.o.MaxWindowRecords, r.most+1+r.most/64)
	}

	recheck := r.o.Recheck.Milliseconds()
	w.list.Due = 0
	switch {
	case w.recheck || recheck == 0:
	case incomplete, w.gaveUp:
		w.list.Due = r.date + recheck
	case w.began-w.list.Until < recheck:
		w.list.Due = w.list.Until + recheck
	}
	if w.list.Total = w.total; int64(w.shown) != w.total || w.gaveUp {
		// The total is not the number of records, so it cannot show that there are more.
		// Do not keep it, so that the recheck reads the window again; the same holds for
		// a window with a record that was given up, which may have become readable.
		w.list.Total = -1
	}
	p, length := r.position, w.list.Until-r.position.Until
	if !w.recheck { // a rechecked window may be ahead of a position that went back
		p.Until = max(p.Until, w.list.Until)
	}
	if err := r.commitWindow(ctx, w, p); err != nil {
		return 0, err
	}
	if w.recheck {
		r.o.Metrics.reconciled(r.source, w.found)
	} else if !w.early {
		r.widen(length, max(w.total, int64(w.shown)))
	} else if r.early == maxEarly {
		r.span = max(1, r.o.Window.Milliseconds()) // the store terminates any search early
		r.reach = maxSpan.Milliseconds()
	}
	if w.needsOffset() {
		r.byOffset = windowsByOffset
	} else {
		r.byOffset = max(0, r.byOffset-1)
	}
	return complete, nil
}

// maxDeadKey bounds the key of a dead letter in bytes, since the appliance chooses it. An
// incomplete character at the cut is dropped: keys are text.
const maxDeadKey = 512

// deadLetter returns the dead letter of a record that did not become an event.
func (r *recordRow) deadLetter(now time.Time) checkpoint.DeadLetter {
	return checkpoint.DeadLetter{
		Key: strings.ToValidUTF8(r.key[:min(len(r.key), maxDeadKey)], ""), Class: deadClass(r.err), Reason: r.err.Error(), Time: now,
		Body: append([]byte(nil), r.raw[:min(len(r.raw), maxDeadBody)]...),
	}
}
