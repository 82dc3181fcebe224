package transform

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// Rule is a tuning rule of an appliance: it hides the detections that match it.
type Rule struct {
	// ID is the rule's id as written.
	ID string
	// Expiration is when the rule ends, in milliseconds since the epoch; 0: never.
	Expiration int64
	// Fields is a JSON object of the rule's fields apart from counters, in a form that does not
	// depend on the order of members and elements. A value longer than maxTracked is replaced by
	// its beginning and a digest. It is a rule for ParseRule, too.
	Fields []byte

	values [len(ruleFields)][]byte // nil: absent
}

// ruleFields are the fields of a rule that events show: first those that people change, then those
// that stay, and the counters.
var ruleFields = [...]string{
	"detection_types", "offender", "victim", "properties", "enabled", "expiration", "description",
	"id", "author", "create_time", "hide_past_detections",
	"detections_hidden", "participants_hidden",
}

const (
	comparedFields   = 7 // of a rule
	rememberedFields = 11
)

// ParseRule returns the rule that a JSON object contains, which must be valid JSON. The types of
// detections are in its member detection_types, in detection_type, or in both.
func ParseRule(object []byte) (Rule, error) {
	var r Rule
	var kind []byte
	for name, value := range jsonscan.Members(object) {
		if i := slices.Index(ruleFields[:], string(name)); i >= 0 {
			r.values[i] = value
		} else if string(name) == "detection_type" {
			kind = value
		}
	}
	r.values[0] = union(r.values[0], kind)
	for i, value := range r.values {
		if r.values[i] = canonical(value); string(r.values[i]) == "[]" {
			r.values[i] = nil
		}
	}
	const id, expiration = 7, 5
	if _, err := integer(r.values[id]); err != nil {
		return r, fmt.Errorf("id: %w", err)
	}
	r.ID = string(jsonscan.Number(r.values[id]))
	if r.Expiration, _ = jsonscan.Millis(r.values[expiration]); r.Expiration == 0 { // 0 after an error
		r.values[expiration] = nil
	}
	r.Fields = r.object(rememberedFields)
	return r, nil
}

// object returns a JSON object of the first fields of a rule.
func (r Rule) object(fields int) []byte {
	return append(appendMembers([]byte{'{'}, ruleFields[:], r.values[:fields]), '}')
}

// changes yields the fields that people changed between two states of a rule.
func (r Rule) changes(before Rule) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for i, field := range ruleFields[:comparedFields] {
			if from, to := before.values[i], r.values[i]; !bytes.Equal(from, to) && !yield(Change{Field: field, From: from, To: to}) {
				return
			}
		}
	}
}

// Differs reports whether people changed something between two states of a rule.
func (r Rule) Differs(before Rule) bool {
	for range r.changes(before) {
		return true
	}
	return false
}

// union returns an array of what two values, which may be absent, are or have as elements.
func union(values ...[]byte) []byte {
	var elements [][]byte
	for _, value := range values {
		switch {
		case absent(value):
		case value[0] == '[':
			elements = slices.AppendSeq(elements, jsonscan.Elements(value))
		default:
			elements = append(elements, value)
		}
	}
	slices.SortFunc(elements, bytes.Compare)
	return arrayOf(slices.CompactFunc(elements, bytes.Equal))
}

func arrayOf(elements [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(elements, []byte{','}), []byte{']'})
}

// maxSorted is how deep the members and elements of a value are sorted: no rule is nested deeper,
// and sorting takes time in proportion to the depth.
const maxSorted = 8

// canonical returns a valid JSON value, nil if it is absent, in a form that does not depend on white
// space, escapes, and the order of members and elements: the arrays of a rule are sets. Numbers are
// as written, and values are bounded as in Detection.Tracked.
func canonical(value []byte) []byte {
	if absent(value) {
		return nil
	}
	formatted := jsontext.Value(bytes.Clone(value))
	if err := formatted.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		formatted = value // at worst, equal values have different bytes
	}
	return boundValue(sorted(formatted, maxSorted))
}

