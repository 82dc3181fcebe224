package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"ndrbridge/internal/jsonscan"
)

// Redaction is a set of fields to remove from data.
type Redaction struct{ root redacted }

// redacted holds the members of an object to remove: a nil value removes the whole
// member, any other value the members below.
type redacted map[string]redacted

// alsoIn are, by the path of a detection's field, other paths into data, of any stream, with
// values of that field, or with texts that may contain them: a ticket's URL contains its id,
// and the reason for which a command was rejected may quote any part of it. Of follow-ups,
// what people have written, and what the appliance knows about participants, may contain any of
// the values of the same kind.
var alsoIn = map[string][]string{
	"detection.id":          {"ticket.detection_id", "ticket.reason", "rule.detection_id", "rule.reason", "note.detection_id", "note.reason", "related.id"},
	"detection.ticket_id":   {"ticket.ticket_id", "ticket.moved_from", "ticket.reason", "detection.ticket_url", "changes.ticket_url", "note.text"},
	"detection.ticket_url":  {"note.text"},
	"detection.create_time": {"lifecycle.first_seen"},
	"detection.status":      {"ticket.status", "ticket.reason", "lifecycle.acknowledged", "lifecycle.closed", "lifecycle.reopened"},
	"detection.resolution":  {"ticket.resolution", "ticket.reason"},
	"detection.assignee":    {"ticket.assignee", "ticket.by", "ticket.reason", "rule.by", "note.by", "note.author", "note.text", "visibility.rules.author", "visibility.rules.description"},
	"detection.categories":  {"ticket.group"},
	"detection.title":       {"note.text", "visibility.rules.description", "related.title"},
	"detection.description": {"note.text", "visibility.rules.description"},
	"detection.type":        {"format", "ticket.group", "rule.detection_types", "changes.detection_types"},
	"detection.url":         {"link", "note.text"},
	"detection.properties":  {"note.text", "evidence.records"},
	"detection.participants": {
		"note.text", "ticket.group", "visibility.rules.description", "context.devices", "evidence.records", "related.title",
		"rule.offender", "rule.victim", "rule.properties", "rule.description", "rule.reason",
		"changes.offender", "changes.victim", "changes.properties", "changes.description",
	},
	"detection.participants.hostname":     {"devices"},
	"detection.participants.object_id":    {"devices"},
	"detection.participants.object_value": {"devices"},
}

// ParseRedaction parses paths into data: names joined by dots, such as
// detection.participants.username. A path through an array applies to each of its
// elements. A path into the detection also removes the field's values in changes, in
// events about tickets, and in what the detection was enriched with, and a path into a tuning
// rule those in changes. The error names the first invalid path.
func ParseRedaction(paths []string) (Redaction, error) {
	root := make(redacted)
	for _, path := range paths {
		names := strings.Split(path, ".")
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, "\"\\") {
				return Redaction{}, fmt.Errorf("%q is not a path of a field: write names joined by dots, such as detection.description", path)
			}
		}
		root.add(names)
		for field, others := range alsoIn {
			if !strings.HasPrefix(field+".", path+".") && !strings.HasPrefix(path, field+".") {
				continue
			}
			for _, other := range others {
				root.add(strings.Split(other, "."))
			}
		}
		isRule := names[0] == "rule"
		if names[0] != "detection" && !isRule {
			continue
		}
		switch tracked := names[1:]; {
		case isRule && len(tracked) == 0: // the changes of detections stay
			for _, field := range ruleFields[:comparedFields] {
				root.add([]string{"changes", field})
			}
		case len(tracked) < 2:
			root.add(append([]string{"changes"}, tracked...))
		default:
			for _, side := range []string{"from", "to", "added", "removed", "changed"} {
				root.add(append([]string{"changes", tracked[0], side}, tracked[1:]...))
			}
		}
	}
	return Redaction{root}, nil
}

// add adds a path. A shorter path overrides longer ones.
func (r redacted) add(names []string) {
	name, rest := names[0], names[1:]
	below, known := r[name]
	switch {
	case known && below == nil:
	case len(rest) == 0:
		r[name] = nil
	default:
		if !known {
			below = make(redacted)
			r[name] = below
		}
		below.add(rest)
	}
}

// member returns the entry for a member, given its name as written between its quotes,
// which may contain escapes.
func (r redacted) member(name []byte) (below redacted, listed bool) {
	if bytes.IndexByte(name, '\\') >= 0 {
		var plain string
		if json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &plain) == nil {
			name = []byte(plain)
		}
	}
	below, listed = r[string(name)]
	return below, listed
}

// Apply returns an event without the fields. An event that has none of them is returned
// unchanged.
func (r Redaction) Apply(e Event) (Event, error) {
	if len(r.root) == 0 {
		return e, nil
	}
	data, changed := r.root.appendTo(nil, e.Data())
	if !changed {
		return e, nil
	}
	redacted, err := encode(e.Attributes, data)
	redacted.redelivery = e.redelivery
	return redacted, err
}

// appendTo appends a value without the fields to remove, and reports whether any was
// removed.
func (r redacted) appendTo(dst, value []byte) (_ []byte, changed bool) {
	switch value[0] {
	case '{':
		dst = append(dst, '{')
		for name, member := range jsonscan.Members(value) {
			below, listed := r.member(name)
			if listed && below == nil {
				changed = true
				continue
			}
			dst = appendName(dst, name)
			if !listed {
				dst = append(dst, member...)
				continue
			}
			var within bool
			dst, within = below.appendTo(dst, member)
			changed = changed || within
		}
		return append(dst, '}'), changed
	case '[':
		dst = append(dst, '[')
		for element := range jsonscan.Elements(value) {
			var within bool
			dst, within = r.appendTo(AppendComma(dst), element)
			changed = changed || within
		}
		return append(dst, ']'), changed
	}
	return append(dst, value...), false
}
