package appliance

import (
	"fmt"
	"net/http"
	"time"
)

// recordCursor continues a search after its last response.
type recordCursor struct {
	walk    *recordWalk
	total   int
	limit   int
	expires time.Time // by the appliance's clock
	answers int
}

// nextRecords serves POST /records/cursor. The cursor advances even if the response does
// not reach the client.
func (a *Appliance) nextRecords(r *request) answer {
	if a.options.ThirdPartyRecords {
		return problem(http.StatusNotFound, "the record store has no cursors")
	}
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	var id string
	_, err = body.take("cursor", &id)
	ttl, ttlErr := parseTTL(r.URL.Query().Get("context_ttl"))
	if err := firstOf([]error{err, ttlErr, body.end("")}); err != nil {
		return badRequest(err)
	}
	a.records.Lock()
	defer a.records.Unlock()
	c := a.records.cursors[id]
	if c == nil || r.behaviour.CursorsExpireAtOnce || a.Clock().After(c.expires) {
		delete(a.records.cursors, id)
		return refusal(http.StatusBadRequest, "the cursor has expired")
	}
	if ttl > 0 {
		c.expires = a.Clock().Add(ttl)
	}
	page := a.take(c.walk, r.cap(c.limit))
	renewed := ""
	if r.behaviour.CursorRenews && c.answers%2 == 0 && len(page) > 0 {
		delete(a.records.cursors, id)
		renewed = a.keepCursor(c)
	}
	c.answers++
	return a.recordAnswer(page, c.total, c.walk.search, renewed, r.behaviour)
}

// keepCursor stores a cursor and returns its name. The store must be locked.
func (a *Appliance) keepCursor(c *recordCursor) string {
	for id, old := range a.records.cursors {
		if a.Clock().After(old.expires) {
			delete(a.records.cursors, id)
		}
	}
	id := fmt.Sprintf("%016x%016x", a.records.rand.Uint64(), a.records.rand.Uint64())
	a.records.cursors[id] = c
	return id
}
