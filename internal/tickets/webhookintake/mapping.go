package webhookintake

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/tickets"
)

// Mapping says where each field of a command is in a JSON body, and how its values
// translate. A path consists of member names and list indexes separated by dots, such
// as issue.fields.labels.0; an empty path finds nothing. If a field is absent or null,
// the appliance's value stays unchanged, except that a null assignee unassigns.
type Mapping struct {
	// Event is the path of the event name. Events are the accepted names; others are
	// ignored. If Events is empty or the body has no event name, all are accepted.
	Event  string
	Events []string
	// Actor are the paths of the user who made the change, by any of the names that the
	// system uses.
	Actor []string
	// Changes is the path of a list of changes: objects whose field is status,
	// resolution, assignee or something else. If the list exists, only the named fields
	// are applied, so that changes made at the appliance meanwhile are kept.
	Changes string
	// KeyHeader is the header that identifies the request. Key are the paths whose
	// values together identify it if the header is absent. Neither is used for signed
	// requests.
	KeyHeader string
	Key       []string

	TicketID    string // must not be empty
	Appliance   string
	DetectionID string
	Assignee    string
	// Status are paths: the first value that Statuses maps is used. A body that has
	// values there but no mapped one is refused.
	Status []string
	// Statuses maps the system's values, ignoring case, to the appliance's or to
	// Ignore. Any stands for all unmapped values.
	Statuses map[string]string
	// Resolution is read if the ticket is closed. Resolutions works like Statuses.
	Resolution  string
	Resolutions map[string]string
}

// Ignore is the target of values that the appliance does not need to know. Any is the
// key that stands for every unmapped value.
const (
	ignore = "ignore"
	Any    = "*"
)

// Over returns m overridden by the non-empty fields of o. Tables are merged.
func (m Mapping) Over(o Mapping) Mapping {
	m.Event, m.Events = cmp.Or(o.Event, m.Event), orList(o.Events, m.Events)
	m.Actor = orList(o.Actor, m.Actor)
	m.Changes = cmp.Or(o.Changes, m.Changes)
	m.KeyHeader, m.Key = cmp.Or(o.KeyHeader, m.KeyHeader), orList(o.Key, m.Key)
	m.TicketID = cmp.Or(o.TicketID, m.TicketID)
	m.Appliance = cmp.Or(o.Appliance, m.Appliance)
	m.DetectionID = cmp.Or(o.DetectionID, m.DetectionID)
	m.Assignee = cmp.Or(o.Assignee, m.Assignee)
	m.Status, m.Statuses = orList(o.Status, m.Status), merged(m.Statuses, o.Statuses)
	m.Resolution, m.Resolutions = cmp.Or(o.Resolution, m.Resolution), merged(m.Resolutions, o.Resolutions)
	return m
}

// orList returns the first list, or the second if the first is empty.
func orList(list, otherwise []string) []string {
	if len(list) > 0 {
		return list
	}
	return otherwise
}

// merged returns both tables, with their values to map in lower case.
func merged(table, over map[string]string) map[string]string {
	all := make(map[string]string, len(table)+len(over))
	for _, t := range []map[string]string{table, over} {
		for from, to := range t {
			all[strings.ToLower(from)] = to
		}
	}
	return all
}

// check returns the errors of a mapping: paths and tables that are invalid.
func (m Mapping) check() error {
	var errs []error
	for _, p := range []struct {
		name  string
		paths []string
	}{
		{"event", []string{m.Event}}, {"changes", []string{m.Changes}}, {"ticket_id", []string{m.TicketID}},
		{"appliance", []string{m.Appliance}}, {"detection_id", []string{m.DetectionID}}, {"assignee", []string{m.Assignee}},
		{"resolution", []string{m.Resolution}}, {"actor", m.Actor}, {"key", m.Key}, {"status", m.Status},
	} {
		for _, path := range p.paths {
			if path != "" && slices.Contains(strings.Split(path, "."), "") {
				errs = append(errs, fmt.Errorf("%s: %q is not a path: separate names and indexes by dots, such as issue.key", p.name, path))
			}
		}
	}
	if m.TicketID == "" {
		errs = append(errs, errors.New("ticket_id: is missing: write the path of the ticket id"))
	}
	return errors.Join(append(errs, checkTable("statuses", m.Statuses, tickets.Statuses()), checkTable("resolutions", m.Resolutions, tickets.Resolutions()))...)
}

func checkTable(name string, table map[string]string, allowed []string) error {
	for from, to := range table {
		if to != ignore && !slices.Contains(allowed, to) {
			return fmt.Errorf("%s: %q is mapped to %q, which is not one of %s, %s", name, from, to, strings.Join(allowed, ", "), ignore)
		}
	}
	return nil
}

// values reads a body by the paths of a Mapping.
type values struct {
	root any
	err  error // the first
}

func (v *values) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// lookup returns the mapped value of the first path whose value is in the table, or
// else that of Any. It returns "" if the result is Ignore or no path has a value, and fails
// with a *tickets.FieldError if the table maps none of the values.
func (v *values) lookup(table map[string]string, paths ...string) string {
	var unknown *tickets.FieldError
	for _, path := range paths {
		value, _ := v.text(path)
		if value == "" {
			continue
		}
		if to, ok := table[strings.ToLower(value)]; ok {
			return target(to)
		}
		unknown = &tickets.FieldError{
			Field:   path,
			Problem: fmt.Sprintf("%.80q is not mapped: add it to the webhook's map, or map it to %s", value, ignore),
			Allowed: slices.Sorted(maps.Keys(table)),
		}
	}
	if unknown == nil {
		return ""
	}
	if to, ok := table[Any]; ok {
		return target(to)
	}
	v.fail(unknown)
	return ""
}

func target(to string) string {
	if to == ignore {
		return ""
	}
	return to
}

// at returns the value at a path of a Mapping. value is nil for JSON null, also if the
// path continues below a null.
func (v *values) at(path string) (value any, found bool) {
	if path == "" {
		return nil, false
	}
	value = v.root
	for step := range strings.SplitSeq(path, ".") {
		switch at := value.(type) {
		case nil:
			return nil, true
		case map[string]any:
			if value, found = at[step]; !found {
				return nil, false
			}
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(at) {
				return nil, false
			}
			value = at[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// text returns the value at the path if it is a string, a number, which is not
// reformatted, or a boolean. found is false if there is no value or it is null. Other values
// are errors.
func (v *values) text(path string) (text string, found bool) {
	switch value, _ := v.at(path); value := value.(type) {
	case nil:
		return "", false
	case string:
		return value, true
	case number:
		return string(value), true
	case bool:
		return strconv.FormatBool(value), true
	}
	v.fail(&tickets.FieldError{Field: path, Problem: "must be text or a number"})
	return "", false
}
