package poller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
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

	attempt attempt
	gaveUp  bool // a record that could not be read was given up

	cursorFailures, short, moved int  // attempts that ended in this way
	progress                     int  // attempts that fell short, but showed more than the one before
	tooLarge                     bool // the page of a cursor was too large
}

// attempt is one attempt at a window, from its first page to its last.
type attempt struct {
	number int   // from 1
	began  int64 // the appliance's time when it began, at the latest: it may not show records stored later
	fresh  int   // records that it showed
	total  int64 // number of records that the store reports; -1: not reported
	early  bool  // the store reports that it did not search everything
}

// windowSize is how long windows may be.
type windowSize struct {
	span  int64 // length of the next window, in milliseconds
	reach int64 // longest window that the store can search at once, as far as is known
	most  int   // most records that one window may have, as far as is known
}

// narrow makes windows so short that one with as many records per millisecond as a window
// of a length with more than most records would fit.
func (s *windowSize) narrow(length, records int64) {
	s.span = length
	for n := max(records, int64(s.most)+1); n > int64(s.most) && s.span > 1; n /= 2 {
		s.span /= 2
	}
}

// widen makes windows longer after one that had the full length and few records.
func (s *windowSize) widen(length, records int64) {
	if length >= s.span && records <= int64(s.most)/4 {
		s.span = min(2*length, s.reach)
		// A length that was once too long is gradually tried again.
		s.reach = min(maxSpan.Milliseconds(), s.reach+1+s.reach/64)
	}
}

// How often a window is read again.
const (
	maxCursorFailures = 2  // after which it is read by offset
	maxShort          = 3  // while records are missing, the last time by offset
	maxProgress       = 30 // while records are missing, but each time fewer
	maxMoved          = 3  // while pages do not join; after that they need not
	maxEarly          = 10 // in halves, while searches are terminated early
)

// ending is the result of reading a window, or of an attempt at it.
type ending int

const (
	complete  ending = iota // all of it is committed
	readAgain               // records may have been missed: read it again
	tooMany                 // it has more records than a window may have
	tooYoung                // it ends later than the delay allows
)

// maxSpan bounds the length of a window of the past.
const maxSpan = 24 * time.Hour

// open begins the next window, if its end is old enough. It begins a millisecond before
// the end of the last one: timestamps have fractions, and how the appliance compares a
// bound with them is not known.
func (r *Records) open(ctx context.Context) error {
	until := r.nextEnd()
	if until <= r.position.Until {
		if err := r.askTime(ctx); err != nil {
			return err
		}
		if until = r.nextEnd(); until <= r.position.Until {
			return nil
		}
	}
	l := recordList{Serial: r.position.Serial + 1, From: max(1, r.position.Until-1), Until: until}
	if err := r.begin(ctx, l, false); err != nil {
		return err
	}
	r.reading.cut = until < r.clock()-r.o.Delay.Milliseconds()
	return nil
}

// nextEnd returns where the next window ends: no later than the delay allows, and near the
// present no longer than Window.
func (r *Records) nextEnd() int64 {
	clock, until := r.clock(), r.position.Until
	end := until + r.size.span
	if past := clock - max(r.o.Recheck, r.o.Delay).Milliseconds(); end > past {
		end = min(end, max(past, until+min(r.size.span, r.o.Window.Milliseconds())))
	}
	return min(end, clock-r.o.Delay.Milliseconds())
}

// behind returns how far the position is behind what could be read.
func (r *Records) behind() int64 {
	return max(0, r.clock()-r.o.Delay.Milliseconds()-r.position.Until)
}

