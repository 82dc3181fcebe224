package appliance

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ndrbridge/internal/retryafter"
)

const (
	// agreeingDates is how many answers in a row must agree before their time is trusted. The
	// default rate limit allows that many requests at once.
	agreeingDates = 5
	// maxClockRequests limits the consecutive requests to determine the time.
	maxClockRequests = 20
	// dateTolerance is the maximum difference between answers that agree, in addition to
	// network delay: an appliance may have several nodes.
	dateTolerance = 5 * time.Second
	// slowAnswer is the duration of a request whose answer does not correct a known clock.
	slowAnswer = 2 * time.Second
)

// earliestDate is the first time that is accepted. Clocks before it were never set
// since power was lost; such a time would select everything.
var earliestDate = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// errNoDate is returned for a page without a time, which positions are compared with.
var errNoDate = errors.New("the answer has no valid Date header, which positions depend on: check whether a proxy removes it")

// errUnsetDate is returned if the appliance's clock is before earliestDate.
var errUnsetDate = errors.New("the Date header is before 1990, and positions depend on it: set the clock of the appliance, or of the proxy in front of it")

// errDatesDisagree is returned if the appliance's time could not be determined.
var errDatesDisagree = errors.New("the Date headers of its answers contradict each other, and positions depend on them: check the clocks of all nodes and of any proxy in front of it")

// clock knows the offset of the appliance's clock from the local one by the Date header of its
// last answer. An offset that differs is trusted only if enough answers in a row agree on it, so
// a single wrong header has no effect. The local clock only serves to compare answers: if a
// clock is consistently wrong, that is the appliance's clock. A clock is safe for concurrent use.
type clock struct {
	// base is when the clock was created. Local times are measured from it, so that
	// setting the local clock has no effect.
	base  time.Time
	now   func() time.Time
	agree int // number of answers that must agree: agreeingDates
	// disbelieved, if set, is called for a Date that was ignored. expected is the
	// appliance's time instead.
	disbelieved func(date, expected time.Time)
	// set, if set, is called when the clock becomes known, and when it was set.
	set func(ahead time.Duration, first bool)

	mu    sync.Mutex
	known bool
	ahead offset // while known
	next  offset // of the last answers, if it is another one
	nextN int    // number of answers that agree on next
	count uint64 // answers that were ignored while the clock was known
}

func newClock(o Options) *clock {
	c := &clock{now: o.Now, agree: agreeingDates, disbelieved: o.DateDisbelieved, set: o.ClockSet}
	if c.now == nil {
		c.now = time.Now
	}
	c.base = c.now()
	return c
}

// offset is how far the appliance's clock is ahead of the local one, not counting changes of
// the local clock since base: at least low, and at most width more.
type offset struct{ low, width time.Duration }

// agrees reports whether both may be the same.
func (o offset) agrees(other offset) bool {
	return o.low <= other.low+other.width+dateTolerance && other.low <= o.low+o.width+dateTolerance
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

// seen returns the offset that an answer implies: its Date has whole seconds, and was written
// between request and answer.
func (c *clock) seen(s stamp) offset {
	return offset{s.date.Sub(c.base.Round(0)) - s.answered.Sub(c.base), time.Second + s.answered.Sub(s.sent)}
}

// localAhead returns the middle of o relative to the local clock as it is now.
func (c *clock) localAhead(o offset) time.Duration {
	now := c.now()
	set := now.Round(0).Sub(c.base.Round(0)) - now.Sub(c.base)
	return o.low + o.width/2 - set
}

// observe records an answer. It reports whether the answer's time is trusted, and
// whether it changed the clock. c.mu is held.
func (c *clock) observe(s stamp) (believed, moved bool) {
	seen := c.seen(s)
	switch {
	case s.date.Before(earliestDate):
	case c.known && c.ahead.agrees(seen):
		if c.nextN = 0; seen.width <= max(c.ahead.width, slowAnswer) {
			c.ahead = seen
		}
		return true, false
	case c.nextN > 0 && c.next.agrees(seen):
		c.next = seen
		c.nextN++
	default:
		c.next, c.nextN = seen, 1
	}
	if c.nextN >= c.agree {
		c.known, c.ahead, c.nextN = true, c.next, 0
		return true, true
	}
	if c.known {
		c.count++
	}
	return false, false
}

// earliest returns the appliance's time at a local time, or slightly less, in whole
// seconds like its answers. c.mu is held, and the clock is known.
func (c *clock) earliest(at time.Time) time.Time {
	return c.base.Round(0).Add(at.Sub(c.base) + c.ahead.low).UTC().Truncate(time.Second)
}

// agrees reports whether an answer's time is trusted.
func (c *clock) agrees(s stamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known && !s.date.Before(earliestDate) && c.ahead.agrees(c.seen(s))
}

// expected returns the appliance's time at a local time, by the trusted answers. ok is
// false while the clock is not known.
func (c *clock) expected(at time.Time) (t time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.earliest(at), c.known
}

// ClockSkew returns how far the appliance's clock is ahead of the local one, negative if it is
// behind: by its last trusted answer or, if there is none, its last one. The error is at most
// half a second plus half the duration of the request. ok is false before the first answer.
func (c *Client) ClockSkew() (ahead time.Duration, ok bool) {
	clock := c.link.clock
	clock.mu.Lock()
	defer clock.mu.Unlock()
	if clock.known {
		return clock.localAhead(clock.ahead), true
	}
	return clock.localAhead(clock.next), clock.nextN > 0
}

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
