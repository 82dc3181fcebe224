package appliance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"time"
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
	limit       *int
	offset      int
	descending  bool
	ttl         time.Duration
}

// recordCursor goes on with a search: it holds what was there when that was made.
type recordCursor struct {
	refs    []recordRef
	at      int
	search  recordSearch
	expires time.Time
}

// recordRef is a record in a search: one that is stored, or one of the backlog.
type recordRef struct {
	micros int64
	stored *Record
	index  int
}

func (a *Appliance) recordRoutes() []route {
	return []route{
		{http.MethodPost, "/records/search", a.searchRecords, typeJSON},
		{http.MethodPost, "/records/cursor", a.nextRecords, typeJSON},
	}
}

// searchRecords serves POST /records/search.
func (a *Appliance) searchRecords(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	s, err := parseRecordSearch(body, a.Clock())
	if err != nil {
		return badRequest(err)
	}
	limit := defaultRecords
	if s.limit != nil {
		limit = *s.limit
	}
	if refused := r.fate.LimitRefused; refused > 0 && limit > refused {
		return badRequest(fmt.Errorf("limit: must not be greater than %d", refused))
	}
	if r.fate.LimitCap > 0 {
		limit = min(limit, r.fate.LimitCap)
	}
	a.records.Lock()
	defer a.records.Unlock()
	refs := a.findRecords(&s, r.fate)
	total := len(refs)
	refs = refs[min(s.offset, len(refs)):]
	cursors := s.ttl > 0 && !a.options.ThirdPartyRecords
	if cursors && r.fate.RecordBatch > 0 {
		limit = min(limit, r.fate.RecordBatch)
	}
	page := refs[:min(limit, len(refs))]
	cursor := ""
	if cursors && len(page) < len(refs) {
		cursor = a.keepCursor(&recordCursor{refs: refs, at: len(page), search: s}, s.ttl)
	}
	return a.recordAnswer(page, total, &s, cursor, r.fate)
}

// nextRecords serves POST /records/cursor. The cursor moves whether the answer
// gets through or not.
func (a *Appliance) nextRecords(r *request) answer {
	if a.options.ThirdPartyRecords {
		return problem(http.StatusNotFound, "the record store has no cursors")
	}
	body, err := r.object()
	var id string
	if err == nil {
		_, err = body.take("cursor", &id)
	}
	if err != nil {
		return badRequest(err)
	}
	ttl, err := parseTTL(r.URL.Query().Get("context_ttl"))
	if err != nil {
		return badRequest(err)
	}
	a.records.Lock()
	defer a.records.Unlock()
	c := a.records.cursors[id]
	if c == nil || r.fate.CursorsExpireAtOnce || a.Clock().After(c.expires) {
		delete(a.records.cursors, id)
		return refusal(http.StatusBadRequest, "the cursor has expired")
	}
	if ttl > 0 {
		c.expires = a.Clock().Add(ttl)
	}
	limit := defaultRecords
	if c.search.limit != nil {
		limit = *c.search.limit
	}
	rest := c.refs[c.at:]
	page := rest[:min(limit, len(rest))]
	c.at += len(page)
	renewed := ""
	if r.fate.CursorRenews && len(page) > 0 {
		delete(a.records.cursors, id)
		renewed = a.keepCursor(c, ttl)
	}
	return a.recordAnswer(page, len(c.refs)+c.search.offset, &c.search, renewed, r.fate)
}

// keepCursor keeps a cursor and returns its name, with the store locked.
func (a *Appliance) keepCursor(c *recordCursor, ttl time.Duration) string {
	for id, old := range a.records.cursors {
		if a.Clock().After(old.expires) {
			delete(a.records.cursors, id)
		}
	}
	c.expires = a.Clock().Add(ttl)
	id := fmt.Sprintf("%016x%016x", a.records.rand.Uint64(), a.records.rand.Uint64())
	a.records.cursors[id] = c
	return id
}

func (a *Appliance) recordAnswer(page []recordRef, total int, s *recordSearch, cursor string, f fate) answer {
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
	end, err := encode(struct {
		Cursor   string   `json:"cursor,omitempty"`
		From     int64    `json:"from"`
		Until    int64    `json:"until"`
		Early    bool     `json:"terminated_early"`
		Warnings []string `json:"warnings"`
	}{cursor, s.from, s.until, f.TerminatedEarly, append([]string{}, f.RecordWarnings...)})
	if err != nil {
		panic(err) // strings and numbers
	}
	parts = append(parts, []byte(`],`), end[1:])
	return answer{status: http.StatusOK, contentType: typeJSON, parts: parts}
}