// shorten makes a window shorter after it failed twice in a row: it may be too much for
// the record store to search at once. Records of it that were committed stay so.
func (r *Records) shorten(ctx context.Context, w *reading, err error) {
	e, ok := errors.AsType[*appliance.Error](err)
	if ctx.Err() != nil || !ok || e.Refused() || e.Throttled() || r.reading == nil {
		return
	}
	if r.inARow.failures++; r.inARow.failures > 1 && r.divisible(w) {
		r.size.span = max(1, r.length(w)/2)
		r.size.reach = max(r.size.span, r.o.Window.Milliseconds())
		r.reading = nil
	}
}

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
	w.attempt = attempt{number: w.attempt.number + 1, total: -1}
	ttl, asked := r.cursorTTL(w), r.o.Now()
	page, err := r.search(ctx, w.list, 0, ttl)
	if err != nil {
		return 0, err
	}
	w.attempt.began = r.dates.last - r.o.Now().Sub(asked).Milliseconds()
	if !w.recheck && w.list.Until > r.dates.last-r.o.Delay.Milliseconds() {
		return tooYoung, nil
	}
	if w.attempt.total = page.total; w.attempt.total > int64(r.size.most) && r.divisible(w) {
		return tooMany, nil
	}
	// A page as long as requested may not be everything, whatever the total is: some
	// stores count no further than they have to.
	last := len(page.rows) == 0 || w.attempt.total >= 0 && int64(len(page.rows)) >= w.attempt.total && len(page.rows) < page.limit
	if err := r.commitPage(ctx, w, page, last); err != nil {
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

// length returns how much of a window is still to be read.
func (r *Records) length(w *reading) int64 { return w.list.Until - r.position.Until }

// divisible reports whether a window can be read in parts.
func (r *Records) divisible(w *reading) bool {
	return !w.recheck && r.length(w) > 1
}

// commitPage commits the new records of a page. Those of a window's last page stay pending, to
// be committed with the position that the window leads to.
func (r *Records) commitPage(ctx context.Context, w *reading, page recordRows, last bool) error {
	w.attempt.early = w.attempt.early || page.early
	recorded := r.o.Now()
	var part []byte
	for i := range page.rows {
		row := &page.rows[i]
		shownBy, known := w.seen[row.hash]
		if shownBy == 0 {
			w.shown++
		}
		if shownBy != w.attempt.number {
			w.attempt.fresh++
		}
		w.seen[row.hash] = w.attempt.number
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
	switch {
	case !w.attempt.early:
		r.inARow.early = 0
	case r.divisible(w) && r.inARow.early < maxEarly:
		// The store may give up because the search is too large: make it smaller.
		r.inARow.early++
		r.size.reach = max(1, r.length(w)/2)
		return tooMany, r.flush(ctx, w)
	}
	incomplete := w.attempt.early || int64(w.shown) < w.attempt.total
	if !incomplete {
		r.inARow.incomplete = 0
		// A size that the appliance once rejected is gradually tried again.
		r.size.most = min(r.o.MaxWindowRecords, r.size.most+1+r.size.most/64)
	} else if !r.givesUp(w) {
		return readAgain, r.flush(ctx, w)
	}
	r.schedule(w, incomplete)
	p, length := r.position, r.length(w)
	if !w.recheck { // a rechecked window may be ahead of a position that went back
		p.Until = max(p.Until, w.list.Until)
	}
	if err := r.commitWindow(ctx, w, p); err != nil {
		return 0, err
	}
	r.adapt(w, length)
	return complete, nil
}

// givesUp counts an attempt that fell short, and reports whether the incomplete window is
// taken as it is; if so, it counts and logs that.
func (r *Records) givesUp(w *reading) bool {
	// An attempt that showed more justifies another. A store that always reports more
	// than it shows is not asked for ever.
	if w.shown > w.before && w.before > 0 {
		w.progress++
	} else {
		w.short++
	}
	w.before = w.shown
	if w.short <= maxShort-min(r.inARow.incomplete, maxShort) && w.progress < maxProgress {
		return false
	}
	r.inARow.incomplete++
	r.count(r.o.Metrics.incomplete, 1)
	r.o.Log.Warn("the record store did not show all records of a window",
		"from", time.UnixMilli(w.list.From).UTC(), "until", time.UnixMilli(w.list.Until).UTC(),
		"shown", w.shown, "total", w.attempt.total, "terminated_early", w.attempt.early)
	return true
}

// schedule sets when a window's total is checked again, and against what.
func (r *Records) schedule(w *reading, incomplete bool) {
	recheck := r.o.Recheck.Milliseconds()
	w.list.Due = 0
	switch {
	case w.recheck || recheck == 0:
	case incomplete, w.gaveUp:
		w.list.Due = r.dates.last + recheck
	case w.attempt.began-w.list.Until < recheck:
		w.list.Due = w.list.Until + recheck
	}
	if w.list.Total = w.attempt.total; int64(w.shown) != w.attempt.total || w.gaveUp {
		// The total is not the number of records, so it cannot show that there are more.
		// Do not keep it, so that the recheck reads the window again; the same holds for
		// a window with a record that was given up, which may have become readable.
		w.list.Total = -1
	}
}

// adapt chooses the length of the next windows, and how they are read, after a window of a
// length was committed.
func (r *Records) adapt(w *reading, length int64) {
	if w.recheck {
		r.count(r.o.Metrics.found, w.found)
	} else if !w.attempt.early {
		r.size.widen(length, max(w.attempt.total, int64(w.shown)))
	} else if r.inARow.early == maxEarly {
		r.size.span = max(1, r.o.Window.Milliseconds()) // the store terminates any search early
		r.size.reach = maxSpan.Milliseconds()
	}
	if w.needsOffset() {
		r.byOffset = windowsByOffset
	} else {
		r.byOffset = max(0, r.byOffset-1)
	}
}

// backlog is how many windows the stream must be behind for its progress to be logged.
const backlog = 3

// measure records the progress, and logs it while a backlog of more than a few windows is
// read.
func (r *Records) measure() {
	if !r.progress.reached(r.position.Until, r.behind()) {
		return
	}
	if p, _ := r.progress.current(); p.Behind > backlog*r.o.Window {
		r.o.Log.Info("reading a backlog", "at", p.At.UTC(), "behind", p.Behind.Round(time.Second),
			"records_per_second", int(p.EventsPerSecond), "speed_up", int(p.SpeedUp), "left", p.Left.Round(time.Second))
	}
}
