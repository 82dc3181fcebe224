package webhookintake

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/commands"
)

// Mapping maps the body of a webhook to a ticket command. A path consists of names and
// list indexes joined by dots. The default of each key depends on the system and is shown
// in the example configuration. Tables are merged with the defaults.
//
// An empty path finds nothing. If a field is absent or null, the appliance's value stays unchanged,
// except that a null assignee unassigns. The tags are those of package configs.
type Mapping struct {
	// Event is the path of the kind of the webhook, such as "issue updated".
	Event string `yaml:"event" form:"path"`
	// Events are the kinds that are accepted; others are ignored.
	Events []string `yaml:"events"`
	// Actor lists the paths of the account that made the change, which is compared with
	// the bridge's own accounts.
	Actor []string `yaml:"actor" form:"path"`
	// Changes is the path of the list of changes, objects with the key field. Fields that
	// are not in the list are left as they are.
	Changes string `yaml:"changes" form:"path"`
	// KeyHeader is the header that identifies a request, so that a repeated request is
	// accepted once.
	KeyHeader string `yaml:"key_header"`
	// Key lists the paths of fields that together identify a request, if no header does.
	Key []string `yaml:"key" form:"path"`
	// TicketID is the path of the ticket's id.
	TicketID string `yaml:"ticket_id" form:"path"`
	// Appliance is the path of the appliance's name. Without it, and with several
	// appliances, the bridge finds the one that knows the ticket.
	Appliance string `yaml:"appliance" form:"path"`
	// DetectionID is the path of the id of a detection to link to the ticket.
	DetectionID string `yaml:"detection_id" form:"path"`
	// Assignee is the path of the assignee, who must be a user of the appliance.
	Assignee string `yaml:"assignee" form:"path"`
	// Status lists paths of the status. The first whose value is in [Mapping.Statuses]
	// is used.
	Status []string `yaml:"status" form:"path"`
	// Statuses maps statuses to new, in_progress, closed, acknowledged or ignore; * stands
	// for any other status. A status that is not mapped is rejected.
	Statuses map[string]string `yaml:"statuses"`
	// Resolution is the path of the resolution, which is read only if the status is mapped
	// to closed.
	Resolution string `yaml:"resolution" form:"path"`
	// Resolutions maps resolutions to action_taken, no_action_taken or ignore; * stands for
	// any other resolution.
	Resolutions map[string]string `yaml:"resolutions"`
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

// check returns the errors of a mapping: without the path of the ticket's id, or with invalid
// tables.
func (m Mapping) check() error {
	if m.TicketID == "" {
		return errors.New("ticket_id: is missing: write the path of the ticket id")
	}
	return errors.Join(checkTable("statuses", m.Statuses, commands.Statuses()), checkTable("resolutions", m.Resolutions, commands.Resolutions()))
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
// with a *commands.FieldError if the table maps none of the values.
func (v *values) lookup(table map[string]string, paths ...string) string {
	var unknown *commands.FieldError
	for _, path := range paths {
		value, _ := v.text(path)
		if value == "" {
			continue
		}
		if to, ok := table[strings.ToLower(value)]; ok {
			return target(to)
		}
		unknown = &commands.FieldError{
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
	v.fail(&commands.FieldError{Field: path, Problem: "must be text or a number"})
	return "", false
}
