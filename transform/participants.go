package transform

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"ndrbridge/internal/jsonscan"
)

// digestsName is the member of a Detection.Tracked that remembers the participants: a JSON string
// of a word for each, in their order. A word is the digits of the participant's id, if that is an
// integer, and a digest of participantFields. If all words exceed maxTracked, the string is a
// digest of all participants after allDigest.
const digestsName = "digests"

const (
	digestSize = 6 // at the end of a word
	allDigest  = "*"
	maxIDSize  = 20 // of the id in a word
	// maxListed bounds a participant in changes, in bytes: of a larger one, only the id is listed.
	maxListed = 1 << 10
)

// participantFields are the fields of a participant that make a change of it. Its hostname is not
// among them: an appliance learns it late, and it changes with the names of a network.
var participantFields = [...]string{
	"id", "role", "object_type", "object_id", "object_value", "endpoint", "external", "scanner_service",
	"username", "usernames", "origins",
}

// Indexes in participantFields.
const objectType, objectID = 2, 3

// Digested returns the detection with a Tracked that remembers its participants, so that Changes
// finds those that differ between two versions. ParseDetection leaves this out, since most of what
// a poll reads is known.
func (d Detection) Digested() Detection {
	t := parseTracked(d.Tracked)
	if t.digests == nil {
		t.digests, d.devices = appendDigests(make([]byte, 0, 64), d.participants)
		d.Tracked = t.encode()
	}
	return d
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxDigestedDevices bounds Detection.devices.
const maxDigestedDevices = 100

// appendDigests appends the digests of participants, and returns Detection.devices. There are none
// unless these are an array.
func appendDigests(dst, participants []byte) (_ []byte, devices []int64) {
	dst = append(dst, '"')
	begin := len(dst)
	var all uint64 // the sum of the digests, which does not depend on their order
	fits := true
	var meaning []byte
	for participant := range jsonscan.Elements(participants) {
		var id []byte
		var values participantValues
		if id, values, meaning = appendParticipant(meaning[:0], participant); len(id) > maxIDSize {
			id = nil
		}
		if device, ok := deviceOf(values[objectType], values[objectID]); ok && len(devices) < maxDigestedDevices && !slices.Contains(devices, device) {
			devices = append(devices, device)
		}
		digest := crc32.Checksum(meaning, castagnoli)
		all += uint64(digest)
		if fits = fits && len(dst)+len(id)+digestSize+len(` "`) <= maxTracked; !fits {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ' ')
		}
		dst = base64.RawURLEncoding.AppendEncode(append(dst, id...), binary.BigEndian.AppendUint32(nil, digest))
	}
	if !fits {
		dst = base64.RawURLEncoding.AppendEncode(append(dst[:begin], allDigest...), binary.BigEndian.AppendUint64(nil, all))
	}
	return append(dst, '"'), devices
}

// participantValues are the values of participantFields.
type participantValues [len(participantFields)][]byte

// appendParticipant appends to a text what makes a change of a participant, and returns the digits
// of its id, or nil if that is not an integer, and its fields.
func appendParticipant(dst, participant []byte) (id []byte, values participantValues, _ []byte) {
	if participant[0] != '{' {
		return nil, values, append(dst, participant...)
	}
	for name, value := range jsonscan.Members(participant) {
		for i, field := range participantFields {
			if string(name) == field {
				values[i] = value
			}
		}
	}
	for i, value := range values {
		dst = appendMeaning(append(dst, byte(i)), value)
	}
	if id = jsonscan.Number(values[0]); bytes.ContainsAny(id, ".eE") {
		id = nil
	}
	return id, values, dst
}

// appendMeaning appends a value: nothing if it says nothing, and a number that is written as a
// text as the number.
func appendMeaning(dst, value []byte) []byte {
	switch string(value) {
	case "", "null", `""`, "false", "[]", "{}":
		return dst
	}
	if value[0] == '[' {
		for element := range jsonscan.Elements(value) {
			dst = append(appendMeaning(dst, element), ',')
		}
		return dst
	}
	if number := jsonscan.Number(value); number != nil {
		value = number
	}
	return append(dst, value...)
}

// participantChanges are the differences between the participants of two versions. Two with the
// same id are one that has changed; one without an id is another if it differs.
type participantChanges struct {
	after          []string // the words of the later version
	added, changed []int    // their indexes in after
	removed        []string // ids; "" of each without one
	truncated      bool     // there are too many to be remembered
}

// none reports whether no participant differs.
func (c *participantChanges) none() bool {
	return !c.truncated && len(c.added)+len(c.changed)+len(c.removed) == 0
}

// compareParticipants compares the digests of two versions, which are not equal.
func compareParticipants(before, after []byte) *participantChanges {
	from, to := Text(before), Text(after)
	if strings.HasPrefix(from, allDigest) || strings.HasPrefix(to, allDigest) {
		return &participantChanges{truncated: true}
	}
	c := &participantChanges{after: strings.Fields(to)}
	left := make(map[string]int) // words that only before has
	for word := range strings.FieldsSeq(from) {
		left[word]++
	}
	var other []int // indexes of the words that only after has
	for i, word := range c.after {
		if left[word] > 0 {
			left[word]--
		} else {
			other = append(other, i)
		}
	}
	gone := make(map[string]int) // ids of words that only before has
	for word, n := range left {
		gone[idOf(word)] += n
	}
	for _, i := range other {
		if id := idOf(c.after[i]); id != "" && gone[id] > 0 {
			gone[id]--
			c.changed = append(c.changed, i)
		} else {
			c.added = append(c.added, i)
		}
	}
	for word := range strings.FieldsSeq(from) {
		if id := idOf(word); gone[id] > 0 {
			gone[id]--
			c.removed = append(c.removed, id)
		}
	}
	return c
}

// idOf returns the id in a word, or "".
func idOf(word string) string { return word[:max(0, len(word)-digestSize)] }

// append appends the differences as members of an object, given the participants of the later
// version.
func (c *participantChanges) append(dst, participants []byte) []byte {
	if c.truncated {
		return append(appendName(dst, "truncated"), "true"...)
	}
	var all [][]byte
	for participant := range jsonscan.Elements(participants) {
		all = append(all, participant)
	}
	listed := func(i int) []byte {
		if i < len(all) && len(all[i]) <= maxListed {
			return all[i]
		}
		return idObject(idOf(c.after[i]))
	}
	dst = appendList(dst, "added", c.added, listed)
	dst = appendList(dst, "removed", c.removed, idObject)
	return appendList(dst, "changed", c.changed, listed)
}

// idObject returns a participant of which only the id is known, or not even that.
func idObject(id string) []byte {
	if id == "" {
		id = "null"
	}
	return []byte(`{"id":` + id + `}`)
}

// appendList appends an array as a member of an object, unless it is empty.
func appendList[T any](dst []byte, name string, elements []T, value func(T) []byte) []byte {
	if len(elements) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for _, e := range elements {
		dst = append(AppendComma(dst), value(e)...)
	}
	return append(dst, ']')
}
