package appliance

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"ndrbridge/test/appliance/rest"
)

// defaultAuditCapacity is the default maximum number of entries in the audit log.
const defaultAuditCapacity = 10_000

// AuditEntry is a snapshot of an entry of the audit log.
type AuditEntry struct {
	ID   int64
	Time int64  // milliseconds since the epoch
	JSON []byte // not to be modified
}

// auditLog is the audit log of an appliance.
type auditLog struct {
	sync.RWMutex
	entries []*AuditEntry // oldest first
	history []*AuditEntry
	held    []heldEntry
	nextID  int64
	rand    *rand.Rand
}

// AddAudit adds n generated entries.
func (a *Appliance) AddAudit(n int) []AuditEntry {
	a.audit.Lock()
	defer a.audit.Unlock()
	added := make([]AuditEntry, n)
	for i := range added {
		added[i] = *a.log(a.audit.activity())
	}
	return added
}

// AddAuditBody adds an entry with a body, which may be anything that JSON can encode.
func (a *Appliance) AddAuditBody(body any) AuditEntry {
	a.audit.Lock()
	defer a.audit.Unlock()
	return *a.log(body)
}

// AuditHistory returns every entry that the log ever contained, in the order in which
// they were created. It is empty if Options.NoHistory is set.
func (a *Appliance) AuditHistory() []AuditEntry {
	a.audit.RLock()
	defer a.audit.RUnlock()
	history := make([]AuditEntry, len(a.audit.history))
	for i, e := range a.audit.history {
		history[i] = *e
	}
	return history
}

// log adds an entry. The log must be locked. It panics if body cannot be encoded.
func (a *Appliance) log(body any) *AuditEntry {
	l := &a.audit
	now := a.millis()
	b, err := rest.Encode(struct {
		ID        int64 `json:"id"`
		OccurTime int64 `json:"occur_time"`
		Time      int64 `json:"time"`
		Body      any   `json:"body"`
	}{l.nextID, now - 3, now, body})
	if err != nil {
		panic(err)
	}
	e := &AuditEntry{ID: l.nextID, Time: now, JSON: b}
	l.nextID++
	l.entries = append(l.entries, e)
	if !a.options.NoHistory {
		l.history = append(l.history, e)
	}
	l.reveal(!a.options.NoHistory)
	if over := len(l.entries) - a.options.AuditCapacity; over > 0 {
		clear(l.entries[:over])
		l.entries = l.entries[over:]
	}
	return e
}

// activity is the subject of an entry.
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

// logAPI adds an entry about a client's request unless Options.NoAuditAPI is set.
func (a *Appliance) logAPI(user string, entry rest.Audit) {
	if a.options.NoAuditAPI {
		return
	}
	a.audit.Lock()
	defer a.audit.Unlock()
	a.log(map[string]string{"user": user, "operation": entry.Operation, "component": entry.Component, "details": entry.Details})
}

// logChange adds an entry about a request that changed something; entry may be nil.
func (a *Appliance) logChange(r *request, entry *rest.Audit) {
	if entry == nil {
		entry = &rest.Audit{Operation: "Modify", Component: r.Operation.Tag, Details: r.Operation.Summary + ": " + r.Method + " " + r.URL.Path}
	}
	a.logAPI(r.Caller.Name, *entry)
}

// getAuditLog serves GET /auditlog.
func (a *Appliance) getAuditLog(r *request) rest.Answer {
	limit, offset := defaultLimit, 0
	for name, into := range map[string]*int{"limit": &limit, "offset": &offset} {
		if n, ok := r.Integer(name); ok {
			*into = int(n)
		}
	}
	if refused := r.behaviour.LimitRefused; refused > 0 && limit > refused {
		return rest.BadRequest(fmt.Errorf("limit: must not be greater than %d", refused))
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
	return rest.Array(elements)
}
