package appliance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/test/appliance/rest"
)

const (
	defaultLimit = 1000
	none         = ".none" // in a filter: objects without a value
	me           = ".me"   // in a filter: the caller
)

// search is the body of a search of detections.
type search struct {
	filter
	from, until, updateTime, modTime *int64 // milliseconds; nil: not in the request
	limit                            *whole
	offset                           int
	sort                             order
	idOnly                           bool
}

// filter is the filter of a search. An empty list does not restrict it.
type filter struct {
	categories, assignees, ticketIDs, statuses, resolutions, types []string
	riskScoreMin                                                   *float64
	recommended                                                    *bool
}

// parseSearch returns the search in the body of a request, which fits the description.
func (a *Appliance) parseSearch(r *rest.Request) (search, error) {
	var body struct {
		Filter struct {
			Category     string
			Categories   []string
			Assignee     []string
			TicketID     []string `json:"ticket_id"`
			Status       []string
			Resolution   []string
			Types        []string
			RiskScoreMin *float64 `json:"risk_score_min"`
			Recommended  *bool
		}
		From, Until json.RawMessage
		UpdateTime  json.RawMessage `json:"update_time"`
		ModTime     json.RawMessage `json:"mod_time"`
		Limit       *whole
		Offset      whole
		Sort        []struct{ Field, Direction string }
		IDOnly      bool `json:"id_only"`
	}
	if err := r.Decode(&body); err != nil {
		return search{}, err
	}
	s := search{
		filter: filter{
			categories: body.Filter.Categories, assignees: body.Filter.Assignee, ticketIDs: body.Filter.TicketID,
			statuses: body.Filter.Status, resolutions: body.Filter.Resolution, types: body.Filter.Types,
			riskScoreMin: body.Filter.RiskScoreMin, recommended: body.Filter.Recommended,
		},
		limit: body.Limit, offset: int(body.Offset), idOnly: body.IDOnly,
	}
	if body.Filter.Category != "" {
		s.categories = append(s.categories, body.Filter.Category)
	}
	for i, assignee := range s.assignees {
		if assignee == me {
			s.assignees[i] = r.Caller.Name
		}
	}
	if s.recommended != nil && !a.options.Console {
		return search{}, errors.New("filter.recommended: only valid on a console")
	}
	now := a.Clock()
	for _, field := range []struct {
		name string
		raw  json.RawMessage
		into **int64
	}{
		{"from", body.From, &s.from}, {"until", body.Until, &s.until},
		{"update_time", body.UpdateTime, &s.updateTime}, {"mod_time", body.ModTime, &s.modTime},
	} {
		if field.raw == nil || string(field.raw) == "null" {
			continue
		}
		at, err := rest.ParseTime(field.raw, now)
		if err != nil {
			return search{}, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.into = &at
	}
	for _, field := range body.Sort {
		s.sort = append(s.sort, sortField{field.Field, field.Direction == "desc"})
	}
	if a.oldFirmware.Load() {
		if s.modTime != nil {
			return search{}, errors.New("mod_time: unknown to this firmware")
		}
		if i := slices.IndexFunc(s.sort, sortField.isNew); i >= 0 {
			return search{}, fmt.Errorf("sort.%d.field: %s is unknown to this firmware", i, s.sort[i].name)
		}
	}
	return s, nil
}

// whole is an integer of a request, which JSON can also write with a decimal point or an
// exponent.
type whole int64

// UnmarshalJSON implements json.Unmarshaler.
func (w *whole) UnmarshalJSON(b []byte) error {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		*w = whole(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("%s is not an integer that the appliance can represent", b)
	}
	*w = whole(f)
	return nil
}

// matches reports whether a search finds v. If inclusive is set, mod_time is an inclusive
// bound.
func (s *search) matches(v *Version, inclusive bool) bool {
	return s.filter.matches(v) &&
		// Earlier detections are found if they were ongoing then.
		(s.from == nil || v.EndTime == 0 || v.EndTime >= *s.from) &&
		(s.until == nil || v.EndTime != 0 && v.EndTime < *s.until) &&
		(s.updateTime == nil || v.UpdateTime > *s.updateTime) &&
		(s.modTime == nil || v.ModTime >= s.bound(inclusive))
}

// bound returns the lowest mod_time that a search finds.
func (s *search) bound(inclusive bool) int64 {
	switch {
	case s.modTime == nil:
		return math.MinInt64
	case inclusive || *s.modTime == math.MaxInt64:
		return *s.modTime
	}
	return *s.modTime + 1
}

func (f *filter) matches(v *Version) bool {
	return (len(f.categories) == 0 || slices.ContainsFunc(f.categories, v.in)) &&
		hasOne(f.assignees, v.Assignee) &&
		hasOne(f.ticketIDs, v.TicketID) &&
		hasOne(f.statuses, v.Status) &&
		hasOne(f.resolutions, v.Resolution) &&
		(len(f.types) == 0 || slices.Contains(f.types, v.Type)) &&
		(f.riskScoreMin == nil || v.RiskScore >= 0 && float64(v.RiskScore) >= *f.riskScoreMin) &&
		(f.recommended == nil || v.Recommended == *f.recommended)
}

// hasOne reports whether v is one of the values, or is empty while .none is one of them.
func hasOne(wanted []string, value string) bool {
	if len(wanted) == 0 {
		return true
	}
	if value == "" {
		value = none
	}
	return slices.Contains(wanted, value)
}

// in reports whether v is in a category. sec and perf include their subcategories.
func (v *Version) in(category string) bool {
	return slices.ContainsFunc(v.Categories, func(has string) bool {
		return has == category || strings.HasPrefix(has, category+".")
	})
}

// order is the list of fields by which a search sorts.
type order []sortField

type sortField struct {
	name       string
	descending bool
}

// isNew reports whether old firmware lacks the field.
func (f sortField) isNew() bool {
	return slices.Contains([]string{"mod_time", "create_time", "url"}, f.name)
}

// isIndexed reports whether the index has this order.
func (o order) isIndexed() bool {
	return len(o) > 0 && o[0] == sortField{name: "mod_time"} && (len(o) == 1 || o[1] == sortField{name: "id"})
}

// comparer returns a function that compares in the order, then by id. The default order
// has the most recent update_time first.
func (o order) comparer() func(a, b *Version) int {
	if len(o) == 0 {
		o = order{{"update_time", true}}
	}
	by := make([]func(a, b *Version) int, len(o))
	for i, field := range o {
		by[i] = comparison(field.name)
	}
	return func(a, b *Version) int {
		for i, compare := range by {
			c := compare(a, b)
			if o[i].descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return cmp.Compare(a.ID, b.ID)
	}
}

// shuffled returns a function that compares versions with the same mod_time in an
// arbitrary order, and others with compare.
func shuffled(compare func(a, b *Version) int, seed uint64) func(a, b *Version) int {
	mixed := func(v *Version) uint64 {
		h := (uint64(v.ID) ^ seed) * 0x9e3779b97f4a7c15
		return h ^ h>>29
	}
	return func(a, b *Version) int {
		if a.ModTime == b.ModTime {
			return cmp.Or(cmp.Compare(mixed(a), mixed(b)), cmp.Compare(a.ID, b.ID))
		}
		return compare(a, b)
	}
}

// The fields that a search can sort by.
var (
	numbers = map[string]func(*Version) int64{
		"id":           func(v *Version) int64 { return v.ID },
		"appliance_id": func(v *Version) int64 { return v.ApplianceID },
		"start_time":   func(v *Version) int64 { return v.StartTime },
		"update_time":  func(v *Version) int64 { return v.UpdateTime },
		"mod_time":     func(v *Version) int64 { return v.ModTime },
		"create_time":  func(v *Version) int64 { return v.CreateTime },
		"end_time":     func(v *Version) int64 { return cmp.Or(v.EndTime, math.MaxInt64) }, // ongoing: later than all ends
		"risk_score":   func(v *Version) int64 { return int64(v.RiskScore) },
	}
	texts = map[string]func(*Version) string{
		"type":       func(v *Version) string { return v.Type },
		"title":      func(v *Version) string { return v.Title },
		"status":     func(v *Version) string { return v.Status },
		"resolution": func(v *Version) string { return v.Resolution },
		"assignee":   func(v *Version) string { return v.Assignee },
		"ticket_id":  func(v *Version) string { return v.TicketID },
	}
)

// comparison returns a function that compares by a field.
func comparison(field string) func(a, b *Version) int {
	if value := numbers[field]; value != nil {
		return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
	}
	value := texts[field]
	if value == nil {
		value = encoded(field)
	}
	return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
}

// encoded returns a function that returns a field as text: a string as it is, null and an
// absent field as nothing, and everything else as JSON. It remembers the results.
func encoded(field string) func(*Version) string {
	known := make(map[*Version]string)
	return func(v *Version) string {
		text, ok := known[v]
		if !ok {
			text = encodedField(v.JSON, field)
			known[v] = text
		}
		return text
	}
}

func encodedField(object []byte, field string) (text string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		panic(err) // a bug: encode wrote it
	}
	switch raw := fields[field]; {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) == nil:
		return text
	default:
		return string(raw)
	}
}
