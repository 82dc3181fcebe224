package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/transform"
)

// recordRow is one record of a page.
type recordRow struct {
	record transform.Record
	raw    []byte // nil where it was too large to be read
	hash   uint64 // of its id
	key    string // of its dead letter
	err    error  // why it cannot become an event
}

// recordRows is a page. Its records are valid until the next is asked for.
type recordRows struct {
	rows   []recordRow
	limit  int    // how many were asked for
	total  int64  // -1: not told
	cursor string // empty: none
	early  bool   // the store did not look at everything
}

// errClockBack says that the appliance's clock went back.
var errClockBack = errors.New("the appliance's clock went back")

// errOffset says that the appliance refuses an offset, whatever the limit.
var errOffset = errors.New("the offset was refused")

// tolerance is how far one answer's time may lie behind another's without its
// being a clock that went back: they come in whole seconds.
const tolerance = time.Second

// ask makes a request for a page, and takes the appliance's time from it.
func (r *Records) ask(request func() error) error {
	if err := request(); err != nil {
		return err
	}
	told := r.page.Date.UnixMilli()
	r.date, r.answered = told-r.skew, r.o.Now()
	if back := r.latest - told; r.latest > 0 && back > max(tolerance.Milliseconds(), r.skew) {
		if back <= r.o.Delay.Milliseconds() {
			// It may be another node, that lags behind: from now on the clock is read
			// as the slowest would tell it.
			r.skew = back
			r.date = told - r.skew
		}
		return errClockBack
	}
	r.latest = max(r.latest, told)
	return nil
}

// clock is what the appliance's answer would tell now, or less; 0 where there was
// none. It is whole seconds, as its answers tell, so that it is not ahead of them.
func (r *Records) clock() int64 {
	if r.answered.IsZero() {
		return 0
	}
	elapsed := max(0, r.o.Now().Sub(r.answered))
	return (r.date + elapsed.Milliseconds()) / 1000 * 1000
}

// askTime asks for the appliance's time, by a search that finds nothing.
func (r *Records) askTime(ctx context.Context) error {
	if err := r.searchOne(ctx, 1, 2); err != nil {
		return fmt.Errorf("ask for the appliance's time: %w", err)
	}
	return nil
}

// searchOne asks for the first record from one time until another.
func (r *Records) searchOne(ctx context.Context, from, until int64) error {
	s := appliance.RecordSearch{From: from, Until: until, Types: r.o.Types, Filter: r.o.Filter, Limit: 1}
	err := r.ask(func() error { return r.client.SearchRecords(ctx, s, &r.page) })
	if err == nil {
		r.notice()
	}
	return err
}

// search asks for a page of a window. An answer that is too large, or a limit
// that the appliance refuses, is asked for again with half the records.
// errOffset where the appliance refuses the offset itself.
func (r *Records) search(ctx context.Context, l recordList, offset int, ttl time.Duration) (recordRows, error) {
	s := appliance.RecordSearch{
		From: l.From, Until: l.Until, Types: r.o.Types, Filter: r.o.Filter, Offset: offset, ContextTTL: ttl,
	}
	bare := 0 // the limit with which no cursor was asked for any more
	for {
		s.Limit = r.limit.now
		err := r.ask(func() error { return r.client.SearchRecords(ctx, s, &r.page) })
		switch {
		case err == nil:
			r.limit.grow()
			if s.Limit == bare {
				r.o.Log.Info("the appliance refuses to be asked for a cursor; its records are read by offset")
				r.noCursors = true
			}
			return r.rows(s.Limit), nil
		case errors.Is(err, appliance.ErrTooLarge):
			if !r.limit.halve() {
				return r.searchSingly(ctx, s)
			}
		case r.recordAtFault(ctx, err):
			if !r.limit.halve() {
				return r.searchSingly(ctx, s)
			}
		case !limitMayBeRefused(err):
			return recordRows{}, err
		case s.ContextTTL > 0 && r.o.Store == StoreAuto:
			bare, s.ContextTTL = s.Limit, 0 // it may be that which is refused
		case r.limit.halve():
			r.limit.ceiling = r.limit.now
		default:
			r.limit = newPageLimit(r.o.PageSize) // it was not for the limit
			if offset > 0 {
				err = fmt.Errorf("%w: %w", errOffset, err)
			}
			return recordRows{}, err
		}
	}
}

// next asks for the page behind a cursor.
func (r *Records) next(ctx context.Context, cursor string, ttl time.Duration) (recordRows, error) {
	err := r.ask(func() error { return r.client.NextRecords(ctx, cursor, ttl, &r.page) })
	if err != nil {
		return recordRows{}, err
	}
	return r.rows(r.limit.now), nil
}

// rows reads the page that came.
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

// hashOf stands for an id in lists. It must stay what it is: lists outlive the
// process.
func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:hashSize])
}

// warnEvery is the shortest time between two log lines with the record store's warnings.
const warnEvery = time.Minute

// notice counts what the record store said about a query, and logs it if it is not what
// was logged last: once per warnEvery, since a text may differ at every answer.
func (r *Records) notice() {
	said := strings.Join(r.page.Warnings, "; ")
	if r.page.TerminatedEarly {
		said = strings.TrimPrefix(said+"; the search was terminated early", "; ")
	}
	if said != "" {
		r.o.Metrics.warned(r.source)
		if now := r.o.Now(); said != r.warnings && now.Sub(r.warnedAt) >= warnEvery {
			r.o.Log.Warn("the record store warns", "said", said)
			r.warnings, r.warnedAt = said, now
		}
	}
}
