package appliance

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ndrbridge/internal/retryafter"
)

// The number of consecutive answers that must agree before their time is trusted.
const (
	// firstDates make the clock known. The default rate limit allows that many requests
	// at once.
	firstDates = 5
	// setDates change a clock that is known: with fewer, a proxy that is often wrong
	// could change it by chance.
	setDates = 8
	// maxStrayDates contradicting answers in a row make the clock unknown again:
	// nothing supports the former offset any more.
	maxStrayDates = 32
	// maxClockRequests limits the consecutive requests to determine the time.
	maxClockRequests = 20
)

// dateTolerance is the maximum difference between answers that agree, in addition to
// network delay: an appliance may have several nodes.
const dateTolerance = 5 * time.Second

// drift is the maximum rate at which two clocks diverge while neither is set: half a
// millisecond per second, the rate at which a clock is slewed.
const drift = 1.0 / 2000

// earliestDate is the first time that is accepted. Clocks before it were never set
// since power was lost; such a time would select everything.
var earliestDate = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// errNoDate is returned for a page without a time, which positions are compared with.
var errNoDate = errors.New("the answer has no valid Date header, which positions depend on: check whether a proxy removes it")

// errUnsetDate is returned if the appliance's clock is before earliestDate.
var errUnsetDate = errors.New("the Date header is before 1990, and positions depend on it: set the clock of the appliance, or of the proxy in front of it")

// errDatesDisagree is returned if the appliance's time could not be determined.
var errDatesDisagree = errors.New("the Date headers of its answers contradict each other, and positions depend on them: check the clocks of all nodes and of any proxy in front of it")

// clock estimates the appliance's clock from the Date headers of its answers. The time
// of an answer is trusted if enough consecutive answers agree on the offset from the
// local clock, so a single wrong header has no effect. The local clock only serves to
// compare answers: if a clock is consistently wrong, that is the appliance's clock.
//
// A Date has whole seconds, and was written between request and answer: each answer
// bounds the offset, and all of them together bound it closely. A clock is safe for
// concurrent use.
type clock struct {
	// base is when the clock was created. Local times are measured from it, so that
	// setting the local clock has no effect.
	base  time.Time
	now   func() time.Time
	first int // number of answers that make the clock known: firstDates
	// disbelieved, if set, is called for a Date that was ignored. expected is the
	// appliance's time instead; zero if it is not known.
	disbelieved func(date, expected time.Time)
	// set, if set, is called when the clock becomes known, and when it was set.
	set func(ahead time.Duration, first bool)

	mu     sync.Mutex
	known  bool
	ahead  bounds // while known
	next   bounds // agreed on by the last answers, if different from ahead
	nextN  int    // number of answers that agree on next
	strays int    // consecutive answers that were ignored
	count  uint64 // answers that were ignored
}

func newClock(o Options) *clock {
	c := &clock{now: o.Now, first: firstDates, disbelieved: o.DateDisbelieved, set: o.ClockSet}
	if c.now == nil {
		c.now = time.Now
	}
	c.base = c.now()
	return c
}

// bounds are the bounds of the appliance's offset from the local clock, not counting
// changes of the local clock since base.
type bounds struct {
	low, high time.Duration
	at        time.Time // when the last answer was received
}

// with combines two observations that agree. ok is false if they do not.
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

// stamp holds the times of an answer.
type stamp struct {
	date           time.Time // zero if it has no valid Date
	sent, answered time.Time // of the request and the answer, by the local clock
}

// learn records an answer.
func (c *clock) learn(header http.Header, sent, answered time.Time) stamp {
	s := stamp{sent: sent, answered: answered}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return s
	}
	s.date = date
	c.mu.Lock()
	known, expected := c.known, c.earliest(sent)
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

// seen returns the bounds that an answer implies.
func (c *clock) seen(s stamp) bounds {
	ahead := s.date.Sub(c.base.Round(0))
	return bounds{ahead - s.answered.Sub(c.base), ahead + time.Second - s.sent.Sub(c.base), s.answered}
}

// localAhead returns the middle of b relative to the local clock as it is now.
func (c *clock) localAhead(b bounds) time.Duration {
	now := c.now()
	set := now.Round(0).Sub(c.base.Round(0)) - now.Sub(c.base)
	return (b.low+b.high)/2 - set
}

// observe records an answer. It reports whether the answer's time is trusted, and
// whether it changed the clock. c.mu is held.
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

// stray counts an answer that is ignored. c.mu is held.
func (c *clock) stray() {
	if !c.known {
		return
	}
	c.count++
	if c.strays++; c.strays >= maxStrayDates {
		c.known, c.strays, c.nextN = false, 0, 0
	}
}

// earliest returns the appliance's time at a local time, or slightly less, in whole
// seconds like its answers. c.mu is held, and the clock is known.
func (c *clock) earliest(at time.Time) time.Time {
	since := time.Duration(float64(at.Sub(c.ahead.at).Abs()) * drift)
	return c.base.Round(0).Add(at.Sub(c.base) + c.ahead.low - since).UTC().Truncate(time.Second)
}

// agrees reports whether an answer's time is consistent with those before it.
func (c *clock) agrees(s stamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || s.date.IsZero() || s.date.Before(earliestDate) {
		return false
	}
	_, ok := c.ahead.with(c.seen(s))
	return ok
}

// expected returns the appliance's time at a local time, by the trusted answers. ok is
// false while the clock is not known.
func (c *clock) expected(at time.Time) (t time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.earliest(at), c.known
}

// skew returns the middle of the known offset, or, while it is not known, of what the
// last answers imply.
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

// ClockSkew returns how far the appliance's clock is ahead of the local one, by the
// Date headers that are trusted; negative if it is behind. The error is at most half a
// second plus half the duration of the quickest recent request. ok is false before the
// first answer.
func (c *Client) ClockSkew() (ahead time.Duration, ok bool) { return c.link.clock.skew() }

// DisbelievedDates counts the answers whose Date header was ignored because it
// contradicts those of earlier answers.
func (c *Client) DisbelievedDates() uint64 {
	clock := c.link.clock
	clock.mu.Lock()
	defer clock.mu.Unlock()
	return clock.count
}

// timeOf returns the appliance's time when it gave an answer. If its clock is not
// known, or the answer contradicts it, timeOf sends cheap requests, on connections of
// their own, until enough answers agree.
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
			probe = r // permitted, but more expensive
			continue
		}
		if err != nil {
			return time.Time{}, err
		}
		if other.date.IsZero() {
			return time.Time{}, fault(errNoDate)
		}
		if clock.agrees(other) && !clock.agrees(s) {
			t, _ := clock.expected(s.sent)
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

// isRefused reports whether an appliance refuses this request while it answers others.
func isRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusForbidden || e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed)
}

// retryAfter returns the wait that an answer requests. A date is compared with the
// answer's own Date, or with the appliance's known time if that gives a shorter wait: a
// wrong Date must not cause a wait of a day.
func (c *clock) retryAfter(header http.Header, sent time.Time) time.Duration {
	wait, _ := retryafter.Parse(header)
	expected, known := c.expected(sent)
	if !known || wait == 0 {
		return wait
	}
	corrected := http.Header{"Retry-After": header["Retry-After"], "Date": {expected.Format(http.TimeFormat)}}
	if other, ok := retryafter.Parse(corrected); ok {
		wait = min(wait, other)
	}
	return wait
}
