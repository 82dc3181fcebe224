package appliance

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ndrbridge/internal/retryafter"
)

// How many answers in a row must agree until their time is believed.
const (
	// firstDates make the clock known. So many requests one may make at once at the
	// default rate limit.
	firstDates = 5
	// setDates move a clock that is known: fewer would let a proxy that is often
	// wrong move it by chance.
	setDates = 8
	// maxStrayDates, none of them believed, make the clock unknown again: nothing
	// supports any more what it was believed to be.
	maxStrayDates = 32
	// maxClockRequests bounds what is asked at once until the clock is known.
	maxClockRequests = 20
)

// dateTolerance is how far apart answers may be that agree, apart from what the
// network explains: those of several nodes are.
const dateTolerance = 5 * time.Second

// drift is by how much two clocks come apart at most while none is set: half a
// millisecond in a second, which is how fast a clock is slewed.
const drift = 1.0 / 2000

// earliestDate is the first time that is believed. Before it lie the clocks that
// nobody has set since the power was lost: by one of these, now would be the
// beginning of everything.
var earliestDate = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// errNoDate is a page without the time that positions are held against.
var errNoDate = errors.New("the answer has no Date header that can be read, and positions depend on it: does a proxy strip it?")

// errUnsetDate says that the appliance's clock stands before earliestDate.
var errUnsetDate = errors.New("the Date header says that it is before 1990, and positions depend on it: set the clock of the appliance, or of the proxy in front of it")

// errDatesDisagree says that the appliance's time could not be found out.
var errDatesDisagree = errors.New("the Date headers of its answers contradict each other, and positions depend on them: is there a proxy with a wrong clock in front of it, or one of several nodes with one?")

// clock is the appliance's clock, as the Date headers of its answers show it. The
// time of an answer is believed if enough answers in a row agree on how far that clock
// is ahead of the local one, so that a single wrong header moves nothing. The local
// clock serves to compare one answer's time with another's, and for no more: a
// clock that is wrong all the time is what the appliance's clock is.
//
// A Date has whole seconds, and was written at some time between request and answer:
// each answer bounds how far the clock is ahead, and all of them together do so
// closely. A clock is safe for concurrent use.
type clock struct {
	// base is when the clock was made. Local times are counted from it, so that a local
	// clock that is set changes nothing.
	base  time.Time
	now   func() time.Time
	first int // answers that make the clock known: firstDates
	// disbelieved, if set, is called for a Date that was not believed. expected is the
	// appliance's time instead; zero: it is not known.
	disbelieved func(date, expected time.Time)
	// set, if set, is called when the clock becomes known, and when it was set.
	set func(ahead time.Duration, first bool)

	mu     sync.Mutex
	known  bool
	ahead  bounds // while known
	next   bounds // what the last answers agree on, if that is another time
	nextN  int    // how many do
	strays int    // answers in a row that were not believed
	count  uint64 // answers that were not believed
}

func newClock(o Options) *clock {
	c := &clock{now: o.Now, first: firstDates, disbelieved: o.DateDisbelieved, set: o.ClockSet}
	if c.now == nil {
		c.now = time.Now
	}
	c.base = c.now()
	return c
}

// bounds are those of how far the appliance's clock is ahead of the local one, as that
// would be had nobody set it since base.
type bounds struct {
	low, high time.Duration
	at        time.Time // when the last answer came that they are of
}

// with returns the bounds of two observations that agree. ok is false if they do not.
func (b bounds) with(o bounds) (both bounds, ok bool) {
	since := time.Duration(float64(o.at.Sub(b.at).Abs()) * drift)
	low, high := b.low-since, b.high+since
	switch {
	case o.low <= high && low <= o.high:
		return bounds{max(low, o.low), min(high, o.high), o.at}, true
	case o.low <= high+dateTolerance && low-dateTolerance <= o.high:
		return o, true
	}
	return o, false
}

// stamp is when an answer was given.
type stamp struct {
	date            time.Time // zero: it has no Date that can be read
	asked, answered time.Time // by the local clock
}

// learn takes note of an answer.
func (c *clock) learn(header http.Header, asked, answered time.Time) stamp {
	s := stamp{asked: asked, answered: answered}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return s
	}
	s.date = date
	c.mu.Lock()
	known, expected := c.known, c.earliest(asked)
	believed, moved := c.observe(s)
	ahead := c.localAhead(c.ahead)
	c.mu.Unlock()
	switch {
	case moved && c.set != nil:
		c.set(ahead, !known)
	case !believed && known && c.disbelieved != nil:
		c.disbelieved(date, expected)
	}
	return s
}

// seen is what an answer says of how far the clock is ahead.
func (c *clock) seen(s stamp) bounds {
	ahead := s.date.Sub(c.base.Round(0))
	return bounds{ahead - s.answered.Sub(c.base), ahead + time.Second - s.asked.Sub(c.base), s.answered}
}

// localAhead is the middle of b, against the local clock as it is now.
func (c *clock) localAhead(b bounds) time.Duration {
	now := c.now()
	set := now.Round(0).Sub(c.base.Round(0)) - now.Sub(c.base)
	return (b.low+b.high)/2 - set
}

