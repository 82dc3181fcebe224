package webhookintake

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ndrbridge/tickets"
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
	Ignore = "ignore"
	Any    = "*"
)

// Over returns m overridden by the non-empty fields of o. Tables are merged.
func (m Mapping) Over(o Mapping) Mapping {
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&m.Event, o.Event}, {&m.Changes, o.Changes}, {&m.KeyHeader, o.KeyHeader}, {&m.TicketID, o.TicketID},
		{&m.Appliance, o.Appliance}, {&m.DetectionID, o.DetectionID}, {&m.Assignee, o.Assignee}, {&m.Resolution, o.Resolution},
	} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	for _, f := range []struct {
		to   *[]string
		from []string
	}{{&m.Events, o.Events}, {&m.Actor, o.Actor}, {&m.Key, o.Key}, {&m.Status, o.Status}} {
		if len(f.from) > 0 {
			*f.to = f.from
		}
	}
	m.Statuses = merged(m.Statuses, o.Statuses)
	m.Resolutions = merged(m.Resolutions, o.Resolutions)
	return m
}

func merged(table, over map[string]string) map[string]string {
	all := make(map[string]string, len(table)+len(over))
	for _, t := range []map[string]string{table, over} {
		for from, to := range t {
			all[strings.ToLower(from)] = to
		}
	}
	return all
}

// compiled is a Mapping with parsed paths and tables.
type compiled struct {
	event                                               path
	events                                              []string
	actor, key, status                                  []path
	changes, ticketID, appliance, detectionID, assignee path
	resolution                                          []path
	keyHeader                                           string
	statuses, resolutions                               table
}

func (m Mapping) compile() (compiled, error) {
	c := compiled{events: m.Events, keyHeader: m.KeyHeader}
	var errs []error
	one := func(name, text string) path {
		p, err := parsePath(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return p
	}
	several := func(name string, texts []string) (paths []path) {
		for _, text := range texts {
			paths = append(paths, one(name, text))
		}
		return paths
	}
	c.event, c.changes = one("event", m.Event), one("changes", m.Changes)
	c.ticketID, c.appliance, c.detectionID = one("ticket_id", m.TicketID), one("appliance", m.Appliance), one("detection_id", m.DetectionID)
	c.assignee, c.resolution = one("assignee", m.Assignee), several("resolution", []string{m.Resolution})
	c.actor, c.key, c.status = several("actor", m.Actor), several("key", m.Key), several("status", m.Status)
	if m.TicketID == "" {
		errs = append(errs, errors.New("ticket_id: is missing: write the path of the ticket id"))
	}
	var err error
	if c.statuses, err = newTable(m.Statuses, tickets.Statuses()); err != nil {
		errs = append(errs, fmt.Errorf("statuses: %w", err))
	}
	if c.resolutions, err = newTable(m.Resolutions, tickets.Resolutions()); err != nil {
		errs = append(errs, fmt.Errorf("resolutions: %w", err))
	}
	return c, errors.Join(errs...)
}

// table maps values, in lower case, to the appliance's.
type table map[string]string

func newTable(values map[string]string, allowed []string) (table, error) {
	for from, to := range values {
		if to != Ignore && !slices.Contains(allowed, to) {
			return nil, fmt.Errorf("%q is mapped to %q, which is not one of %s, %s", from, to, strings.Join(allowed, ", "), Ignore)
		}
	}
	return merged(nil, values), nil
}

// lookup returns the mapped value of the first path whose value is in the table, or
// else that of Any. It returns "" if the result is Ignore or no path has a value, and a
// *tickets.FieldError if the table maps none of the values.
func (t table) lookup(paths []path, root any) (string, error) {
	var unknown *tickets.FieldError
	for _, p := range paths {
		value, found, err := p.text(root)
		if err != nil {
			return "", err
		}
		if !found || value == "" {
			continue
		}
		if to, ok := t[strings.ToLower(value)]; ok {
			return target(to), nil
		}
		unknown = &tickets.FieldError{
			Field:   p.String(),
			Problem: fmt.Sprintf("%.80q is not mapped: add it to the webhook's map, or map it to %s", value, Ignore),
			Allowed: slices.Sorted(maps.Keys(t)),
		}
	}
	if unknown == nil {
		return "", nil
	}
	if to, ok := t[Any]; ok {
		return target(to), nil
	}
	return "", unknown
}

func target(to string) string {
	if to == Ignore {
		return ""
	}
	return to
}
