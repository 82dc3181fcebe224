package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// RecordsClient is the part of an appliance's interface that a records source uses.
// *appliance.Client implements it.
type RecordsClient interface {
	SearchRecords(ctx context.Context, s appliance.RecordSearch, page *appliance.RecordPage) error
	NextRecords(ctx context.Context, cursor string, ttl time.Duration, page *appliance.RecordPage) error
	RecordID(ctx context.Context, s appliance.RecordSearch) (id string, err error)
}

// RecordStore is where an appliance keeps its records. It determines whether there are
// cursors.
type RecordStore string

const (
	StoreAuto       RecordStore = "auto"        // cursors if the appliance returns them
	StoreOwn        RecordStore = "own"         // the product's own record store, which has cursors
	StoreThirdParty RecordStore = "third_party" // no cursors: pages are requested by offset
)

// RecordsOptions configures a records source. The durations are compared with the
// appliance's clock.
type RecordsOptions struct {
	// Now also serves to estimate the appliance's time between its answers, which are
	// decisive. Records up to a millisecond older than Start may be read too.
	StreamOptions
	Query  string          // the name of the query, part of the stream's
	Types  []string        // record types such as ~http; empty: all
	Filter json.RawMessage // the interface's filter object; nil: none
	// Window is the length of a window near the present.
	Window time.Duration
	// Delay is how late a record may be stored and still be read at once.
	Delay time.Duration
	// Recheck is the age at which a window is checked again for records that were
	// stored later than Delay. 0: never.
	Recheck time.Duration
	// ContextTTL is how long an unused cursor is valid.
	ContextTTL time.Duration
	// MaxWindowRecords bounds the records of one window, and with it the memory used;
	// above 0.
	MaxWindowRecords int
	Store            RecordStore
}

// Records is the source of one query's records. It reads closed windows, one after the
// other, each of them page by page. Its invariants:
//
//   - Every record that was visible when the window with its timestamp was read is
//     in the journal, and so is every one that was visible when that window was
//     Recheck old.
//   - The position is never ahead of the appliance's clock less the delay, as of
//     the first answer of the window: a record stored later is still ahead of the
//     position, unless it is stored later than the delay.
//   - A committed record is named by a list as long as a window that is still to
//     be read can show it, so that it is not committed again.
//   - No decision depends on the local clock alone: an answer counts only if its
//     own time proves that the window was closed.
type Records struct {
	stream
	client RecordsClient
	o      RecordsOptions

	position recordsPosition
	written  int64 // Until of the committed position

	reading *reading // the window being read; nil: none

	page   appliance.RecordPage
	parsed []recordRow
	dates  answerDates
	warned storeWarning // that was logged last
	size   windowSize

	noCursors bool // the appliance rejects requests for cursors
	byOffset  int  // windows to read by offset before cursors are tried again

	inARow struct {
		failures      int // attempts that ended with an error
		incomplete    int // windows that stayed incomplete
		early         int // windows that were divided because their search was terminated early
		recheckErrors int
	}
}

// NewRecords returns a source that continues from the position in store.
func NewRecords(client RecordsClient, store Store, o RecordsOptions) *Records {
	r := &Records{
		stream: newStream(store, transform.StreamRecords+"/"+o.Query, o.StreamOptions),
		client: client, o: o,
		size: windowSize{span: max(1, o.Window.Milliseconds()), reach: maxSpan.Milliseconds(), most: o.MaxWindowRecords},
	}
	r.page.Bind()
	return r
}

// Poll reads one window, if there is anything to read, and once it has caught up it checks
// one due window again. Each page is committed by itself, so an error loses nothing that
// was read before it. It returns Now while there is more to read or to check again.
func (r *Records) Poll(ctx context.Context) (Next, error) {
	defer func() {
		r.page.Release()
		r.parsed = nil
	}()
	next, err := r.run(ctx, r.load, r.poll)
	if errors.Is(err, errClockBack) {
		return Soon, r.goBack(ctx)
	}
	return next, err
}

