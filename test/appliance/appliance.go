// Package appliance implements a stand-in for a network detection appliance, with its whole
// REST interface, which package openapi describes. A test or a seeded simulation creates,
// changes and hides detections, records and entries of the audit log. The appliance can
// misbehave on request and remembers everything that it ever returned of them.
//
// An Appliance is an http.Handler; the caller serves it.
package appliance

import (
	"cmp"
	"crypto/tls"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/firmware"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/record"
)

// DefaultAPIKey is the accepted key if Options sets no credentials.
const DefaultAPIKey = "stand-in-key"

// The values of Options.Edition.
const (
	EditionStandard = "standard"
	EditionCloud    = "cloud"
)

// Options configures an appliance. The zero value is a sensor with the key DefaultAPIKey.
type Options struct {
	// Seed seeds all random choices: the contents of detections, the steps of a
	// simulation, the requests that meet a hazard. The same seed, the same clock and the
	// same calls in the same order give the same bytes.
	Seed uint64
	// Now returns the true time, from which the appliance's clock differs by its skew;
	// nil: time.Now. It must be safe for concurrent use.
	Now func() time.Time
	// APIKey is the key that User starts with; empty: DefaultAPIKey, or none if OAuth is set.
	APIKey string
	// Product is the word in the authorization scheme, as written, and in paths,
	// in lower case; empty: Service.
	Product string
	// Firmware is the dotted version at the start; empty: 26.3.0.1234. Before 9.3,
	// detections have no mod_time, create_time and url, and cannot be searched by them, until
	// the firmware is upgraded.
	Firmware string
	// StepTime is the duration of each step of a job, in true time; 0: jobs are done at once.
	StepTime time.Duration
	// RestartTime is how long a restart takes, in true time: the appliance resets connections
	// for half of it, and then refuses requests with 503. 0: a restart is instant. Objects
	// that are added meanwhile are there afterwards.
	RestartTime time.Duration
	// PowerOnAfter is the true time after which an appliance that was shut down is powered
	// on; 0: only PowerOn does that.
	PowerOnAfter time.Duration
	// Certificate is the certificate at the start, for TLS; nil: a self-signed one.
	Certificate *tls.Certificate
	// OAuth is a client of the cloud edition's token endpoint, whose tokens are User's; nil:
	// none.
	OAuth *OAuth
	// Edition is EditionStandard or EditionCloud; empty: cloud if OAuth is set. The cloud
	// edition has no explorer.
	Edition string
	// User is the user that the appliance starts with, who has every privilege; empty: api.
	User string
	// Console makes the appliance a console; only a console can search for recommended.
	Console bool
	// Host is the host in the url of detections and in the system resource; empty:
	// appliance.example.
	Host string
	// Size is the approximate size of a generated detection's JSON in bytes, at least
	// 1000; 0: 2000.
	Size int
	// NoTicketing starts with external ticket tracking disabled.
	NoTicketing bool
	// TicketURL is the ticket_url of detections with a ticket, in which $ticket_id stands for
	// the id; empty: https://tickets.example/$ticket_id.
	TicketURL string
	// OmitEmpty omits end_time, risk_score and ticket_url from detections that have none, as
	// some firmware does; otherwise they are null.
	OmitEmpty bool
	// NoHistory keeps only visible objects, for runs of unlimited length.
	NoHistory bool
	// AuditOldestFirst returns the oldest entry of the audit log first; otherwise the
	// newest comes first, as on real appliances.
	AuditOldestFirst bool
	// AuditCapacity is the maximum number of entries in the audit log; 0: 10,000.
	AuditCapacity int
	// NoAuditAPI does not log what clients do: their changes and their requests for tokens.
	NoAuditAPI bool
	// ThirdPartyRecords simulates a third-party record store: it has no cursors and
	// ignores context_ttl.
	ThirdPartyRecords bool
}

// Appliance is a stand-in appliance. All its methods are safe for concurrent
// use.
type Appliance struct {
	options     Options
	installed   atomic.Pointer[string] // the version of the firmware
	oldFirmware atomic.Bool            // changed only while store is locked
	description *openapi.Description
	handlers    map[string]handler // by the operations' names
	skew        atomic.Int64
	identity    atomic.Pointer[Identity]
	onRequest   atomic.Pointer[func(*http.Request)]
	tokens      tokens
	behaviours  behaviours

	store struct {
		sync.RWMutex
		shelf
		tuned
		generator *generator
		ticketing bool
		notes     map[int64]note // by detection
		patches   []Patch
	}
	control       *access.Control
	groupsInRules atomic.Bool // whether tuning rules refer to device groups
	formats       *formats
	resources     resources
	system        system
	audit         auditLog
	records       *record.Store
	requests      struct {
		sync.Mutex
		counts map[string]int
	}
	selection struct {
		sync.Mutex
		*rand.Rand
	}
}

