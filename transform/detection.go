package transform

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// tracked are the fields of a detection whose change makes a new version, and which an
// event's changes list. Other fields differ in every answer (a description's links
// contain times) or are derived from these.
//
// The first fields are list 1. Each field after them makes the next list, so that a
// Detection.Tracked that was stored before the field was added is compared without it. New
// fields are added at the end.
var tracked = [...]string{
	"status", "resolution", "assignee", "ticket_id", "ticket_url", "risk_score", "title", "type",
	"categories", "end_time", "recommended", "participants",
	"ai_disposition",
}

const (
	firstFields = 12 // in list 1
	lastList    = len(tracked) - firstFields + 1
	// listName is the member of a Detection.Tracked that holds the number of the list with
	// which it was made; list 1 has none.
	listName = "list"
)

// TrackedFields returns the names of the fields that an updated detection's changes can
// have.
func TrackedFields() []string { return slices.Clone(tracked[:]) }

// Statuses returns the documented statuses of a detection, in the order of the appliance's
// interface. Appliances also return null, and some return StatusOpen.
func Statuses() []string { return []string{"new", "in_progress", "closed", "acknowledged"} }

// StatusOpen is a status that some appliances return, but none accepts.
const StatusOpen = "open"

// Resolutions returns the documented resolutions of a closed detection.
func Resolutions() []string { return []string{"action_taken", "no_action_taken"} }

// Detection is one version of an appliance's detection.
type Detection struct {
	// ID is the detection's id. It exceeds 32 bits.
	ID int64
	// ModTime is mod_time in milliseconds since the epoch.
	ModTime int64
	// Created is create_time in milliseconds since the epoch; 0 if it is absent.
	Created int64
	// Began is create_time, else start_time, in milliseconds since the epoch; 0 if both
	// are absent.
	Began int64
	// Tracked is a JSON object of the tracked fields in a fixed order, without white
	// space, to compare with SameTracked, followed by the number of the list of these
	// fields. Absent and null fields are omitted, participants is replaced by their number,
	// and a value longer than maxTracked by its beginning and a digest. Of a detection that is
	// Digested, digests of the participants follow.
	Tracked []byte

	object       []byte
	participants []byte  // the value in object
	devices      []int64 // the first devices among them, if it was digested
	repaired     bool
	severity     Severity
}

// ParseDetection extracts the fields that the bridge needs from a detection's JSON
// object. The result retains object, which must be valid JSON and must not be modified.
// repaired means that bytes that were not UTF-8 have been replaced.
//
// The error names a field that is missing or does not have the documented type. Tracked is
// set even then, and ID if it could be parsed.
func ParseDetection(object []byte, repaired bool) (Detection, error) {
	d := Detection{object: object, repaired: repaired}
	var id, modTime, createTime, startTime []byte
	var values [len(tracked)][]byte
	_, err := jsonscan.Object(object, func(name, rest []byte) (size int, err error) {
		if string(name) == "participants" {
			if values[trackedIndex(name)], size, err = count(rest); err == nil {
				d.participants = rest[:size]
			}
			return size, err
		}
		size = jsonscan.Skip(rest)
		switch value := rest[:size]; string(name) {
		case "id":
			id = value
		case "mod_time":
			modTime = value
		case "create_time":
			createTime = value
		case "start_time":
			startTime = value
		default:
			if i := trackedIndex(name); i >= 0 {
				values[i] = value
			}
		}
		return size, nil
	})
	d.Tracked = trackedObject(values)
	if err != nil {
		return d, err
	}
	if d.ID, err = integer(id); err != nil {
		return d, fmt.Errorf("id: %w", err)
	}
	if absent(modTime) {
		return d, fmt.Errorf("mod_time: %w", errAbsent)
	}
	if d.ModTime = timestamp(modTime); d.ModTime == 0 {
		return d, fmt.Errorf("mod_time: %.40s is not a time after 1970 and before the year 10000", modTime)
	}
	// Neither is required, so an invalid value counts as absent.
	d.Created = timestamp(createTime)
	d.Began = cmp.Or(d.Created, timestamp(startTime))
	d.severity = severityOf(values[trackedIndex([]byte("risk_score"))], values[trackedIndex([]byte("categories"))])
	return d, nil
}

// Type returns the detection's type, or "" if it has none.
func (d Detection) Type() string { return Text(d.field("type")) }

// Categories yields the detection's categories.
func (d Detection) Categories() iter.Seq[string] {
	return func(yield func(string) bool) {
		for category := range jsonscan.Elements(d.field("categories")) {
			if !yield(Text(category)) {
				return
			}
		}
	}
}

// UserCreated reports whether the detection is of a custom type.
func (d Detection) UserCreated() bool { return string(d.field("is_user_created")) == "true" }

