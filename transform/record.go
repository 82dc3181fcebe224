package transform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is one record as an appliance showed it.
type Record struct {
	// ID tells it from the others of its appliance: <_index>-<_id>, a SHA-256 of that
	// if it has more than 512 bytes, or a SHA-256 of the record if it has no _id.
	ID string
	// Time is its timestamp in whole milliseconds since the epoch, the fraction
	// cut off; 0 where it has none.
	Time int64

	kind, flow string
	object     []byte
	repaired   bool
}

// ParseRecord reads what the bridge needs out of a record's JSON object. The
// result keeps object, which must be valid JSON and stay as it is; repaired says
// that bytes of it that were not UTF-8 have been replaced.
func ParseRecord(object []byte, repaired bool) Record {
	r := Record{object: object, repaired: repaired}
	var index, id string
	var sort []byte
	for name, value := range Fields(object) {
		switch string(name) {
		case "_index":
			index = text(value)
		case "_id":
			id = text(value)
		case "_type":
			r.kind = text(value)
		case "sort":
			sort = value
		case "_source":
			for name, value := range Fields(value) {
				switch string(name) {
				case "timestamp":
					r.Time = timestamp(value)
				case "flowId":
					r.flow = text(value)
				}
			}
		}
	}
	if r.Time == 0 {
		for value := range Elements(sort) {
			r.Time = timestamp(value)
			break
		}
	}
	switch {
	case id == "":
		sum := sha256.Sum256(object)
		r.ID = hex.EncodeToString(sum[:])
	case index == "":
		r.ID = id
	default:
		r.ID = index + "-" + id
	}
	r.ID, r.flow = boundID(r.ID), boundID(r.flow)
	r.kind = strings.ToValidUTF8(r.kind[:min(len(r.kind), maxID)], "")
	return r
}

// maxID bounds what the appliance chooses of an event's attributes, in bytes: they become
// keys and headers of the transports.
const maxID = 512

// boundID returns an id of up to maxID bytes as it is, and the SHA-256 of a longer one.
func boundID(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// text is a string's text, and a number as it is written; empty for anything
// else.
func text(value []byte) string {
	switch {
	case len(value) == 0 || absent(value) || value[0] == '{' || value[0] == '[':
		return ""
	case value[0] != '"':
		return string(value)
	case bytes.IndexByte(value, '\\') < 0:
		return string(value[1 : len(value)-1])
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	if err != nil && len(unquoted) == 0 { // half of a surrogate pair is replaced
		return ""
	}
	return string(unquoted)
}

// Record makes the event of a record that the query of a name found.
func (c Encoder) Record(query string, r Record, recorded time.Time) (Event, error) {
	a := Attributes{
		ID:           r.ID,
		Source:       "ndrbridge://" + c.Appliance + "/records/" + query,
		Type:         c.TypePrefix + ".record.stored",
		Subject:      r.kind,
		PartitionKey: r.flow,
		Appliance:    c.Appliance,
		RecordedTime: recorded,
		Repaired:     r.repaired,
		TraceParent:  c.TraceParent,
	}
	if a.PartitionKey == "" {
		a.PartitionKey = r.ID
	}
	if r.Time > 0 {
		a.Time = time.UnixMilli(r.Time)
	}
	return encode(a, []byte(`{"record":`), r.object, []byte(`}`))
}
