package poller

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/internal/appliance"
)

// windowsByOffset is how many windows are read by offset after one that could not be read
// by a cursor.
const windowsByOffset = 16

var errEndlessWindow = fmt.Errorf("the record store shows more than %d records of one window: they do not end", maxUndivided)

// maxUndivided bounds the records of a window that cannot be divided.
const maxUndivided = 1_000_000

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

// readByCursor reads the pages after the first by a cursor.
func (r *Records) readByCursor(ctx context.Context, w *reading, cursor string, ttl time.Duration) (ending, error) {
	for {
		page, err := r.next(ctx, cursor, ttl)
		if err != nil {
			return r.cursorFailed(ctx, w, err)
		}
		before := w.attempt.fresh
		if err := r.commitPage(ctx, w, page, false); err != nil {
			return 0, err
		}
		// A cursor that no longer advances is at its end too; the total shows whether it
		// should be.
		if w.attempt.fresh == before {
			return complete, nil
		}
		if w.attempt.fresh > r.size.most && r.divisible(w) {
			return tooMany, nil
		}
		if w.attempt.fresh > maxUndivided {
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
	r.count(r.o.Metrics.cursors, 1)
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
		if errors.Is(err, errOffset) {
			return r.offsetRejected(w, at, err), nil
		}
		if err != nil {
			return 0, err
		}
		if w.attempt.total < 0 {
			w.attempt.total = page.total
		}
		rows := len(page.rows)
		if joined {
			if rows == 0 || page.rows[0].hash != last {
				return r.recordsMoved(w), nil
			}
			page.rows = page.rows[1:]
		}
		offset += len(page.rows)
		end := len(page.rows) == 0 || page.total >= 0 && int64(offset) >= page.total && rows < min(longest, page.limit)
		before := w.attempt.fresh
		if err := r.commitPage(ctx, w, page, end); err != nil {
			return 0, err
		}
		if end {
			return complete, nil
		}
		if w.attempt.fresh > r.size.most && r.divisible(w) {
			return tooMany, nil
		}
		if w.attempt.fresh > maxUndivided {
			return 0, errEndlessWindow
		}
		const several = 3 // records stored meanwhile can repeat a page
		if repeated++; w.attempt.fresh > before {
			repeated = 0
		} else if repeated >= several {
			// The records after this offset cannot be read, as if the offset were rejected.
			r.o.Log.Warn("the record store returns the same records at several offsets: it ignores offset",
				"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC())
			w.attempt.early = true
			return complete, nil
		}
		longest = max(longest, rows)
	}
}

// offsetRejected decides how to continue with a window after the appliance rejected an
// offset.
func (r *Records) offsetRejected(w *reading, offset int, err error) ending {
	if r.divisible(w) {
		r.size.most = min(r.size.most, offset)
		r.o.Log.Info("the appliance rejects an offset; windows are made shorter", "offset", offset, "error", err)
		return tooMany
	}
	// It cannot be divided: the records after this offset cannot be read, and must not
	// block the stream.
	w.attempt.early = true
	return complete
}

// recordsMoved decides how to continue with a window whose pages do not join.
func (r *Records) recordsMoved(w *reading) ending {
	w.moved++
	if w.moved == maxMoved && r.divisible(w) {
		// A window that fits on one page has no pages to join.
		r.size.most = min(r.size.most, max(1, r.o.PageSize-1))
		r.o.Log.Info("records move between the pages of a window; windows are made shorter", "records", r.size.most)
		return tooMany
	}
	if w.moved == maxMoved {
		r.o.Log.Warn("records move between the pages of a window; its pages are read without joining them",
			"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC())
	}
	return readAgain
}

// recordAtFault reports whether a page failed because of a record in it: it failed in
// several polls in a row, and the record store answers a search that finds nothing.
func (r *Records) recordAtFault(ctx context.Context, err error) bool {
	return r.pages.atFault(ctx, err, func() error { return r.searchOne(ctx, 1, 2) },
		r.o.Log, "a page of records keeps failing although others are answered; it is read in smaller parts")
}

// searchSingly reads the records of a page of minLimit one by one. If a record is too
// large even so, only its id is read; a record that cannot be read at all in several polls
// is given up.
func (r *Records) searchSingly(ctx context.Context, s appliance.RecordSearch) (recordRows, error) {
	page := recordRows{limit: minLimit, total: -1}
	s.Limit, s.ContextTTL = 1, 0
	for range minLimit {
		err := r.request(ctx, s)
		var row recordRow
		switch {
		case err == nil && len(r.page.Objects) == 0:
			return page, nil
		case err == nil:
			delete(r.objects, recordKey(s))
			one := r.rows(1)
			page.total, page.early = one.total, page.early || one.early
			row = recordRowOf(appliance.Object{Raw: bytes.Clone(one.rows[0].raw), Repaired: r.page.Objects[0].Repaired})
		default:
			if row, err = r.unread(ctx, s, err); err != nil {
				return page, err
			}
		}
		page.rows = append(page.rows, row)
		s.Offset++
	}
	return page, nil
}

// unread returns a row for the only record that a search selects, which could not be read because
// of cause: if it is too large, or if stream.giveUp permits that. The second check of the window
// requests a record that was given up once more.
func (r *Records) unread(ctx context.Context, s appliance.RecordSearch, cause error) (recordRow, error) {
	if !mayBeObject(ctx, cause) {
		return recordRow{}, cause
	}
	key := recordKey(s) // distinguishes it from others unless its id can be read
	id, err := r.client.RecordID(ctx, s)
	if err != nil && !mayBeObject(ctx, err) {
		return recordRow{}, err
	}
	if err != nil || !errors.Is(cause, appliance.ErrTooLarge) {
		what := fmt.Sprintf("the record at offset %d of those after %d", s.Offset, s.From)
		if err := r.giveUp(key, what, cause, func() error { return r.readOthers(ctx, s) }); err != nil {
			return recordRow{}, err
		}
		cause = fmt.Errorf("%v: %w", cause, errUnreadable)
	}
	key = cmp.Or(id, key)
	return recordRow{hash: hashOf("#" + key), key: key, err: cause}, nil
}

// readOthers returns an error unless another record can be read than the one that s selects. If
// there are newer ones, they decide: while a part of the record store is down, older records may
// well be in another part.
func (r *Records) readOthers(ctx context.Context, s appliance.RecordSearch) error {
	s.Limit, s.ContextTTL = 1, 0
	newer, older := s, s
	newer.Until = max(s.Until, r.clock())
	var failed error // of the last request for a newer record
	for range maxNeighbours {
		newer.Offset++
		err := r.request(ctx, newer)
		if err == nil && len(r.page.Objects) == 0 {
			break
		}
		if err == nil || !mayBeObject(ctx, err) {
			return err
		}
		failed = err
	}
	if failed != nil {
		return failed
	}
	older.Until, older.Offset = s.From, 0
	// The store may be unable to search the whole past at once: after a few failures it is not
	// asked to search more of it.
	const most = 3
	span := r.o.Window.Milliseconds()
	for failures := 0; older.From > 1 && failures < most; span *= 2 {
		older.From = max(1, s.From-span)
		err := r.request(ctx, older)
		if err == nil && len(r.page.Objects) > 0 || err != nil && !mayBeObject(ctx, err) {
			return err
		}
		if err != nil {
			failures++
		}
	}
	return errNoOther
}

// recordKey names the record that a search selects by its offset.
func recordKey(s appliance.RecordSearch) string {
	return fmt.Sprintf("unreadable/%d/%d", s.From, s.Offset)
}