// The random streams derived from the seed. They are separate so that an additional
// request does not change the next detection.
const (
	chanceGenerator = iota + 1
	chanceHazards
	chanceSelection
	chanceTokens
	chanceSimulation
	chanceAudit
	chanceRecords
	chanceLost
	chanceDates
	chanceKeys
	chanceSystem
	chanceCodes
)

func chance(seed uint64, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// New returns an appliance without detections.
func New(o Options) *Appliance {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.APIKey == "" && o.OAuth == nil {
		o.APIKey = DefaultAPIKey
	}
	if o.Edition == "" {
		o.Edition = EditionStandard
		if o.OAuth != nil {
			o.Edition = EditionCloud
		}
	}
	o.Product = cmp.Or(o.Product, "Service")
	o.Firmware = cmp.Or(o.Firmware, "26.3.0.1234")
	o.User = cmp.Or(o.User, "api")
	o.Host = cmp.Or(o.Host, "appliance.example")
	o.Size = cmp.Or(o.Size, 2000)
	o.TicketURL = cmp.Or(o.TicketURL, "https://tickets.example/$ticket_id")
	o.AuditCapacity = cmp.Or(o.AuditCapacity, defaultAuditCapacity)

	description, err := openapi.Load(o.word())
	if err != nil {
		panic(err) // it is part of the program
	}
	a := &Appliance{options: o, description: description}
	a.installed.Store(&o.Firmware)
	a.oldFirmware.Store(isOld(firmware.Version(o.Firmware)))
	a.SetIdentity(Identity{})
	a.tokens.rand = chance(o.Seed, chanceTokens)
	a.behaviours.rand = chance(o.Seed, chanceHazards)
	a.behaviours.lost = chance(o.Seed, chanceLost)
	a.behaviours.dates = chance(o.Seed, chanceDates)
	a.selection.Rand = chance(o.Seed, chanceSelection)
	a.requests.counts = make(map[string]int)
	a.store.shelf.init(!o.NoHistory)
	a.store.generator = newGenerator(o)
	a.store.ticketing = !o.NoTicketing
	a.store.notes = make(map[int64]note)
	a.audit.nextID = 1
	a.audit.rand = chance(o.Seed, chanceAudit)
	a.records = record.NewStore(record.Options{
		Seed: o.Seed, Rand: chance(o.Seed, chanceRecords), Word: o.word(), Now: a.Clock,
		NoHistory: o.NoHistory, ThirdParty: o.ThirdPartyRecords,
	})
	a.control = a.newControl()
	a.formats = newFormats(o)
	a.newResources()
	a.newSystem()
	a.bind()
	return a
}

// word returns the product's name in paths.
func (o Options) word() string { return strings.ToLower(o.Product) }

// OnRequest sets a function that is called before each request is served; it may change
// the appliance. nil removes it. It must be safe for concurrent use if requests are
// concurrent.
func (a *Appliance) OnRequest(hook func(*http.Request)) {
	if hook == nil {
		a.onRequest.Store(nil)
		return
	}
	a.onRequest.Store(&hook)
}

// Requests returns the number of requests by method and path, as in "POST
// /detections/search" and "GET /detections/{id}". Unknown paths count as "other".
// Requests that met a hazard count as well.
func (a *Appliance) Requests() map[string]int {
	a.requests.Lock()
	defer a.requests.Unlock()
	return maps.Clone(a.requests.counts)
}

// Clock returns the appliance's time: the true time and its skew. Date headers,
// relative times and the mod_time of changes come from it.
func (a *Appliance) Clock() time.Time {
	return a.options.Now().Add(time.Duration(a.skew.Load()))
}

// SetSkew sets how far the appliance's clock is ahead of the true time; negative:
// behind. The clock changes at once.
func (a *Appliance) SetSkew(d time.Duration) { a.skew.Store(int64(d)) }

func (a *Appliance) millis() int64 { return a.Clock().UnixMilli() }