func (r *Records) poll(ctx context.Context) (Next, error) {
	if r.reading == nil {
		if err := r.open(ctx); err != nil {
			return Idle, err
		}
	}
	if w := r.reading; w != nil {
		end, err := r.read(ctx, w)
		if err != nil {
			r.shorten(ctx, w, err)
			return Idle, err
		}
		r.inARow.failures = 0
		r.pages.ended()
		// The rest of a window that was given up is read with the next one.
		r.reading = nil
		switch end {
		case tooMany:
			r.size.narrow(r.length(w), w.attempt.total)
			return Now, nil
		case tooYoung:
			return Now, nil
		}
		if r.measure(); w.cut && r.behind() > 0 {
			// A stream that never quite catches up must recheck windows too.
			_, err := r.recheck(ctx)
			return Now, err
		}
	}
	r.progress.caughtUp(r.position.Until)
	return r.recheck(ctx)
}

// load takes over the committed position, and makes the first contact if there is none.
func (r *Records) load(ctx context.Context) error {
	r.reading = nil
	types, filter := strings.Join(r.o.Types, ","), string(r.o.Filter)
	if r.committed == nil {
		start, err := r.start(ctx)
		if err != nil {
			return err
		}
		// What start means is committed now, before the first event: a crash after this
		// does not change it.
		p := recordsPosition{Until: start, Start: start, URL: r.o.URL, Types: types, Filter: filter}
		if err := r.commit(ctx, p, checkpoint.Commit{}); err != nil {
			return err
		}
		r.o.Log.Info("first contact", "start", time.UnixMilli(start).UTC())
		return nil
	}
	p, err := parsePosition[recordsPosition](r.committed)
	if err != nil {
		return err
	}
	if p.URL != r.o.URL {
		r.o.Log.Warn("the appliance's address changed; reading its records continues from the last position", "was", p.URL, "is", r.o.URL)
	}
	if p.Types != types || p.Filter != filter {
		r.o.Log.Warn("the query changed; reading its records continues from the last position",
			"types_were", p.Types, "types_are", types, "filter_was", p.Filter, "filter_is", filter)
	}
	r.written = p.Until
	r.dates.latest = max(r.dates.latest, p.Clock)
	p.URL, p.Types, p.Filter = r.o.URL, types, filter
	r.position = p
	r.progress.begin()
	return nil
}

// start returns where to begin, in the appliance's time.
func (r *Records) start(ctx context.Context) (int64, error) {
	if err := r.askTime(ctx); err != nil {
		return 0, err
	}
	now := r.dates.last
	start := r.o.Start(time.UnixMilli(now))
	if !start.IsZero() {
		return min(max(1, start.UnixMilli()), now), nil // a future time is the same as now
	}
	// The beginning is the first record that the appliance keeps. If it has none, records
	// that are stored late may still appear.
	first := now - max(r.o.Recheck, r.o.Delay).Milliseconds()
	if err := r.searchOne(ctx, 1, now); err != nil && !errors.Is(err, appliance.ErrTooLarge) {
		return 0, fmt.Errorf("ask for the first record: %w", err)
	} else if err != nil || r.page.TerminatedEarly {
		return 1, nil // it is not known
	}
	for _, o := range r.page.Objects {
		first = min(first, transform.ParseRecord(o.Raw, o.Repaired).Time)
	}
	if len(r.page.Objects) == 0 || first <= 1 {
		return max(1, first), nil
	}
	// If the appliance did not sort, it returned another record than the first.
	if err := r.searchOne(ctx, 1, first-1); err != nil && !errors.Is(err, appliance.ErrTooLarge) {
		return 0, fmt.Errorf("ask for records before the first: %w", err)
	} else if err != nil || r.page.TerminatedEarly || len(r.page.Objects) > 0 {
		return 1, nil
	}
	return first, nil
}

