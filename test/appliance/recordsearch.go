package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ndrbridge/test/appliance/rest"
)

// The limits of a record search.
const (
	defaultRecords = 100
	maxRecords     = 10_000
)

// recordSearch is the body of POST /records/search.
type recordSearch struct {
	from, until int64 // milliseconds
	types       []string
	filter      *recordFilter
	limit       int
	offset      int
	descending  bool
	ttl         time.Duration
}

// searchRecords serves POST /records/search.
func (a *Appliance) searchRecords(r *request) rest.Answer {
	body, err := r.object()
	if err != nil {
		return rest.BadRequest(err)
	}
	s, err := parseRecordSearch(body, a.Clock())
	if err != nil {
		return rest.BadRequest(err)
	}
	if refused := r.behaviour.LimitRefused; refused > 0 && s.limit > refused {
		return rest.BadRequest(fmt.Errorf("limit: must not be greater than %d", refused))
	}
	limit := r.cap(s.limit)
	cursors := s.ttl > 0 && !a.options.ThirdPartyRecords
	if cursors && r.behaviour.RecordBatch > 0 {
		limit = min(limit, r.behaviour.RecordBatch)
	}
	a.records.Lock()
	defer a.records.Unlock()
	walk := a.records.walk(&s, r.behaviour)
	total := a.total(walk)
	a.records.skipAhead(walk)
	page := a.take(walk, limit)
	cursor := ""
	if cursors && s.offset+len(page) < total {
		cursor = a.keepCursor(&recordCursor{walk: walk, total: total, limit: s.limit, expires: a.Clock().Add(s.ttl)})
	}
	return a.recordAnswer(page, total, &s, cursor, r.behaviour)
}

// cap returns the maximum number of rows in the response to a request with a limit.
func (r *request) cap(limit int) int {
	if r.behaviour.LimitCap > 0 {
		return min(limit, r.behaviour.LimitCap)
	}
	return limit
}

func (a *Appliance) recordAnswer(page []recordRef, total int, s *recordSearch, cursor string, f behaviour) rest.Answer {
	if f.TerminatedEarly && len(page) > 1 {
		page = page[:len(page)/2]
	}
	parts := [][]byte{[]byte(`{`)}
	if !f.TotalMissing {
		parts = append(parts, fmt.Appendf(nil, `"total":%d,`, total))
	}
	parts = append(parts, []byte(`"records":[`))
	for i, ref := range page {
		if i > 0 {
			parts = append(parts, []byte(","))
		}
		parts = append(parts, a.recordOf(ref).JSON)
	}
	end, err := rest.Encode(struct {
		Cursor   string   `json:"cursor,omitempty"`
		From     int64    `json:"from"`
		Until    int64    `json:"until"`
		Early    bool     `json:"terminated_early"`
		Warnings []string `json:"warnings"`
	}{cursor, s.from, s.until, f.TerminatedEarly, []string{}})
	if err != nil {
		panic(err) // strings and numbers
	}
	parts = append(parts, []byte(`],`), end[1:])
	return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeJSON, Parts: parts}
}

// parseRecordSearch parses the body of a search received at the time now.
func parseRecordSearch(body *object, now time.Time) (recordSearch, error) {
	s := recordSearch{until: now.UnixMilli(), limit: defaultRecords}
	if !body.takeTime("from", now, &s.from) {
		body.fail("from: is required")
	}
	body.takeTime("until", now, &s.until)
	body.takeOptional("types", &s.types)
	body.takeOptional("limit", &s.limit)
	body.takeOptional("offset", &s.offset)
	if s.offset < 0 {
		body.fail("offset: must not be negative")
	}
	if s.limit < 0 || s.limit > maxRecords {
		body.fail("limit: must be between 0 and %d", maxRecords)
	}
	var order []struct{ Field, Direction string }
	body.takeOptional("sort", &order)
	for _, o := range order {
		if o.Field != "timestamp" {
			body.fail("sort: the field %q is unknown", o.Field)
		}
		if o.Direction != "asc" && o.Direction != "desc" {
			body.fail("sort: the direction %q is unknown", o.Direction)
		}
		s.descending = o.Direction == "desc"
	}
	var filter json.RawMessage
	if body.takeOptional("filter", &filter) {
		var err error
		if s.filter, err = parseRecordFilter(filter); err != nil {
			body.fail("%w", err)
		}
	}
	var ttl json.RawMessage
	if body.takeOptional("context_ttl", &ttl) {
		var text string
		if json.Unmarshal(ttl, &text) != nil {
			text = string(ttl)
		}
		var err error
		if s.ttl, err = parseTTL(text); err != nil {
			body.fail("%w", err)
		}
	}
	return s, body.end("")
}

// parseTTL parses milliseconds, or a number with the unit ms, s, m or h.
func parseTTL(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	const longest = 1 << 40 // milliseconds, which fit into a time.Duration
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < longest {
		return time.Duration(n) * time.Millisecond, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("context_ttl: wrong type")
	}
	return d, nil
}

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
func (a *Appliance) nextRecords(r *request) rest.Answer {
	if a.options.ThirdPartyRecords {
		return rest.NotFound("the record store has no cursors")
	}
	body, err := r.object()
	if err != nil {
		return rest.BadRequest(err)
	}
	var id string
	body.take("cursor", &id)
	ttl, err := parseTTL(r.URL.Query().Get("context_ttl"))
	if err != nil {
		body.fail("%w", err)
	}
	if err := body.end(""); err != nil {
		return rest.BadRequest(err)
	}
	a.records.Lock()
	defer a.records.Unlock()
	c := a.records.cursors[id]
	if c == nil || r.behaviour.CursorsExpireAtOnce || a.Clock().After(c.expires) {
		delete(a.records.cursors, id)
		return rest.Refuse(http.StatusBadRequest, "the cursor has expired")
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
