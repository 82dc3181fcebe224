package poller

import (
	"errors"
	"net/http"

	"ndrbridge/appliance"
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
