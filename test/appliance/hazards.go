package appliance

import (
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"ndrbridge/test/appliance/rest"
)

// Hazards configures how an appliance misbehaves. The zero value behaves. A number between
// 0 and 1 is the probability that a request is affected; the seed determines which are.
type Hazards struct {
	// Only restricts hazards to requests for which it returns true; nil: all requests. It
	// must be safe for concurrent use.
	Only func(*http.Request) bool

	// Reset resets the connection before a response.
	Reset float64
	// TooManyRequests answers 429, with RetryAfter rounded up to seconds.
	TooManyRequests float64
	// ServerError answers ServerErrorStatus, with RetryAfter if that is 503; 0: 500, 502,
	// 503 or 504 at random.
	ServerError       float64
	ServerErrorStatus int
	// RetryAfter is omitted if it is 0. RetryAfterDate sends it as a date, by the
	// appliance's clock, instead of seconds.
	RetryAfter     time.Duration
	RetryAfterDate bool
	// HTML answers 200 with a login page, as a proxy may do.
	HTML float64
	// Lost serves a request and then resets the connection instead of responding: changes
	// take effect.
	Lost float64
	// CutBody closes the connection before the whole body is sent.
	CutBody float64
	// CutJSON truncates the JSON, with a matching Content-Length.
	CutJSON float64

	// Latency, plus up to Jitter, is the delay before each response.
	Latency, Jitter time.Duration
	// Refusal refuses every credential.
	Refusal Refusal

	// LimitCap is the maximum number of detections, entries or records in a response,
	// whatever the requested limit; 0: no maximum.
	LimitCap int
	// LimitRefused answers 400 to a limit above it; 0: never.
	LimitRefused int
	// InclusiveBound reads the mod_time of a search as "on or after"; otherwise it
	// is "after".
	InclusiveBound bool
	// ShuffledTies returns detections with the same mod_time in an arbitrary order,
	// ignoring the search's further sort fields.
	ShuffledTies bool
	// ChangingLinks changes from and until of the links in descriptions in each response,
	// by the appliance's clock.
	ChangingLinks bool
	// Upgrade is the upgrade whose firmware the appliance shows its objects with.
	Upgrade Upgrade
	// RecordUntilInclusive includes the until of a record search; otherwise it is
	// exclusive.
	RecordUntilInclusive bool
	// RecordWholeMillis compares the bounds of a record search with timestamps truncated
	// to milliseconds: an inclusive until includes its whole millisecond.
	RecordWholeMillis bool
	// RecordBatch is the maximum number of records in the first response with a cursor; 0:
	// as many as requested.
	RecordBatch int
	// RecordTiesShuffle returns records with the same timestamp in another order for each
	// search. A cursor keeps the order of its search.
	RecordTiesShuffle bool
	// CursorsExpireAtOnce refuses every cursor.
	CursorsExpireAtOnce bool
	// CursorRenews replaces the cursor with another in every second response that contains
	// records, beginning with the first.
	CursorRenews bool
	// TotalMissing omits the total of a record search.
	TotalMissing bool
	// TerminatedEarly marks record searches as terminated early and omits the second half
	// of a page of two or more.
	TerminatedEarly bool
	// NoDate omits the Date header. Date, if not empty, replaces its value.
	NoDate bool
	Date   string
	// WrongDate sends a wrong Date header, like one of several proxies with a wrong clock:
	// the epoch, or years or an hour off.
	WrongDate float64
}

// Refusal selects how a credential is refused.
type Refusal int

// The refusals known from real appliances.
const (
	Accepted         Refusal = iota // credentials are checked
	RefusedJSON                     // 401 {"error_message": …}
	RefusedText                     // 400 with a plain sentence
	RefusedShortText                // 400 with the plain word invalid
	RefusedForbidden                // 403 {"error_message": …}
)

func (r Refusal) answer() rest.Answer {
	switch r {
	case RefusedText:
		return rest.Text(http.StatusBadRequest, "The specified access token is invalid")
	case RefusedShortText:
		return rest.Text(http.StatusBadRequest, "invalid\n")
	case RefusedForbidden:
		return rest.Refuse(http.StatusForbidden, "the owner of this key may not do this")
	}
	return rest.Refuse(http.StatusUnauthorized, "Invalid access token")
}

// SetHazards replaces the hazards. Requests in progress keep theirs.
func (a *Appliance) SetHazards(h Hazards) {
	a.behaviours.mu.Lock()
	defer a.behaviours.mu.Unlock()
	a.behaviours.hazards = h
}

// Hazards returns the hazards set last.
func (a *Appliance) Hazards() Hazards {
	a.behaviours.mu.Lock()
	defer a.behaviours.mu.Unlock()
	return a.behaviours.hazards
}

// behaviours draws the hazards of each request.
type behaviours struct {
	mu      sync.Mutex
	rand    *rand.Rand
	lost    *rand.Rand
	dates   *rand.Rand
	hazards Hazards
}

// behaviour contains the hazards of one request.
type behaviour struct {
	Hazards         // those that do not depend on chance
	reset           bool
	tooManyRequests bool
	serverError     int // the status; 0: none
	html            bool
	lost            bool
	cutBody         bool
	cutJSON         bool
	dateOff         time.Duration // the error of the Date
	wait            time.Duration
	cutAt           float64 // the fraction of the body that is sent
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
	// All values are drawn each time, so that enabling a hazard does not change the
	// others.
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

// sinceEver is the dateOff that results in the epoch.
const sinceEver = time.Duration(math.MinInt64)

// wrongDates are the errors of a proxy's Date.
var wrongDates = []time.Duration{sinceEver, -time.Hour, time.Hour, -5 * 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour}
