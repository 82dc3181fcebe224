package record

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

// search is the body of POST /records/search.
type search struct {
	from, until int64 // milliseconds
	types       []string
	filter      *filter
	limit       int
	offset      int
	descending  bool
	ttl         time.Duration
}

// Search serves POST /records/search.
func (s *Store) Search(r *rest.Request, b Behaviour) rest.Answer {
	q, err := parseSearch(r, s.options.Now())
	if err != nil {
		return rest.BadRequest(err)
	}
	if b.LimitRefused > 0 && q.limit > b.LimitRefused {
		return rest.BadRequest(fmt.Errorf("limit: must not be greater than %d", b.LimitRefused))
	}
	limit := b.cap(q.limit)
	cursors := q.ttl > 0 && !s.options.ThirdParty
	if cursors && b.Batch > 0 {
		limit = min(limit, b.Batch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.walk(&q, b)
	total := s.total(r.Context(), w)
	s.skipAhead(w)
	page := s.take(r.Context(), w, limit)
	next := ""
	if cursors && q.offset+len(page) < total {
		next = s.keepCursor(&cursor{walk: w, total: total, limit: q.limit, expires: s.options.Now().Add(q.ttl)})
	}
	return s.answer(page, total, &q, next, b)
}

// answer returns a page of the results of q. next is the name of the cursor, or empty.
func (s *Store) answer(page []reference, total int, q *search, next string, b Behaviour) rest.Answer {
	if b.TerminatedEarly && len(page) > 1 {
		page = page[:len(page)/2]
	}
	parts := [][]byte{[]byte(`{`)}
	if !b.TotalMissing {
		parts = append(parts, fmt.Appendf(nil, `"total":%d,`, total))
	}
	parts = append(parts, []byte(`"records":[`))
	for i, ref := range page {
		if i > 0 {
			parts = append(parts, []byte(","))
		}
		parts = append(parts, s.recordOf(ref).JSON)
	}
	end, err := rest.Encode(struct {
		Cursor   string   `json:"cursor,omitempty"`
		From     int64    `json:"from"`
		Until    int64    `json:"until"`
		Early    bool     `json:"terminated_early"`
		Warnings []string `json:"warnings"`
	}{next, q.from, q.until, b.TerminatedEarly, []string{}})
	if err != nil {
		panic(err) // strings and numbers
	}
	parts = append(parts, []byte(`],`), end[1:])
	return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeJSON, Parts: parts}
}

// parseSearch parses the body of a search received at the time now.
func parseSearch(r *rest.Request, now time.Time) (search, error) {
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
		return search{}, err
	}
	s := search{types: body.Types, limit: body.Limit, offset: body.Offset}
	var err error
	if s.from, err = rest.ParseTime(body.From, now); err != nil {
		return search{}, fmt.Errorf("from: %w", err)
	}
	if s.until, err = rest.ParseTime(body.Until, now); err != nil {
		return search{}, fmt.Errorf("until: %w", err)
	}
	for _, field := range body.Sort {
		s.descending = field.Direction == "desc"
	}
	if len(body.Filter) > 0 {
		if s.filter, err = parseFilter(body.Filter); err != nil {
			return search{}, err
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
	if n, err := strconv.ParseFloat(text, 64); err == nil { // maybe as 1e3
		text = strconv.FormatFloat(n, 'f', -1, 64) + "ms"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > maxTTL {
		return 0, fmt.Errorf("context_ttl: must be at most %v", maxTTL)
	}
	return d, nil
}

// cursor continues a search after its last response.
type cursor struct {
	walk    *walk
	total   int
	limit   int
	expires time.Time // by the appliance's clock
	answers int
}

// Next serves POST /records/cursor. The cursor advances even if the response does not reach
// the client.
func (s *Store) Next(r *rest.Request, b Behaviour) rest.Answer {
	if s.options.ThirdParty {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cursors[body.Cursor]
	if c == nil || b.CursorsExpireAtOnce || s.options.Now().After(c.expires) {
		delete(s.cursors, body.Cursor)
		return rest.Refuse(http.StatusBadRequest, "the cursor has expired")
	}
	if ttl > 0 {
		c.expires = s.options.Now().Add(ttl)
	}
	page := s.take(r.Context(), c.walk, b.cap(c.limit))
	renewed := ""
	if b.CursorRenews && c.answers%2 == 0 && len(page) > 0 {
		delete(s.cursors, body.Cursor)
		renewed = s.keepCursor(c)
	}
	c.answers++
	return s.answer(page, c.total, c.walk.search, renewed, b)
}

// keepCursor stores a cursor and returns its name. If there are too many, it drops the one
// that expires first. The store must be locked.
func (s *Store) keepCursor(c *cursor) string {
	first, now := "", s.options.Now()
	for id, old := range s.cursors {
		if now.After(old.expires) {
			delete(s.cursors, id)
		} else if first == "" || old.expires.Before(s.cursors[first].expires) {
			first = id
		}
	}
	if len(s.cursors) >= maxCursors {
		delete(s.cursors, first)
	}
	id := fmt.Sprintf("%016x%016x", s.options.Rand.Uint64(), s.options.Rand.Uint64())
	s.cursors[id] = c
	return id
}