// goBack moves the position back with the appliance's clock: a record stored from now on
// has a timestamp before the old position. Records that the lists still name are not
// delivered again.
func (r *Records) goBack(ctx context.Context) error {
	r.o.Log.Warn("the appliance's clock went back; records are read again from before that",
		"clock_was", time.UnixMilli(r.dates.latest).UTC(), "clock_is", time.UnixMilli(r.dates.last).UTC())
	r.dates.latest, r.reading = r.dates.last+r.dates.skew, nil
	if !r.loaded { // the next poll reads the position
		return nil
	}
	p := r.position
	// Windows that have become young again are read as such.
	to := r.dates.last - max(r.o.Recheck, r.o.Delay).Milliseconds()
	if p.Start <= r.dates.last-r.o.Delay.Milliseconds() {
		to = max(to, p.Start)
	}
	p.Until = max(1, min(p.Until, to))
	return r.commit(ctx, p, checkpoint.Commit{})
}

// recheckAttempts is how often the second check of a window is attempted.
const recheckAttempts = 20

// recheck checks one due window again. Everything new was read: a failing check must not
// slow that down.
func (r *Records) recheck(ctx context.Context) (Next, error) {
	due := r.due()
	if len(due) == 0 {
		return Idle, nil
	}
	l := due[0]
	err := r.recheckWindow(ctx, l)
	e, ok := errors.AsType[*appliance.Error](err)
	switch {
	case err == nil:
		r.inARow.recheckErrors = 0
	case !ok || ctx.Err() != nil || e.Refused() || e.Throttled():
		return Idle, err
	default:
		if r.inARow.recheckErrors++; r.inARow.recheckErrors == 1 {
			r.o.Log.Warn("a window could not be checked again; the next poll retries", "error", err)
		}
		if r.inARow.recheckErrors < recheckAttempts {
			return Idle, nil
		}
		r.inARow.recheckErrors = 0
		r.count(r.o.Metrics.incomplete, 1)
		r.o.Log.Error("a window could not be checked again; records that were stored late may be missing",
			"from", time.UnixMilli(l.From).UTC(), "until", time.UnixMilli(l.Until).UTC(), "error", err)
		l.Due = 0
		if err := r.commit(ctx, r.position.with(l), checkpoint.Commit{}); err != nil {
			return Idle, err
		}
	}
	if len(due) > 1 {
		return Now, nil
	}
	return Idle, nil
}

// due returns the windows that are due to be checked again.
func (r *Records) due() []recordList {
	var due []recordList
	for _, l := range r.position.Lists {
		if l.Due > 0 && l.Due <= r.clock() {
			due = append(due, l)
		}
	}
	return due
}

// recheckWindow requests a window's total, and reads the window again unless the total is
// unchanged.
func (r *Records) recheckWindow(ctx context.Context, l recordList) error {
	err := r.searchOne(ctx, l.From, l.Until)
	switch {
	case err != nil && !errors.Is(err, appliance.ErrTooLarge):
		return fmt.Errorf("ask for the total of a window: %w", err)
	case err == nil && r.dates.last < l.Due:
		return nil
	case err == nil && r.page.Total >= 0 && r.page.Total == l.Total && !r.page.TerminatedEarly:
		l.Due = 0
		return r.commit(ctx, r.position.with(l), checkpoint.Commit{})
	}
	if err := r.begin(ctx, l, true); err != nil {
		return err
	}
	w := r.reading
	r.reading = nil // its list is kept if this fails
	_, err = r.read(ctx, w)
	return err
}

// commit writes c with the position p. An idle stream writes nothing: the position may
// advance a little before it is committed.
func (r *Records) commit(ctx context.Context, p recordsPosition, c checkpoint.Commit) error {
	p = p.pruned()
	p.Clock = r.dates.latest
	ahead := p.Until - r.written
	if r.loaded && len(c.Remember) == 0 && ahead >= 0 && ahead < lazyCommit.Milliseconds() {
		r.position = p
		return nil
	}
	c.ForgetBefore = p.oldest()
	if err := r.write(ctx, c, encodePosition(p)); err != nil {
		r.reading = nil
		return err
	}
	r.position, r.written = p, p.Until
	return nil
}
