package poller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
)

// minLimit is the smallest page to request: one row to join on, and one to make progress
// with.
const minLimit = 2

// pageLimit is how many objects to request per page.
type pageLimit struct {
	now     int
	ceiling int // the most that the appliance accepts
	most    int // the most that the configuration allows
	good    int // pages in a row that were returned as requested
}

func newPageLimit(most int) pageLimit {
	most = max(most, minLimit)
	return pageLimit{now: most, ceiling: most, most: most}
}

// halve halves the limit after a page that was too large. It reports false if the limit
// cannot be smaller.
func (l *pageLimit) halve() bool {
	if l.now <= minLimit {
		return false
	}
	l.now, l.good = max(minLimit, l.now/2), 0
	return true
}

// grow raises the limit after some pages that were returned as requested.
func (l *pageLimit) grow() {
	const pages = 4
	if l.good++; l.good%pages == 0 {
		l.ceiling = min(2*l.ceiling, l.most)
		l.now = min(2*l.now, l.ceiling)
	}
}

// remedy is how to continue after a page failed.
type remedy int

const (
	failPoll   remedy = iota // the poll fails
	shrinkPage               // request the page again: its limit was lowered
	splitPage                // read the objects of the page one by one
)

// remedy returns how to continue after a page failed with err. atFault reports whether an
// object of the page is the reason; it is called if the limit cannot be.
func (s *stream) remedy(err error, atFault func() bool) remedy {
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
	case limitMayBeRefused(err) && s.limit.halve():
		s.limit.ceiling = s.limit.now
		return shrinkPage
	case atFault():
	default:
		if limitMayBeRefused(err) { // the limit was not the reason
			s.limit = newPageLimit(s.limit.most)
		}
		return failPoll
	}
	if s.limit.halve() {
		return shrinkPage
	}
	return splitPage
}

// limitMayBeRefused reports whether err may mean that the appliance rejects a large limit.
// Which status it uses for that is not documented.
func limitMayBeRefused(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && !e.Refused() && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity)
}

// unreadableAfter is how many polls in a row must fail for one object before it becomes a
// dead letter and the stream continues without it.
const unreadableAfter = 5

// errUnreadable means that the appliance lists an object, or has one in a page, but does
// not return it in a readable form.
var errUnreadable = errors.New("the appliance has it, but does not return it in a readable form")

// errNoOther means that there is no other object near the one that cannot be read.
var errNoOther = errors.New("there is none near it")

// maxDeadBody bounds the part of an object that its dead letter keeps, in bytes.
const maxDeadBody = 64 << 10

// deadLetter returns the dead letter of an object that did not become an event because of
// err. raw is nil if the object was not read.
func deadLetter(key string, err error, raw []byte, now time.Time) checkpoint.DeadLetter {
	class := "invalid"
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
		class = "too_large"
	case errors.Is(err, errUnreadable):
		class = "unreadable"
	}
	return checkpoint.DeadLetter{
		Key: key, Class: class, Reason: err.Error(), Time: now,
		Body: bytes.Clone(raw[:min(len(raw), maxDeadBody)]),
	}
}

// mayBeObject reports whether a request for one object, or for a page, may have failed
// because of what it asked for: not because it was cancelled, throttled, or had no memory
// here.
func mayBeObject(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && ctx.Err() == nil && !e.Throttled() && !errors.Is(err, appliance.ErrNoMemory)
}

// pageFailures counts the polls in a row that failed at a page, so that a page that keeps
// failing is read in parts.
type pageFailures struct {
	polls int  // in a row
	apart bool // a page was read in parts since the poll began
}

// atFault counts a failure, and reports whether an object is its reason: the page has failed
// often enough, while probe, a request without the object, succeeds. The first time it logs
// warning.
func (f *pageFailures) atFault(ctx context.Context, err error, probe func() error, log *slog.Logger, warning string) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok || e.Refused() || !mayBeObject(ctx, err) {
		return false
	}
	if !f.apart {
		f.polls++
	}
	if f.polls < unreadableAfter || probe() != nil {
		return false
	}
	if !f.apart {
		f.apart = true
		log.Warn(warning, "error", err)
	}
	return true
}

// ended records a successful poll. While pages have to be read in parts, the next poll
// does not wait for as many failures again.
func (f *pageFailures) ended() {
	if !f.apart {
		f.polls = 0
	}
	f.apart = false
}

// failedPolls counts, by object, the polls in a row in which it could not be read.
type failedPolls map[string]int

// maxFailedPolls bounds the number of objects counted.
const maxFailedPolls = 10_000

// failed counts a failed poll, and returns how many failed in a row. The caller deletes
// the key when the object could be read.
func (f failedPolls) failed(key string) int {
	if len(f) >= maxFailedPolls {
		clear(f)
	}
	f[key]++
	return f[key]
}
