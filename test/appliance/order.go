package appliance

import (
	"cmp"
	"fmt"
	"math"
)

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
		_, nameErr := field.take("field", &name)
		_, directionErr := field.take("direction", &direction)
		if err := cmp.Or(nameErr, directionErr, field.end("")); err != nil {
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
	var by []func(a, b *Version) int
	for _, field := range o {
		compare := comparison(field.name)
		if field.descending {
			ascending := compare
			compare = func(a, b *Version) int { return ascending(b, a) }
		}
		by = append(by, compare)
	}
	return func(a, b *Version) int {
		for _, compare := range by {
			if c := compare(a, b); c != 0 {
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

// comparison returns a function that compares by a field, or nil if the field cannot be
// sorted by.
func comparison(field string) func(a, b *Version) int {
	by := func(value func(*Version) int64) func(a, b *Version) int {
		return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
	}
	byText := func(value func(*Version) string) func(a, b *Version) int {
		return func(a, b *Version) int { return cmp.Compare(value(a), value(b)) }
	}
	switch field {
	case "id":
		return by(func(v *Version) int64 { return v.ID })
	case "appliance_id":
		return by(func(v *Version) int64 { return v.ApplianceID })
	case "start_time":
		return by(func(v *Version) int64 { return v.StartTime })
	case "update_time":
		return by(func(v *Version) int64 { return v.UpdateTime })
	case "mod_time":
		return by(func(v *Version) int64 { return v.ModTime })
	case "create_time":
		return by(func(v *Version) int64 { return v.CreateTime })
	case "end_time":
		return by(func(v *Version) int64 {
			if v.EndTime == 0 {
				return math.MaxInt64 // ongoing: later than all ends
			}
			return v.EndTime
		})
	case "risk_score":
		return by(func(v *Version) int64 { return int64(v.RiskScore) })
	case "type":
		return byText(func(v *Version) string { return v.Type })
	case "title":
		return byText(func(v *Version) string { return v.Title })
	case "status":
		return byText(func(v *Version) string { return v.Status })
	case "resolution":
		return byText(func(v *Version) string { return v.Resolution })
	case "assignee":
		return byText(func(v *Version) string { return v.Assignee })
	case "ticket_id":
		return byText(func(v *Version) string { return v.TicketID })
	}
	return nil
}
