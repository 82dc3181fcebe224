package webhooks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ndrbridge/tickets"
)

// Mapping says where in a body of JSON each field of a command is, and what its
// values mean. A path holds names of members and indexes of lists with dots between
// them, such as issue.fields.labels.0; an empty one leads nowhere. A field that is
// not there, or null, is left as it is at the appliance; but an assignee of null is
// nobody.
type Mapping struct {
	// Event is the path of what happened, and Events are those that are taken;
	// others are ignored. Where there are no Events, or the body does not tell, all
	// are taken.
	Event  string
	Events []string
	// Actor are the paths of who did it, by any of the names that the system has
	// for them.
	Actor []string
	// Changes is the path of a list of what changed, objects whose field is status,
	// resolution, assignee or something else. Where there is such a list, only what
	// it names is taken: what somebody changed at the appliance meanwhile stays.
	Changes string
	// KeyHeader is the header that names the request, and Key are the paths whose
	// values name it together where there is no such header. Neither is used for a
	// request with a signature.
	KeyHeader string
	Key       []string

	TicketID    string // never empty
	Appliance   string
	DetectionID string
	Assignee    string
	// Status are paths: the first whose value Statuses has is taken. A body that has
	// values there, and none of them known, is refused.
	Status []string
	// Statuses map the system's values, in whatever case, to the appliance's, or to
	// Ignore; Any stands for those that it does not name.
	Statuses map[string]string
	// Resolution is read where the ticket is closed, and Resolutions are as Statuses.
	Resolution  string
	Resolutions map[string]string
}

// Ignore is what a value is mapped to that means nothing to the appliance, and Any
// is every value that a table does not name.
const (
	Ignore = "ignore"
	Any    = "*"
)

// Over returns the mapping with what o sets over it: a field that o has empty is
// kept, and tables are merged.
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

// compiled is a Mapping that can be followed.
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
		errs = append(errs, errors.New("ticket_id: is missing: write the path of the ticket's id"))
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

// table maps values in lower case to the appliance's.
type table map[string]string

func newTable(values map[string]string, allowed []string) (table, error) {
	for from, to := range values {
		if to != Ignore && !slices.Contains(allowed, to) {
			return nil, fmt.Errorf("%q is mapped to %q, which is none of %s, %s", from, to, strings.Join(allowed, ", "), Ignore)
		}
	}
	return merged(nil, values), nil
}

// look returns what the first value that the table names means, or what Any does:
// empty where that is Ignore, or where there is no value. A *tickets.FieldError where
// there are values and the table has none of them.
func (t table) look(paths []path, root any) (string, error) {
	var unknown *tickets.FieldError
	for _, p := range paths {
		value, found, err := p.text(root)
		if err != nil {
			return "", err
		}
		if !found || value == "" {
			continue
		}
		if to, named := t[strings.ToLower(value)]; named {
			return meaning(to), nil
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
	if to, any := t[Any]; any {
		return meaning(to), nil
	}
	return "", unknown
}

func meaning(to string) string {
	if to == Ignore {
		return ""
	}
	return to
}
