// Package appliance is a stand-in for a network detection appliance: the part
// of its REST interface that a poller of detections, the audit log and records
// meets, over what a test or a seeded simulation makes, changes and
// hides. It can misbehave on request, and it remembers everything that it ever
// showed.
//
// An Appliance is an http.Handler; serving it is the caller's business.
package appliance

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultAPIKey is the key that is accepted where Options name no credentials.
const DefaultAPIKey = "stand-in-key"

// Options say what an appliance is. The zero value is a sensor with the key
// DefaultAPIKey.
type Options struct {
	// Seed decides everything that is left to chance: what detections look like,
	// what a simulation does, which requests meet a hazard. The same seed, the
	// same clock and the same calls in the same order give the same bytes.
	Seed uint64
	// Now is the true time, from which the appliance's own clock is off by its
	// skew; nil: time.Now. It must be safe for concurrent use.
	Now func() time.Time
	// APIKey is what Authorization must carry; empty: DefaultAPIKey, or none where
	// OAuth is set.
	APIKey string
	// Product is the word in the authorization scheme, as written, and in paths,
	// in lower case; empty: Service.
	Product string
	// Firmware is the dotted version; empty: 26.3.0.1234. Before 9.3, detections
	// have no mod_time, create_time and url, and cannot be searched by them.
	Firmware string
	// OAuth, where set, is a client of the cloud edition's token endpoint.
	OAuth *OAuth
	// User is whose key it is, the .me of a search and the By of what a PATCH makes;
	// empty: api.
	User string
	// Console makes it a console, which alone can search for recommended.
	Console bool
	// Host stands in the url of detections and in GET of the system resource;
	// empty: appliance.example.
	Host string
	// Size is about how many bytes of JSON a generated detection has, at least
	// 1000; 0: 2000.
	Size int
	// NoTicketing begins with external ticket tracking switched off.
	NoTicketing bool
	// NoHistory keeps only what is visible, for a run without an end.
	NoHistory bool
	// AuditOldestFirst lets the audit log begin with the oldest entry; otherwise it
	// begins with the newest, as real appliances do.
	AuditOldestFirst bool
	// AuditCapacity is how many entries the audit log keeps; 0: 10,000.
	AuditCapacity int
	// AuditAPI lets what clients change, and their sign-ins for a token, leave
	// entries in the audit log.
	AuditAPI bool
	// ThirdPartyRecords makes the record store one that is not the product's own:
	// it knows no cursors, and context_ttl means nothing to it.
	ThirdPartyRecords bool
}

// Appliance is a stand-in appliance. All its methods are safe for concurrent
// use.
type Appliance struct {
	options     Options
	oldFirmware bool
	routes      []route
	skew        atomic.Int64
	identity    atomic.Pointer[Identity]
	onRequest   atomic.Pointer[func(*http.Request)]
	tokens      tokens
	behaviours  behaviours

	store struct {
		sync.RWMutex
		shelf
		generator *generator
		ticketing bool
		notes     map[int64]note // by detection
		patches   []Patch
		hidden    []int64 // devices
	}
	audit    auditLog
	records  recordStore
	requests struct {
		sync.Mutex
		counts map[string]int
	}
	selection struct {
		sync.Mutex
		*rand.Rand
	}
}

// The streams of chance that come from one seed. Each has its own, so that a
// request more or less does not change what the next detection looks like.
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
)

func chance(seed uint64, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// New returns an appliance that has seen no detection yet.
func New(o Options) *Appliance {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.APIKey == "" && o.OAuth == nil {
		o.APIKey = DefaultAPIKey
	}
	o.Product = cmp.Or(o.Product, "Service")
	o.Firmware = cmp.Or(o.Firmware, "26.3.0.1234")
	o.User = cmp.Or(o.User, "api")
	o.Host = cmp.Or(o.Host, "appliance.example")
	o.Size = cmp.Or(o.Size, 2000)
	o.AuditCapacity = cmp.Or(o.AuditCapacity, defaultAuditCapacity)

	a := &Appliance{options: o, oldFirmware: before(o.Firmware, 9, 3)}
	a.SetIdentity(Identity{})
	a.routes = a.table()
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
	a.records.rand = chance(o.Seed, chanceRecords)
	a.records.cursors = make(map[string]*recordCursor)
	return a
}

// word is the product's word in paths.
func (o Options) word() string { return strings.ToLower(o.Product) }

// OnRequest sets what is called in front of every request, before anything of
// it is answered; it may change the appliance. nil: nothing. It must be safe for
// concurrent use where requests are concurrent.
func (a *Appliance) OnRequest(hook func(*http.Request)) {
	if hook == nil {
		a.onRequest.Store(nil)
		return
	}
	a.onRequest.Store(&hook)
}

// Requests returns how many requests came for each method and path, as in
// "POST /detections/search" and "GET /detections/{id}"; what is nothing of the
// interface is counted as "other". Those that met a hazard are counted too.
func (a *Appliance) Requests() map[string]int {
	a.requests.Lock()
	defer a.requests.Unlock()
	counts := make(map[string]int, len(a.requests.counts))
	for name, n := range a.requests.counts {
		counts[name] = n
	}
	return counts
}