// Participants returns the JSON array of the participants, or nil if they are not known.
func (d Detection) Participants() []byte {
	if bytes.HasPrefix(d.participants, []byte("[")) {
		return d.participants
	}
	return nil
}

// URL returns the address of the detection's page at the appliance, or "" if it has
// none.
func (d Detection) URL() string { return Text(d.field("url")) }

// Devices returns the ids of the devices among the participants, in order and without
// duplicates, up to maxIDs of them. all reports whether these are all.
func (d Detection) Devices(maxIDs int) (ids []int64, all bool) {
	if n := len(d.devices); n > 0 && n < maxDigestedDevices && n <= maxIDs {
		return d.devices, true
	}
	for participant := range jsonscan.Elements(d.Participants()) {
		var kind, object []byte
		for name, value := range jsonscan.Members(participant) {
			switch string(name) {
			case "object_type":
				kind = value
			case "object_id":
				object = value
			}
		}
		id, ok := deviceOf(kind, object)
		if !ok || slices.Contains(ids, id) {
			continue
		}
		if len(ids) == maxIDs {
			return ids, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// deviceOf returns the id of a participant that is a device.
func deviceOf(kind, object []byte) (id int64, ok bool) {
	if string(kind) != `"device"` {
		return 0, false
	}
	id, err := integer(object)
	return id, err == nil
}

// field returns the value of a field, or nil if it is absent.
func (d Detection) field(field string) (found []byte) {
	for name, value := range jsonscan.Members(d.object) {
		if string(name) == field {
			found = value
		}
	}
	return found
}

var errAbsent = errors.New("absent")

func integer(value []byte) (int64, error) {
	if absent(value) {
		return 0, errAbsent
	}
	return jsonscan.Integer(value)
}

func absent(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// count counts the elements of the value at the beginning of text, which are none unless it is an
// array. It returns the value's size too.
func count(text []byte) (number []byte, size int, err error) {
	n := 0
	if size, err = jsonscan.Array(text, func([]byte) error { n++; return nil }); err != nil {
		if size, err = jsonscan.Size(text); absent(text[:size]) {
			return nil, size, err
		}
	}
	return strconv.AppendInt(nil, int64(n), 10), size, err
}

// trackedObject encodes Detection.Tracked from the values of the tracked fields in a
// detection, and the number of participants in place of these.
func trackedObject(values [len(tracked)][]byte) []byte {
	for i, value := range values {
		switch {
		case absent(value):
			values[i] = nil
		case (value[0] == '[' || value[0] == '{') && hasSpace(value):
			compact := jsontext.Value(bytes.Clone(value))
			if err := compact.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
				compact = value // at worst, equal values have different bytes
			}
			values[i] = boundValue(compact)
		default:
			values[i] = boundValue(value)
		}
	}
	return trackedFields{values: values, list: lastList}.encode()
}

// hasSpace reports whether white space is in a JSON value, even in a string.
func hasSpace(value []byte) bool {
	for _, c := range value {
		if c <= ' ' {
			return true
		}
	}
	return false
}

// trackedFields is a Detection.Tracked.
type trackedFields struct {
	values  [len(tracked)][]byte // nil if absent
	list    int
	digests []byte // of participants, a JSON string; nil if they are not known
}

// encode is the inverse of parseTracked.
func (t trackedFields) encode() []byte {
	b := appendFields(make([]byte, 0, 256), t.values[:fieldsOf(t.list)])
	if t.list > 1 {
		b = strconv.AppendInt(appendName(b, listName), int64(t.list), 10)
	}
	if t.digests != nil {
		b = append(appendName(b, digestsName), t.digests...)
	}
	return append(b, '}')
}

// appendFields appends the beginning of an object with the values that are not nil.
func appendFields(dst []byte, values [][]byte) []byte {
	return appendMembers(append(dst, '{'), tracked[:], values)
}

// appendMembers appends the members with these names to an object, unless their value is nil.
func appendMembers(object []byte, names []string, values [][]byte) []byte {
	for i, value := range values {
		if value != nil {
			object = append(appendName(object, names[i]), value...)
		}
	}
	return object
}

// fieldsOf returns the number of fields in a list.
func fieldsOf(list int) int { return firstFields + list - 1 }

// maxTracked is the maximum size of a tracked field's value in Detection.Tracked, in
// bytes. Of a longer value, keptTracked bytes of the text are kept.
const (
	maxTracked  = 4 << 10
	keptTracked = 512
)

// boundValue returns a value of up to maxTracked bytes unchanged. It replaces a longer
// one by its beginning, its length and a digest: two such values are equal if and only
// if the originals are. The result is a string, or an array of one, so that consumers
// find the type they expect.
func boundValue(value []byte) []byte {
	if len(value) <= maxTracked {
		return value
	}
	kept := string(value)
	if value[0] == '"' {
		kept = Text(value)
	}
	kept = strings.ToValidUTF8(kept[:min(len(kept), keptTracked)], "")
	quoted, err := jsontext.AppendQuote(nil, fmt.Sprintf("%s… (cut: %d bytes, sha256 %x)", kept, len(value), sha256.Sum256(value)))
	if err != nil {
		panic(err) // valid UTF-8
	}
	if value[0] == '[' {
		quoted = append(append([]byte{'['}, quoted...), ']')
	}
	return quoted
}

// BoundTracked bounds the values of a Detection.Tracked that was stored before
// maxTracked was introduced.
func BoundTracked(object []byte) []byte {
	if len(object) <= maxTracked {
		return object
	}
	return parseTracked(object).encode()
}

// FieldsOf returns the fields of a Detection.Tracked as an object, without the number of
// the list and without digests; nil if object is empty.
func FieldsOf(object []byte) []byte {
	if len(object) == 0 {
		return nil
	}
	fields := parseTracked(object)
	return append(appendFields(nil, fields.values[:]), '}')
}

// FirstTracked returns a Detection.Tracked as it is with list 1: no field that is added
// later changes it.
func FirstTracked(object []byte) []byte {
	return trackedFields{values: parseTracked(object).values, list: 1}.encode()
}

// parseTracked parses a Detection.Tracked. Of a list that a later release made, it returns what
// lastList has.
func parseTracked(object []byte) trackedFields {
	t := trackedFields{list: 1}
	for name, value := range jsonscan.Members(object) {
		if i := trackedIndex(name); i >= 0 {
			t.values[i] = boundValue(value)
		} else if string(name) == listName {
			n, _ := jsonscan.Integer(value)
			t.list = max(1, min(int(n), lastList))
		} else if string(name) == digestsName && len(value) <= maxTracked {
			t.digests = value
		}
	}
	return t
}

// trackedIndex returns a field's index in tracked, or -1.
func trackedIndex(name []byte) int {
	for i, field := range tracked {
		if string(name) == field {
			return i
		}
	}
	return -1
}

// Change is a tracked field that differs between two versions of a detection.
type Change struct {
	Field    string
	From, To []byte // JSON values; nil if absent or null. Those of participants are their numbers.

	participants *participantChanges // of participants, if they are known
}

// Changes yields the tracked fields that differ between two versions, given the
// Detection.Tracked of both. A field that only the list of one has is not compared, and
// participants are compared by their number, unless both versions are Digested.
func Changes(before, after []byte) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		from, to := parseTracked(before), parseTracked(after)
		for i, field := range tracked[:fieldsOf(min(from.list, to.list))] {
			c := Change{Field: field, From: from.values[i], To: to.values[i]}
			same := sameValue(field, c.From, c.To)
			if field == "participants" && from.digests != nil && to.digests != nil && !bytes.Equal(from.digests, to.digests) {
				c.participants = compareParticipants(from.digests, to.digests)
				same = same && c.participants.none()
			}
			if !same && !yield(c) {
				return
			}
		}
	}
}

// SameTracked reports whether two versions are equal in all tracked fields that the lists
// of both have, given the Detection.Tracked of both. A number may be written as a text in
// one of them, and end_time in another precision.
func SameTracked(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 {
		return false
	}
	// Usually, only one of them is Digested, and otherwise they are the same.
	if beginning := a[:len(a)-1]; bytes.HasPrefix(b, beginning) && bytes.HasPrefix(b[len(beginning):], []byte(`,"`+digestsName+`":`)) {
		return true
	}
	for range Changes(a, b) {
		return false
	}
	return true
}

// sameValue reports whether two values of a tracked field, nil if absent, are the same.
func sameValue(field string, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if field == "end_time" {
		from, hasTime := jsonscan.Millis(a)
		to, bothHave := jsonscan.Millis(b)
		return hasTime && bothHave && jsonscan.SameMillis(from, to)
	}
	number := jsonscan.Number(a)
	return number != nil && bytes.Equal(number, jsonscan.Number(b))
}

// appendChanges appends a JSON object of the tracked fields in which a version differs from the
// one with the Detection.Tracked before, with the values of both, and which participants do.
func appendChanges(dst, before []byte, d Detection) []byte {
	return appendChangeList(dst, Changes(before, d.Digested().Tracked), d.participants)
}

// appendChangeList appends changes. participants are those of the later version.
func appendChangeList(dst []byte, changes iter.Seq[Change], participants []byte) []byte {
	orNull := func(value []byte) []byte {
		if value == nil {
			return []byte("null")
		}
		return value
	}
	dst = append(dst, '{')
	for c := range changes {
		dst = append(appendName(dst, c.Field), '{')
		dst = append(appendName(dst, "from"), orNull(c.From)...)
		dst = append(appendName(dst, "to"), orNull(c.To)...)
		if c.participants != nil {
			dst = c.participants.append(dst, participants)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
