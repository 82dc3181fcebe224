package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// recordRow is one record of a page.
type recordRow struct {
	record transform.Record
	raw    []byte // nil if it was too large to be read
	hash   uint64 // of its id
	key    string // of its dead letter
	err    error  // why it cannot become an event
}

// recordRows is a page. Its records are valid until the next page is requested.
type recordRows struct {
	rows   []recordRow
	limit  int    // the number of records requested
	total  int64  // -1: not returned
	cursor string // empty: none
	early  bool   // the store terminated the search early
}

// errOffset means that the appliance rejects an offset, whatever the limit.
var errOffset = errors.New("the offset was refused")

// request requests the records that s selects.
func (r *Records) request(ctx context.Context, s appliance.RecordSearch) error {
	return r.ask(func() error { return r.client.SearchRecords(ctx, s, &r.page) })
}

// ask requests a page, and takes the appliance's time from the answer.
func (r *Records) ask(request func() error) error {
	if err := request(); err != nil {
		return err
	}
	return r.dates.answer(r.page.Date.UnixMilli(), r.o.Now(), r.o.Delay)
}

// clock returns the time that an answer of the appliance would carry now, or an earlier one.
func (r *Records) clock() int64 { return r.dates.at(r.o.Now()) }

// askTime requests the appliance's time, by a search that finds nothing.
func (r *Records) askTime(ctx context.Context) error {
	if err := r.searchOne(ctx, 1, 2); err != nil {
		return fmt.Errorf("ask for the appliance's time: %w", err)
	}
	return nil
}

// searchOne requests the first record from one time until another.
func (r *Records) searchOne(ctx context.Context, from, until int64) error {
	s := appliance.RecordSearch{From: from, Until: until, Types: r.o.Types, Filter: r.o.Filter, Limit: 1}
	err := r.request(ctx, s)
	if err == nil {
		r.notice()
	}
	return err
}

// search requests a page of a window. If the answer is too large, or the appliance rejects
// the limit, it requests half as many records. It returns errOffset if the appliance
// rejects the offset itself.
func (r *Records) search(ctx context.Context, l recordList, offset int, ttl time.Duration) (recordRows, error) {
	s := appliance.RecordSearch{
		From: l.From, Until: l.Until, Types: r.o.Types, Filter: r.o.Filter, Offset: offset, ContextTTL: ttl,
	}
	bare := 0 // the limit at which the cursor was left out; 0: it was not
	for {
		s.Limit = r.limit.now
		err := r.request(ctx, s)
		switch {
		case err == nil:
			r.limit.grow()
			if s.Limit == bare {
				r.o.Log.Info("the appliance rejects requests for a cursor; its records are read by offset")
				r.noCursors = true
			}
			return r.rows(s.Limit), nil
		case errors.Is(err, appliance.ErrTooLarge):
			if !r.limit.halve() {
				return r.searchSingly(ctx, s)
			}
		case limitMayBeRefused(err) && s.ContextTTL > 0 && r.o.Store == StoreAuto:
			bare, s.ContextTTL = s.Limit, 0 // it may be the cursor that is rejected
		case limitMayBeRefused(err) && r.limit.halve():
			r.limit.ceiling = r.limit.now
		case r.recordAtFault(ctx, err):
			if !r.limit.halve() {
				return r.searchSingly(ctx, s)
			}
		case !limitMayBeRefused(err):
			return recordRows{}, err
		default:
			r.limit = newPageLimit(r.o.PageSize) // the limit was not the reason
			behind := s
			behind.Offset, behind.Limit = offset+minLimit, 1
			if offset == 0 || r.request(ctx, behind) == nil { // nor the offset: a larger one is accepted
				return recordRows{}, err
			}
			return recordRows{}, fmt.Errorf("%w: %w", errOffset, err)
		}
	}
}

