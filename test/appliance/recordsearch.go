package appliance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ndrbridge/test/appliance/rest"
)

// The limits of a record search.
const (
	defaultRecords = 100
	maxCursors     = 200
	maxFilter      = 64 << 10 // bytes
	maxTTL         = 24 * time.Hour
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
	s, err := parseRecordSearch(r.Request, a.Clock())
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
func parseRecordSearch(r *rest.Request, now time.Time) (recordSearch, error) {
	body := struct {
		From, Until json.RawMessage
		Types       []string
		Filter      json.RawMessage
		Limit       int
		Offset      int
		Sort        []struct{ Direction string }
		TTL         json.RawMessage `json:"context_ttl"`
	}{Until: json.RawMessage("0"), Limit: defaultRecords}
	if err := r.Decode(&body); err != nil {
		return recordSearch{}, err
	}
	s := recordSearch{types: body.Types, limit: body.Limit, offset: body.Offset}
	var err error
	if s.from, err = parseTime(body.From, now); err != nil {
		return recordSearch{}, fmt.Errorf("from: %w", err)
	}
	if s.until, err = parseTime(body.Until, now); err != nil {
		return recordSearch{}, fmt.Errorf("until: %w", err)
	}
	for _, field := range body.Sort {
		s.descending = field.Direction == "desc"
	}
	if len(body.Filter) > 0 {
		if s.filter, err = parseRecordFilter(body.Filter); err != nil {
			return recordSearch{}, err
		}
	}
	s.ttl, err = parseTTL(strings.Trim(string(body.TTL), `"`))
	return s, err
}

// parseTTL parses milliseconds, or a number with a unit. Empty is 0.
func parseTTL(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "ms"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > maxTTL {
		return 0, fmt.Errorf("context_ttl: must be at most %v", maxTTL)
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
	ttl, err := parseTTL(r.URL.Query().Get("context_ttl"))
	if err != nil {
		return rest.BadRequest(err)
	}
	var body struct{ Cursor string }
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	id := body.Cursor
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

// keepCursor stores a cursor and returns its name. If there are too many, it drops the one
// that expires first. The store must be locked.
func (a *Appliance) keepCursor(c *recordCursor) string {
	first, now := "", a.Clock()
	for id, old := range a.records.cursors {
		if now.After(old.expires) {
			delete(a.records.cursors, id)
		} else if first == "" || old.expires.Before(a.records.cursors[first].expires) {
			first = id
		}
	}
	if len(a.records.cursors) >= maxCursors {
		delete(a.records.cursors, first)
	}
	id := fmt.Sprintf("%016x%016x", a.records.rand.Uint64(), a.records.rand.Uint64())
	a.records.cursors[id] = c
	return id
}
