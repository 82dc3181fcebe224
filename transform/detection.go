package transform

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// tracked are the fields of a detection whose change makes a version of it, and
// which an event's changes name. Others differ at every look (the times in a
// description's links do) or follow from these.
var tracked = [...]string{
	"status", "resolution", "assignee", "ticket_id", "ticket_url", "risk_score", "title", "type",
	"categories", "end_time", "recommended", "participants",
}

// Detection is one version of a detection as an appliance showed it.
type Detection struct {
	// ID is the detection's id. It exceeds 32 bits.
	ID int64
	// ModTime is mod_time in milliseconds since the epoch.
	ModTime int64
	// Began is create_time, else start_time, in milliseconds since the epoch; 0
	// where both are absent.
	Began int64
	// Tracked is a JSON object of the tracked fields in one order, without white
	// space: two versions that differ in nothing tracked have equal bytes. Absent
	// and null fields are left out, participants stands as their number, and a value
	// longer than maxTracked as its beginning and a digest.
	Tracked []byte

	object   []byte
	repaired bool
	severity severity
}

// maxTime is the first millisecond that RFC 3339 cannot write.
var maxTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// ParseDetection reads what the bridge needs out of a detection's JSON object.
// The result keeps object, which must be valid JSON and stay as it is;
// repaired says that bytes of it that were not UTF-8 have been replaced.
//
// The error tells which field is missing or not what the interface document
// says. ID is set where it could be read, in spite of the error.
func ParseDetection(object []byte, repaired bool) (Detection, error) {
	return DetectionOf(object, Fields(object), repaired)
}

// DetectionOf is ParseDetection for whoever knows the members of the object, as
// Fields yields them.
func DetectionOf(object []byte, fields iter.Seq2[[]byte, []byte], repaired bool) (Detection, error) {
	d := Detection{object: object, repaired: repaired}
	var id, modTime, createTime, startTime []byte
	var values [len(tracked)][]byte
	for name, value := range fields {
		switch string(name) {
		case "id":
			id = value
			continue
		case "mod_time":
			modTime = value
			continue
		case "create_time":
			createTime = value
			continue
		case "start_time":
			startTime = value
			continue
		}
		if i := trackedIndex(name); i >= 0 {
			values[i] = value
		}
	}
	var err error
	if d.ID, err = integer(id); err != nil {
		return d, fmt.Errorf("id: %w", err)
	}
	if d.ModTime, err = integer(modTime); err != nil {
		return d, fmt.Errorf("mod_time: %w", err)
	}
	if d.ModTime <= 0 || d.ModTime >= maxTime {
		return d, fmt.Errorf("mod_time: %d is no time after 1970 and before the year 10000", d.ModTime)
	}
	// Neither is essential, so what cannot be read counts as absent.
	if d.Began, err = integer(createTime); err != nil {
		d.Began, _ = integer(startTime)
	}
	d.Tracked = trackedObject(values)
	d.severity = severityOf(values[trackedIndex([]byte("risk_score"))], values[trackedIndex([]byte("categories"))])
	return d, nil
}

// Type is the detection's type; empty where it has none.
func (d Detection) Type() string { return text(d.field("type")) }

// UserCreated says that the detection is one of a custom type.
func (d Detection) UserCreated() bool { return string(d.field("is_user_created")) == "true" }

// URL is the detection's page at the appliance; empty where it does not say.
func (d Detection) URL() string { return text(d.field("url")) }

// Devices returns the ids of the devices among the participants, in their order, each
// once. Only the first most of them are looked for: whole is false if there are others.
func (d Detection) Devices(most int) (ids []int64, whole bool) {
	seen := make(map[int64]bool)
	for participant := range Elements(d.field("participants")) {
		var kind, object []byte
		for name, value := range Fields(participant) {
			switch string(name) {
			case "object_type":
				kind = value
			case "object_id":
				object = value
			}
		}
		id, err := integer(object)
		if err != nil || string(kind) != `"device"` || seen[id] {
			continue
		}
		if len(ids) == most {
			return ids, false
		}
		seen[id] = true
		ids = append(ids, id)
	}
	return ids, true
}

// field returns the value of a field; nil where there is none.
func (d Detection) field(field string) (found []byte) {
	for name, value := range Fields(d.object) {
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
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no 64-bit integer", value)
	}
	return n, nil
}

func absent(value []byte) bool { return value == nil || string(value) == "null" }

// trackedObject writes Detection.Tracked from the values of the tracked fields.
func trackedObject(values [len(tracked)][]byte) []byte {
	b := append(make([]byte, 0, 256), '{')
	for i, value := range values {
		if absent(value) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, tracked[i]...)
		b = append(b, `":`...)
		switch {
		case tracked[i] == "participants":
			n := 0
			for range Elements(value) {
				n++
			}
			b = strconv.AppendInt(b, int64(n), 10)
		case (value[0] == '[' || value[0] == '{') && bytes.ContainsAny(value, " \n\t\r"):
			compact := jsontext.Value(bytes.Clone(value))
			if err := compact.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
				compact = value // the bytes differ at worst where nothing changed
			}
			b = append(b, boundValue(compact)...)
		default:
			b = append(b, boundValue(value)...)
		}
	}
	return append(b, '}')
}

// maxTracked bounds the value of a tracked field in what is remembered of a detection, in
// bytes, and keptTracked is how much of the text of a longer one is kept.
const (
	maxTracked  = 4 << 10
	keptTracked = 512
)

// boundValue returns a value of up to maxTracked bytes as it is. Of a longer one it
// returns the beginning with the length and a digest of the whole: two such values are
// equal if and only if the whole ones are. It stays a string, or an array of one, so that
// consumers find the type that they expect.
func boundValue(value []byte) []byte {
	if len(value) <= maxTracked {
		return value
	}
	kept := string(value)
	if value[0] == '"' {
		kept = text(value)
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

// BoundTracked returns the Detection.Tracked that a version has whose Tracked was made
// before values were bounded.
func BoundTracked(object []byte) []byte {
	if len(object) <= maxTracked {
		return object
	}
	b := []byte{'{'}
	for i, value := range trackedValues(object) {
		if value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(append(b, '"'), tracked[i]...), `":`...), value...)
	}
	return append(b, '}')
}

// trackedValues is the other way round of trackedObject.
func trackedValues(object []byte) (values [len(tracked)][]byte) {
	for name, value := range Fields(object) {
		if i := trackedIndex(name); i >= 0 {
			values[i] = boundValue(value)
		}
	}
	return values
}

// trackedIndex returns a field's place in tracked, or -1.
func trackedIndex(name []byte) int {
	for i, field := range tracked {
		if string(name) == field {
			return i
		}
	}
	return -1
}

// appendChanges appends the JSON object that names the tracked fields in which
// two versions differ, with the values of both.
func appendChanges(dst, before, after []byte) []byte {
	orNull := func(value []byte) []byte {
		if value == nil {
			return []byte("null")
		}
		return value
	}
	dst = append(dst, '{')
	first := true
	for c := range Changes(before, after) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		dst = append(dst, c.Field...)
		dst = append(dst, `":{"from":`...)
		dst = append(dst, orNull(c.From)...)
		dst = append(dst, `,"to":`...)
		dst = append(dst, orNull(c.To)...)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