// next requests the page after a cursor.
func (r *Records) next(ctx context.Context, cursor string, ttl time.Duration) (recordRows, error) {
	err := r.ask(func() error { return r.client.NextRecords(ctx, cursor, ttl, &r.page) })
	if err != nil {
		return recordRows{}, err
	}
	return r.rows(r.limit.now), nil
}

// rows parses the page that was returned.
func (r *Records) rows(limit int) recordRows {
	r.notice()
	r.parsed = r.parsed[:0]
	for _, o := range r.page.Objects {
		r.parsed = append(r.parsed, recordRowOf(o))
	}
	return recordRows{r.parsed, limit, r.page.Total, r.page.Cursor, r.page.TerminatedEarly}
}

func recordRowOf(o appliance.Object) recordRow {
	record := transform.ParseRecord(o.Raw, o.Repaired)
	return recordRow{record: record, raw: o.Raw, hash: hashOf(record.ID), key: record.ID}
}

// hashOf returns the hash of an id that is stored in lists. It must never change: lists
// outlive the process.
func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:hashSize])
}

// storeWarning is a warning of the record store.
type storeWarning struct {
	text string
	at   time.Time // when it was logged
}

// warnEvery is the shortest time between two log lines with the record store's warnings.
const warnEvery = time.Minute

// notice counts the record store's warnings about a query, and logs them if they differ
// from those logged last: at most once per warnEvery, since a text may differ in every
// answer.
func (r *Records) notice() {
	warnings := strings.Join(r.page.Warnings, "; ")
	if r.page.TerminatedEarly {
		warnings = strings.TrimPrefix(warnings+"; the search was terminated early", "; ")
	}
	if warnings != "" {
		r.count(r.o.Metrics.warnings, 1)
		if now := r.o.Now(); warnings != r.warned.text && now.Sub(r.warned.at) >= warnEvery {
			r.o.Log.Warn("the record store warns", "warnings", warnings)
			r.warned = storeWarning{warnings, now}
		}
	}
}

// maxDeadKey bounds the key of a dead letter in bytes, since the appliance chooses it. An
// incomplete character at the cut is dropped: keys are text.
const maxDeadKey = 512

func (r *recordRow) deadLetter(now time.Time) checkpoint.DeadLetter {
	return deadLetter(strings.ToValidUTF8(r.key[:min(len(r.key), maxDeadKey)], ""), r.err, r.raw, now)
}

// answerDates follows the appliance's clock by the dates of its answers, which may come from
// several nodes. Times are in milliseconds since the epoch.
type answerDates struct {
	last     int64     // of the last answer, less skew
	latest   int64     // the latest of all
	skew     int64     // the largest known difference between the dates of two answers
	received time.Time // when the last answer was received, by the local clock
}

// errClockBack means that the appliance's clock went back.
var errClockBack = errors.New("the appliance's clock went back")

// tolerance is how far one answer's time may be behind another's although the clock did
// not go back: answers carry whole seconds.
const tolerance = time.Second

// answer records an answer that was received at a local time. It returns errClockBack if the
// clock went back. If it did by no more than delay, it may be another node whose clock is
// behind: from now on the time that the slowest node would return counts.
func (d *answerDates) answer(date int64, received time.Time, delay time.Duration) error {
	d.last, d.received = date-d.skew, received
	back := d.latest - date
	if d.latest == 0 || back <= max(tolerance.Milliseconds(), d.skew) {
		d.latest = max(d.latest, date)
		return nil
	}
	if back <= delay.Milliseconds() {
		d.skew = back
		d.last = date - d.skew
	}
	return errClockBack
}

// at returns the time that an answer would carry at a local time, or an earlier one; 0 if
// there was no answer yet. It is in whole seconds, as in the answers, so that it is not
// ahead of them.
func (d *answerDates) at(now time.Time) int64 {
	if d.received.IsZero() {
		return 0
	}
	elapsed := max(0, now.Sub(d.received))
	return (d.last + elapsed.Milliseconds()) / 1000 * 1000
}