// observe returns whether an answer's time is believed, and whether it moved the
// clock. c.mu is held.
func (c *clock) observe(s stamp) (believed, moved bool) {
	if s.date.Before(earliestDate) {
		c.stray()
		return false, false
	}
	seen := c.seen(s)
	if c.known {
		if both, ok := c.ahead.with(seen); ok {
			c.ahead, c.nextN, c.strays = both, 0, 0
			return true, false
		}
	}
	need := c.first
	if c.known {
		need = setDates
	}
	if both, ok := c.next.with(seen); ok && c.nextN > 0 {
		c.next = both
		c.nextN++
	} else {
		c.next, c.nextN = seen, 1
	}
	if c.nextN < need {
		c.stray()
		return false, false
	}
	c.known, c.ahead, c.nextN, c.strays = true, c.next, 0, 0
	return true, true
}

// stray counts an answer that is not believed. c.mu is held.
func (c *clock) stray() {
	if !c.known {
		return
	}
	c.count++
	if c.strays++; c.strays >= maxStrayDates {
		c.known, c.strays, c.nextN = false, 0, 0
	}
}

// earliest is the appliance's time at a moment of the local clock, or a little less:
// in whole seconds, as its answers have it. c.mu is held, and the clock known.
func (c *clock) earliest(at time.Time) time.Time {
	since := time.Duration(float64(at.Sub(c.ahead.at).Abs()) * drift)
	return c.base.Round(0).Add(at.Sub(c.base) + c.ahead.low - since).UTC().Truncate(time.Second)
}

// agrees reports whether an answer's time is what those before it lead to expect.
func (c *clock) agrees(s stamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || s.date.IsZero() || s.date.Before(earliestDate) {
		return false
	}
	_, ok := c.ahead.with(c.seen(s))
	return ok
}

// expected is the appliance's time at a moment of the local clock, by the answers that
// were believed. ok is false while the clock is not known.
func (c *clock) expected(at time.Time) (t time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.earliest(at), c.known
}

// skew returns the middle of what is known of how far the clock is ahead, or, while
// that is not known, of what the last answers say.
func (c *clock) skew() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known:
		return c.localAhead(c.ahead), true
	case c.nextN > 0:
		return c.localAhead(c.next), true
	}
	return 0, false
}

// ClockSkew is how far the appliance's clock is ahead of ours, by the Date headers of
// its answers that are believed; negative: behind. It is off by half a second at most,
// and by half of the time that the quickest of the last requests took. ok is false
// before the first answer.
func (c *Client) ClockSkew() (ahead time.Duration, ok bool) { return c.link.clock.skew() }

// DisbelievedDates counts the answers whose Date header was not believed, since it
// contradicts those of the answers before it.
func (c *Client) DisbelievedDates() uint64 {
	clock := c.link.clock
	clock.mu.Lock()
	defer clock.mu.Unlock()
	return clock.count
}

// timeOf returns the appliance's time when it gave an answer. While its clock is not
// known, or if the answer contradicts it, the appliance is asked again, for something
// that costs little and on connections of their own, until enough answers agree.
func (c *Client) timeOf(ctx context.Context, r request, s stamp) (time.Time, error) {
	clock := c.link.clock
	fault := func(err error) error {
		return &Error{Method: r.method, Path: c.base.Path + r.path, Status: http.StatusOK, Err: err}
	}
	if s.date.IsZero() {
		return time.Time{}, fault(errNoDate)
	}
	unset := s.date.Before(earliestDate)
	probe := c.versionRequest()
	for range maxClockRequests {
		if clock.agrees(s) {
			return s.date, nil
		}
		var other stamp
		probe.stamp, probe.alone = &other, true
		err := c.do(ctx, probe, func(*http.Response) error { return nil })
		if repeatable := r.repeatable || r.method == http.MethodGet; isRefused(err) && probe.path != r.path && repeatable {
			probe = r // which is allowed, and costs more
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		if other.date.IsZero() {
			return time.Time{}, fault(errNoDate)
		}
		if clock.agrees(other) && !clock.agrees(s) {
			t, _ := clock.expected(s.asked)
			return t, nil
		}
		unset = unset && other.date.Before(earliestDate)
	}
	switch {
	case clock.agrees(s):
		return s.date, nil
	case unset:
		return time.Time{}, fault(errUnsetDate)
	}
	return time.Time{}, fault(errDatesDisagree)
}

// isRefused reports whether an appliance answers other requests, but not this one.
func isRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusForbidden || e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed)
}

// retryAfter is the wait that an answer asks for. A date counts from the answer's own
// Date, or from the appliance's time if that is less: a Date that is wrong must not
// make anybody wait for a day.
func (c *clock) retryAfter(header http.Header, asked time.Time) time.Duration {
	wait, _ := retryafter.Parse(header)
	expected, known := c.expected(asked)
	if !known || wait == 0 {
		return wait
	}
	corrected := http.Header{"Retry-After": header["Retry-After"], "Date": {expected.Format(http.TimeFormat)}}
	if other, ok := retryafter.Parse(corrected); ok {
		wait = min(wait, other)
	}
	return wait
}
