package appliance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
)

// defaultAuditCapacity is how many entries an audit log keeps.
const defaultAuditCapacity = 10_000

// AuditEntry is one entry that an audit log showed, as it was when it was asked
// for.
type AuditEntry struct {
	ID   int64
	Time int64  // milliseconds since the epoch
	JSON []byte // not to be modified
	// Log is the log that it was written to: 0 for the first, and one more
	// whenever another took the place of the one before.
	Log int
	// Purged says that the log no longer holds it, for whatever reason.
	Purged bool
}

// auditLog is the audit log of an appliance.
type auditLog struct {
	sync.RWMutex
	entries []*AuditEntry // oldest first
	history []*AuditEntry
	nextID  int64
	log     int
	rand    *rand.Rand
}

// AddAudit adds n entries of what people did.
func (a *Appliance) AddAudit(n int) []AuditEntry {
	a.audit.Lock()
	defer a.audit.Unlock()
	added := make([]AuditEntry, n)
	for i := range added {
		added[i] = *a.log(a.audit.activity())
	}
	return added
}

// AddAuditBody adds an entry with a given body, of any kind that JSON knows: an
// object, text, an array, nil.
func (a *Appliance) AddAuditBody(body any) AuditEntry {
	a.audit.Lock()
	defer a.audit.Unlock()
	return *a.log(body)
}

// SkipAuditIDs leaves a hole of n ids in front of the next entry.
func (a *Appliance) SkipAuditIDs(n int64) {
	a.audit.Lock()
	defer a.audit.Unlock()
	a.audit.nextID += n
}

// PurgeAudit takes the n oldest entries out of the log, or all that there are.
func (a *Appliance) PurgeAudit(n int) {
	a.audit.Lock()
	defer a.audit.Unlock()
	a.audit.purge(n)
}

// RestartAudit begins the log again: it is empty, and ids start over.
func (a *Appliance) RestartAudit() { a.RestoreAudit(0) }

// RestoreAudit puts a log in place of the one that there is, as a backup does: the
// first keep of the entries that it holds, with ids that go on from there. A log
// that keeps none begins with the id 1.
func (a *Appliance) RestoreAudit(keep int) {
	a.audit.Lock()
	defer a.audit.Unlock()
	l := &a.audit
	keep = min(keep, len(l.entries))
	for _, e := range l.entries[keep:] {
		e.Purged = true
	}
	l.entries = l.entries[:keep:keep]
	l.log++
	l.nextID = 1
	if keep > 0 {
		l.nextID = l.entries[keep-1].ID + 1
	}
}

// AuditHistory returns every entry that the log ever showed, in the order in
// which they came to be. It is empty under NoHistory.
func (a *Appliance) AuditHistory() []AuditEntry {
	a.audit.RLock()
	defer a.audit.RUnlock()
	history := make([]AuditEntry, len(a.audit.history))
	for i, e := range a.audit.history {
		history[i] = *e
	}
	return history
}

// log adds an entry with the log locked. It panics where body is no JSON: a
// mistake of the caller.
func (a *Appliance) log(body any) *AuditEntry {
	l := &a.audit
	now := a.millis()
	b, err := encode(struct {
		ID        int64 `json:"id"`
		OccurTime int64 `json:"occur_time"`
		Time      int64 `json:"time"`
		Body      any   `json:"body"`
	}{l.nextID, now - 3, now, body})
	if err != nil {
		panic(err)
	}
	e := &AuditEntry{ID: l.nextID, Time: now, JSON: b, Log: l.log}
	l.nextID++
	l.entries = append(l.entries, e)
	if !a.options.NoHistory {
		l.history = append(l.history, e)
	}
	if over := len(l.entries) - a.options.AuditCapacity; over > 0 {
		l.purge(over)
	}
	return e
}

func (l *auditLog) purge(n int) {
	n = min(n, len(l.entries))
	for _, e := range l.entries[:n] {
		e.Purged = true
	}
	clear(l.entries[:n])
	l.entries = l.entries[n:]
}

// activity is what somebody did.
func (l *auditLog) activity() map[string]string {
	users := []string{"setup", "ada", "grace", "linus", "soc-bot"}
	acts := []struct{ operation, component, details string }{
		{"Login", "Authentication", "Web UI login from 192.0.2.%d"},
		{"Logout", "Authentication", "Web UI session of 192.0.2.%d ended"},
		{"Create", "Dashboards", "Created dashboard %d"},
		{"Modify", "Tuning rules", "Changed tuning rule %d"},
		{"Modify", "Detections", "Changed status of detection %d"},
		{"Delete", "Alerts", "Deleted alert %d"},
		{"Generate", "API access", "Generated an API key with id %d"},
	}
	act := acts[l.rand.IntN(len(acts))]
	return map[string]string{
		"user": users[l.rand.IntN(len(users))], "operation": act.operation, "component": act.component,
		"details": fmt.Sprintf(act.details, l.rand.IntN(250)+1),
	}
}

// logAPI adds an entry about what a client of the interface did, where that was
// asked for.
func (a *Appliance) logAPI(operation, details string) {
	if !a.options.AuditAPI {
		return
	}
	a.audit.Lock()
	defer a.audit.Unlock()
	a.log(map[string]string{"user": a.options.User, "operation": operation, "component": "REST API", "details": details})
}

// getAuditLog serves GET /auditlog.
func (a *Appliance) getAuditLog(r *request) answer {
	limit, offset := defaultLimit, 0
	query := r.URL.Query()
	for name, into := range map[string]*int{"limit": &limit, "offset": &offset} {
		if text := query.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return badRequest(errors.New(name + ": wrong type"))
			}
			*into = n
		}
	}
	if refused := r.behaviour.LimitRefused; refused > 0 && limit > refused {
		return badRequest(fmt.Errorf("limit: must not be greater than %d", refused))
	}
	limit = r.cap(limit)
	a.audit.RLock()
	defer a.audit.RUnlock()
	entries := a.audit.entries
	n := len(entries)
	var elements [][]byte
	for i := offset; i < n && len(elements) < limit; i++ {
		at := n - 1 - i
		if a.options.AuditOldestFirst {
			at = i
		}
		elements = append(elements, entries[at].JSON)
	}
	return arrayAnswer(elements)
}

func (a *Appliance) auditRoutes() []route {
	return []route{{http.MethodGet, "/auditlog", a.getAuditLog, ""}}
}
