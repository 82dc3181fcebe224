package appliance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	defaultLimit = 1000
	maxLimit     = 20000
	none         = ".none" // in a filter: objects without a value
	me           = ".me"   // in a filter: the caller
)

// search is the body of a search of detections.
type search struct {
	filter
	from, until, updateTime, modTime *int64 // milliseconds; nil: not in the request
	limit                            *int
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

// parseSearch parses the body of a search that a user sent, received at the time now.
func (a *Appliance) parseSearch(body *object, caller string, now time.Time) (search, error) {
	var s search
	takeTime := func(name string, into **int64) {
		var at int64
		if body.takeTime(name, now, &at) {
			*into = &at
		}
	}
	takeTime("from", &s.from)
	takeTime("until", &s.until)
	takeTime("update_time", &s.updateTime)
	takeTime("mod_time", &s.modTime)
	body.takeOptional("limit", &s.limit)
	body.takeOptional("offset", &s.offset)
	body.takeOptional("id_only", &s.idOnly)
	var filter object
	if body.takeOptional("filter", &filter) {
		if err := s.filter.parse(&filter, a.options, caller); err != nil {
			body.fail("%w", err)
		}
	}
	var sort []object
	if body.takeOptional("sort", &sort) {
		var err error
		if s.sort, err = parseOrder(sort); err != nil {
			body.fail("%w", err)
		}
	}
	if err := checkLimit(s.limit); err != nil {
		body.fail("%w", err)
	}
	if s.offset < 0 {
		body.fail("offset: must not be negative")
	}
	if a.oldFirmware.Load() && (s.modTime != nil || slices.ContainsFunc(s.sort, sortField.isNew)) {
		body.fail("mod_time: unknown to this firmware")
	}
	return s, body.end("")
}

func checkLimit(limit *int) error {
	if limit != nil && (*limit < 0 || *limit > maxLimit) {
		return fmt.Errorf("limit: must be between 0 and %d", maxLimit)
	}
	return nil
}

// parse parses the filter of a search.
func (f *filter) parse(body *object, o Options, caller string) error {
	list := func(name string, into *[]string, allowed func(string) bool) {
		body.takeOptional(name, into)
		for _, value := range *into {
			if allowed != nil && !allowed(value) {
				body.fail("filter.%s: %q is not allowed", name, value)
			}
		}
	}
	list("categories", &f.categories, isCategory)
	list("assignee", &f.assignees, nil)
	list("ticket_id", &f.ticketIDs, nil)
	list("status", &f.statuses, func(s string) bool { return s == none || isStatus(s) })
	list("resolution", &f.resolutions, func(s string) bool { return s == none || isResolution(s) })
	list("types", &f.types, nil)
	for i, assignee := range f.assignees {
		if assignee == me {
			f.assignees[i] = caller
		}
	}

	var category string
	if body.takeOptional("category", &category) {
		if !isCategory(category) {
			body.fail("filter.category: %q is not allowed", category)
		}
		f.categories = append(f.categories, category)
	}
	body.takeOptional("risk_score_min", &f.riskScoreMin)
	if body.takeOptional("recommended", &f.recommended) && !o.Console {
		body.fail("filter.recommended: only valid on a console")
	}
	return body.end("filter.")
}

func isStatus(s string) bool {
	return slices.Contains([]string{"new", "in_progress", "closed", "acknowledged"}, s)
}

func isResolution(s string) bool {
	return slices.Contains([]string{"action_taken", "no_action_taken"}, s)
}

func isCategory(s string) bool {
	return slices.Contains([]string{
		"sec", "sec.action", "sec.botnet", "sec.caution", "sec.command", "sec.cryptomining", "sec.dos", "sec.exfil",
		"sec.exploit", "sec.hardening", "sec.lateral", "sec.ransomware", "sec.recon",
		"sec.attack", // undocumented, but in use
		"perf", "perf.auth", "perf.db", "perf.network", "perf.service", "perf.storage", "perf.virtual", "perf.web",
	}, s)
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
func (f sortField) isNew() bool { return f.name == "mod_time" || f.name == "create_time" }

func parseOrder(fields []object) (order, error) {
	var o order
	for i, field := range fields {
		var name, direction string
		field.take("field", &name)
		field.take("direction", &direction)
		if err := field.end(""); err != nil {
			return nil, fmt.Errorf("sort[%d].%w", i, err)
		}
		if comparison(name) == nil {
			return nil, fmt.Errorf("sort[%d].field: cannot sort by %q", i, name)
		}
		if direction != "asc" && direction != "desc" {
			return nil, fmt.Errorf("sort[%d].direction: must be asc or desc", i)
		}
		o = append(o, sortField{name, direction == "desc"})
	}
	return o, nil
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

// comparison returns a function that compares by a field, or nil if the field cannot be
// sorted by.
func comparison(field string) func(a, b *Version) int {
	if value := numbers[field]; value != nil {
		return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
	}
	if value := texts[field]; value != nil {
		return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
	}
	return nil
}