func (a *Appliance) recordOf(ref recordRef) *Record {
	if ref.stored != nil {
		return ref.stored
	}
	return makeRecord(a.options.Seed, backlogSeq+uint64(ref.index), ref.micros)
}

// findRecords returns what a search finds, in its order, with the store locked.
func (a *Appliance) findRecords(s *recordSearch, f fate) []recordRef {
	// The bounds in microseconds: what the interface leaves open, hazards decide.
	low, high := s.from*1000, s.until*1000
	if f.RecordWholeMillis {
		low, high = low-1, high+999 // an answer may have a fraction beyond the bound
	}
	if !f.RecordUntilInclusive {
		high--
	}
	var refs []recordRef
	b := a.records.backlog
	if b.n > 0 {
		first := sort.Search(b.n, func(i int) bool { return b.micros(i) >= low })
		for i := first; i < b.n && b.micros(i) <= high; i++ {
			refs = append(refs, recordRef{micros: b.micros(i), index: i})
		}
	}
	first := sort.Search(len(a.records.stored), func(i int) bool { return a.records.stored[i].Micros >= low })
	for _, r := range a.records.stored[first:] {
		if r.Micros > high {
			break
		}
		refs = append(refs, recordRef{micros: r.Micros, stored: r})
	}
	if len(s.types) > 0 || s.filter != nil {
		refs = slices.DeleteFunc(refs, func(ref recordRef) bool {
			r := a.recordOf(ref)
			return len(s.types) > 0 && !slices.Contains(s.types, r.Type) || s.filter != nil && !s.filter.matches(r)
		})
	}
	shuffle := uint64(0)
	if f.RecordTiesShuffle {
		shuffle = a.records.rand.Uint64()
	}
	slices.SortStableFunc(refs, func(x, y recordRef) int {
		order := cmp.Compare(x.micros, y.micros)
		if order == 0 && shuffle != 0 && x.stored != nil && y.stored != nil {
			order = cmp.Compare(mix(shuffle^hashText(x.stored.ID)), mix(shuffle^hashText(y.stored.ID)))
		}
		if s.descending {
			return -order
		}
		return order
	})
	return refs
}

func hashText(text string) (h uint64) {
	for _, c := range []byte(text) {
		h = mix(h ^ uint64(c))
	}
	return h
}

// parseRecordSearch reads the body of a search that came at the time of now.
func parseRecordSearch(body object, now time.Time) (recordSearch, error) {
	s := recordSearch{until: now.UnixMilli()}
	var errs []error
	take := func(name string, into any) bool {
		ok, err := body.takeOptional(name, into)
		errs = append(errs, err)
		return ok && err == nil
	}
	takeTime := func(name string, into *int64) bool {
		var raw json.RawMessage
		if !take(name, &raw) {
			return false
		}
		at, err := parseTime(raw, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		*into = at
		return true
	}
	if !takeTime("from", &s.from) {
		errs = append(errs, errors.New("from: is required"))
	}
	takeTime("until", &s.until)
	take("types", &s.types)
	take("limit", &s.limit)
	take("offset", &s.offset)
	if s.offset < 0 {
		errs = append(errs, errors.New("offset: must not be negative"))
	}
	if s.limit != nil && (*s.limit < 0 || *s.limit > maxRecords) {
		errs = append(errs, fmt.Errorf("limit: must be between 0 and %d", maxRecords))
	}
	var order []struct{ Field, Direction string }
	if take("sort", &order) {
		for _, o := range order {
			if o.Field != "timestamp" {
				errs = append(errs, fmt.Errorf("sort: the field %q is unknown", o.Field))
			}
			s.descending = o.Direction == "desc"
		}
	}
	var filter json.RawMessage
	if take("filter", &filter) {
		var err error
		s.filter, err = parseRecordFilter(filter)
		errs = append(errs, err)
	}
	var ttl json.RawMessage
	if take("context_ttl", &ttl) {
		var text string
		if json.Unmarshal(ttl, &text) != nil {
			text = string(ttl)
		}
		var err error
		s.ttl, err = parseTTL(text)
		errs = append(errs, err)
	}
	errs = append(errs, body.end(""))
	return s, firstOf(errs)
}

// parseTTL reads milliseconds, or a number with the unit ms, s, m or h.
func parseTTL(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return time.Duration(n) * time.Millisecond, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("context_ttl: wrong type")
	}
	return d, nil
}
