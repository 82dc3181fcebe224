package transform

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"ndrbridge/internal/jsonscan"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is one record of an appliance.
type Record struct {
	// ID identifies the record at its appliance: <_index>-<_id>, a SHA-256 of that if
	// it is longer than 512 bytes, or a SHA-256 of the record if it has no _id.
	ID string
	// Time is its timestamp in milliseconds since the epoch, truncated; 0 if it has
	// none.
	Time int64

	kind, flow string
	object     []byte
	repaired   bool
}

// ParseRecord extracts the fields that the bridge needs from a record's JSON object.
// The result retains object, which must be valid JSON and must not be modified.
// repaired means that bytes that were not UTF-8 have been replaced.
func ParseRecord(object []byte, repaired bool) Record {
	r := Record{object: object, repaired: repaired}
	var index, id string
	var sort []byte
	for name, value := range jsonscan.Members(object) {
		switch string(name) {
		case "_index":
			index = Text(value)
		case "_id":
			id = Text(value)
		case "_type":
			r.kind = Text(value)
		case "sort":
			sort = value
		case "_source":
			for name, value := range jsonscan.Members(value) {
				switch string(name) {
				case "timestamp":
					r.Time = timestamp(value)
				case "flowId":
					r.flow = Text(value)
				}
			}
		}
	}
	if r.Time == 0 {
		for value := range jsonscan.Elements(sort) {
			r.Time = timestamp(value)
			break
		}
	}
	switch {
	case id == "":
		r.ID = digest(object)
	case index == "":
		r.ID = id
	default:
		r.ID = index + "-" + id
	}
	r.ID, r.flow = boundID(r.ID), boundID(r.flow)
	r.kind = strings.ToValidUTF8(r.kind[:min(len(r.kind), maxID)], "")
	return r
}

// maxID limits attributes whose values come from the appliance, in bytes: they become
// keys and headers of the transports.
const maxID = 512

// boundID returns an id of up to maxID bytes unchanged, and the SHA-256 of a longer
// one.
func boundID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return digest([]byte(id))
}

// digest returns the SHA-256 of b in hexadecimal digits.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Text returns the text of a JSON string, or a number as written; "" for any other
// value. An appliance may return either for a value that was set as a string.
func Text(value []byte) string {
	switch {
	case len(value) == 0 || absent(value) || value[0] == '{' || value[0] == '[':
		return ""
	case value[0] != '"':
		return string(value)
	case bytes.IndexByte(value, '\\') < 0:
		return string(value[1 : len(value)-1])
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	if err != nil && len(unquoted) == 0 { // an unpaired surrogate is replaced
		return ""
	}
	return string(unquoted)
}

// Record returns the event of a record found by a query.
func (c Encoder) Record(query string, r Record, recorded time.Time) (Event, error) {
	a := c.attributes("records/"+query, "record.stored", r.ID, recorded)
	a.Subject, a.PartitionKey, a.Repaired = r.kind, cmp.Or(r.flow, r.ID), r.repaired
	if r.Time > 0 {
		a.Time = time.UnixMilli(r.Time)
	}
	return encode(a, []byte(`{"record":`), r.object, []byte(`}`))
}
