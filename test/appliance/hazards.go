package appliance

import (
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Hazards say how an appliance misbehaves. The zero value behaves. What is a
// number between 0 and 1 is how likely it meets a request; which ones it meets,
// the seed decides.
type Hazards struct {
	// Only, where set, spares the requests for which it is false. It must be safe
	// for concurrent use.
	Only func(*http.Request) bool

	// Reset closes the connection with a reset, before anything is answered.
	Reset float64
	// TooManyRequests answers 429, with RetryAfter rounded up to seconds.
	TooManyRequests float64
	// ServerError answers ServerErrorStatus, with RetryAfter where that is 503;
	// 0: 500, 502, 503 or 504 by lot.
	ServerError       float64
	ServerErrorStatus int
	// RetryAfter is left out where it is 0. RetryAfterDate writes the moment, by
	// the appliance's clock, instead of the seconds.
	RetryAfter     time.Duration
	RetryAfterDate bool
	// HTML answers a login page with 200, as a proxy in between does.
	HTML float64
	// Lost serves a request and closes the connection with a reset in place of the
	// answer: whatever it changed is changed.
	Lost float64
	// CutBody closes the connection before the whole body was sent.
	CutBody float64
	// CutJSON leaves the end of the JSON away, with a Content-Length that fits.
	CutJSON float64

	// Latency passes before every answer, and up to Jitter on top.
	Latency, Jitter time.Duration
	// Refusal refuses every credential.
	Refusal Refusal

	// LimitCap is how many detections, entries or records are returned at most,
	// whatever limit says; 0: no cap.
	LimitCap int
	// LimitRefused answers 400 to a limit that is greater; 0: none is.
	LimitRefused int
	// InclusiveBound reads the mod_time of a search as "on or after"; otherwise it
	// is "after".
	InclusiveBound bool
	// ShuffledTies gives detections with the same mod_time an order of their own,
	// whatever a search says about it.
	ShuffledTies bool
	// ChangingLinks moves from and until of the links in descriptions at every
	// look, by the appliance's clock.
	ChangingLinks bool
	// RecordUntilInclusive reads until of a record search as "up to and with";
	// otherwise it is "before".
	RecordUntilInclusive bool
	// RecordWholeMillis compares the bounds of a record search with timestamps less
	// their fractions: an until that is inclusive takes in its whole millisecond.
	RecordWholeMillis bool
	// RecordBatch is how many records the first answer with a cursor has at most;
	// 0: as many as were asked for.
	RecordBatch int
	// RecordTiesShuffle gives records with the same timestamp another order at each
	// search. A cursor keeps the order of its search.
	RecordTiesShuffle bool
	// CursorsExpireAtOnce refuses every cursor.
	CursorsExpireAtOnce bool
	// CursorRenews puts another cursor in place of the one that was used with every
	// second answer that has records, beginning with the first.
	CursorRenews bool
	// TotalMissing leaves the total of a record search out.
	TotalMissing bool
	// TerminatedEarly says of record searches that they were, and leaves the second
	// half of a page of two or more out.
	TerminatedEarly bool
	// RecordWarnings come with every answer to a record search.
	RecordWarnings []string
	// NoDate leaves the Date header out. Date, where set, is its value instead.
	NoDate bool
	Date   string
	// WrongDate puts a wrong Date header on an answer, as one of several proxies in
	// front of an appliance does whose clock is wrong: the epoch, or years or an hour
	// off.
	WrongDate float64
}

// Refusal is a way to refuse a credential.
type Refusal int

// The ways seen in the wild.
const (
	Accepted         Refusal = iota // a credential is what it is
	RefusedJSON                     // 401 {"error_message": …}
	RefusedText                     // 400 with a plain sentence
	RefusedShortText                // 400 with the plain word invalid
	RefusedForbidden                // 403 {"error_message": …}
)

func (r Refusal) answer() answer {
	switch r {
	case RefusedText:
		return textAnswer(http.StatusBadRequest, "The specified access token is invalid")
	case RefusedShortText:
		return textAnswer(http.StatusBadRequest, "invalid\n")
	case RefusedForbidden:
		return refusal(http.StatusForbidden, "the owner of this key may not do this")
	}
	return refusal(http.StatusUnauthorized, "Invalid access token")
}

// SetHazards replaces the hazards. Requests that are under way keep theirs.
func (a *Appliance) SetHazards(h Hazards) {
	a.behaviours.mu.Lock()
	defer a.behaviours.mu.Unlock()
	a.behaviours.hazards = h
}

// Hazards returns what SetHazards was called with last.
func (a *Appliance) Hazards() Hazards {
	a.behaviours.mu.Lock()
	defer a.behaviours.mu.Unlock()
	return a.behaviours.hazards
}

// results decides what meets each request.
type behaviours struct {
	mu      sync.Mutex
	rand    *rand.Rand
	lost    *rand.Rand
	dates   *rand.Rand
	hazards Hazards
}

// result is what meets one request.
type behaviour struct {
	Hazards         // what is no matter of chance
	reset           bool
	tooManyRequests bool
	serverError     int // the status; 0: none
	html            bool
	lost            bool
	cutBody         bool
	cutJSON         bool
	dateOff         time.Duration // how far the Date is off; 0: it is not
	wait            time.Duration
	cutAt           float64 // the part of the body that is sent
}

func (f *behaviours) draw(r *http.Request) behaviour {
	f.mu.Lock()
	h := f.hazards
	f.mu.Unlock()
	if h.Only != nil && !h.Only(r) {
		return behaviour{}
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	// Everything is drawn every time, so that one hazard more or less leaves the
	// others where they were.
	drawn := behaviour{
		Hazards:         h,
		reset:           f.rand.Float64() < h.Reset,
		tooManyRequests: f.rand.Float64() < h.TooManyRequests,
		html:            f.rand.Float64() < h.HTML,
		cutBody:         f.rand.Float64() < h.CutBody,
		cutJSON:         f.rand.Float64() < h.CutJSON,
		wait:            h.Latency + time.Duration(f.rand.Float64()*float64(h.Jitter)),
		cutAt:           f.rand.Float64(),
		lost:            f.lost.Float64() < h.Lost,
	}
	if wrong, off := f.dates.Float64() < h.WrongDate, f.dates.IntN(len(wrongDates)); wrong {
		drawn.dateOff = wrongDates[off]
	}
	failed, lot := f.rand.Float64() < h.ServerError, f.rand.IntN(4)
	switch {
	case failed && h.ServerErrorStatus != 0:
		drawn.serverError = h.ServerErrorStatus
	case failed:
		drawn.serverError = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}[lot]
	}
	return drawn
}

// sinceEver makes a Date the epoch.
const sinceEver = time.Duration(math.MinInt64)

// wrongDates are how far the Date of a proxy is off.
var wrongDates = []time.Duration{sinceEver, -time.Hour, time.Hour, -5 * 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour}
