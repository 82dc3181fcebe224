package poller

import (
	"context"
	"errors"

	"ndrbridge/appliance"
)

// unreadableAfter is how many polls in a row must fail for one object before it becomes a
// dead letter and the stream continues without it.
const unreadableAfter = 5

// errUnreadable means that the appliance lists an object, or has one in a page, but does
// not return it in a readable form.
var errUnreadable = errors.New("the appliance has it, but does not return it in a readable form")

// errNoOther means that there is no other object near the one that cannot be read.
var errNoOther = errors.New("there is none near it")

// deadClass returns the class of the dead letter of an object that did not become an
// event.
func deadClass(err error) string {
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
		return "too_large"
	case errors.Is(err, errUnreadable):
		return "unreadable"
	}
	return "invalid"
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

// failed counts a failure, and reports whether the page has failed often enough to look
// for an object at fault.
func (f *pageFailures) failed(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok || e.Refused() || !mayBeObject(ctx, err) {
		return false
	}
	if !f.apart {
		f.polls++
	}
	return f.polls >= unreadableAfter
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