// sorted returns a value without white space with the members of its objects and the elements of
// its arrays in order.
func sorted(value []byte, depth int) []byte {
	if depth == 0 || value[0] != '[' && value[0] != '{' {
		return value
	}
	var parts [][]byte
	for element := range jsonscan.Elements(value) {
		parts = append(parts, sorted(element, depth-1))
	}
	for name, member := range jsonscan.Members(value) {
		parts = append(parts, append(appendName([]byte{'{'}, name)[1:], sorted(member, depth-1)...))
	}
	slices.SortStableFunc(parts, bytes.Compare)
	return slices.Concat(value[:1], bytes.Join(parts, []byte{','}), value[len(value)-1:])
}

// RuleChange is a change in the tuning rules of an appliance.
type RuleChange struct {
	Action string // created, updated, expired or removed
	Rule   Rule   // of a removed rule, as it was last reported
	Before Rule   // of an updated rule
	By     string // who had the bridge create it; empty: nobody
}

// Rule returns the event that reports a change. Its id is derived from the rule and the time.
func (c Encoder) Rule(r RuleChange, recorded time.Time) (Event, error) {
	rule := r.Rule.object(len(ruleFields))
	if r.By != "" {
		by, err := jsontext.AppendQuote(nil, r.By)
		if err != nil {
			return Event{}, fmt.Errorf("encode who created the rule: %w", err)
		}
		rule = append(append(appendName(rule[:len(rule)-1], "by"), by...), '}')
	}
	parts := [][]byte{[]byte(`{"rule":`), rule, []byte{'}'}}
	if r.Action == "updated" {
		parts = slices.Insert(parts, 2, appendChangeList([]byte(`,"changes":`), r.Rule.changes(r.Before), nil))
	}
	kind := "rule." + r.Action
	return c.ownData(r.Rule.ID, kind, fmt.Sprintf("%s-%s-%d", kind, r.Rule.ID, recorded.UnixMilli()), recorded, parts...)
}

// RulesRemoved returns the event that reports that all rules of an appliance are gone, several at
// once. Its id is derived from their number and the time.
func (c Encoder) RulesRemoved(ids []string, recorded time.Time) (Event, error) {
	numbers := make([][]byte, len(ids))
	for i, id := range ids {
		numbers[i] = []byte(id)
	}
	id := fmt.Sprintf("rule.removed-all-%d-%d", len(ids), recorded.UnixMilli())
	return c.ownData(c.Appliance, "rule.removed", id, recorded, []byte(`{"rules":`), arrayOf(numbers), []byte{'}'})
}

// The kinds of blind spots.
const (
	BlindInterval = "exclusion_interval" // alerts are suppressed
	BlindAlert    = "alert"              // an alert is disabled
	BlindIngest   = "record_ingest"      // no records are stored
	BlindTracking = "ticket_tracking"    // neither tickets nor notes can be written
)

// blindFields are the fields of an exclusion interval or an alert that events show.
var blindFields = []string{
	"id", "name", "description", "author", "interval_type", "start", "end", "alert_apply_all", "trend_apply_all",
	"type", "severity", "apply_all",
}

// BlindSpot returns what events show of a blind spot: a JSON object of its kind, since when it is
// open, until when, if that is known, and fields of the appliance's object, bounded like those of a
// Rule.
func BlindSpot(kind string, since, until time.Time, object []byte) []byte {
	spot := append(appendName([]byte{'{'}, "kind"), strconv.Quote(kind)...)
	spot = append(appendName(spot, "since"), strconv.Quote(formatTime(since))...)
	if !until.IsZero() {
		spot = append(appendName(spot, "until"), strconv.Quote(formatTime(until))...)
	}
	values := make([][]byte, len(blindFields))
	for name, value := range jsonscan.Members(object) {
		if i := slices.Index(blindFields, string(name)); i >= 0 {
			values[i] = canonical(value)
		}
	}
	return append(appendMembers(spot, blindFields, values), '}')
}

// BlindSpot returns the event that reports that a blind spot, which BlindSpot returned, is open or,
// if open is false, not any more. id is that of the appliance's object, or the kind if it has
// none. The event's id is derived from the kind, id and the time.
func (c Encoder) BlindSpot(open bool, kind, id string, spot []byte, recorded time.Time) (Event, error) {
	action := "blindspot.closed"
	if open {
		action = "blindspot.opened"
	}
	return c.ownData(id, action, fmt.Sprintf("%s-%s-%s-%d", action, kind, id, recorded.UnixMilli()), recorded, []byte(`{"blindspot":`), spot, []byte{'}'})
}
