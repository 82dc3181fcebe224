package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AuditEntry is one entry of an audit log as an appliance showed it.
type AuditEntry struct {
	ID int64
	// Time is when it was logged: time, else occur_time, in milliseconds since
	// the epoch; 0 where neither can be read.
	Time int64

	occurred int64
	object   []byte
	repaired bool
}

// ParseAuditEntry reads what the bridge needs out of an entry's JSON object. The
// result keeps object, which must be valid JSON and stay as it is; repaired says
// that bytes of it that were not UTF-8 have been replaced. The error says that
// it has no id.
func ParseAuditEntry(object []byte, repaired bool) (AuditEntry, error) {
	e := AuditEntry{object: object, repaired: repaired}
	var id, logged, occurred []byte
	for name, value := range Fields(object) {
		switch string(name) {
		case "id":
			id = value
		case "time":
			logged = value
		case "occur_time":
			occurred = value
		}
	}
	var err error
	if e.ID, err = integer(id); err != nil {
		return e, fmt.Errorf("id: %w", err)
	}
	e.Time, e.occurred = timestamp(logged), timestamp(occurred)
	if e.Time == 0 {
		e.Time = e.occurred
	}
	return e, nil
}

// timestamp reads milliseconds since the epoch, which may have a fraction; 0
// where value is no time after 1970 and before the year 10000.
func timestamp(value []byte) int64 {
	at, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(at > 0 && at < float64(maxTime)) {
		return 0
	}
	return int64(at)
}

// Sum tells entries with one id apart: two objects that mean the same have the
// same sum, however they are written. Where it is open what one means, since a
// name comes twice or a string holds half of a surrogate pair, its bytes count.
// The bytes of an entry of more than maxCanonical count, too: what writing it in one way
// takes is many times its size.
func (e AuditEntry) Sum() [sha256.Size]byte {
	const maxCanonical = 1 << 20
	if len(e.object) > maxCanonical {
		return sha256.Sum256(e.object)
	}
	canonical := jsontext.Value(append([]byte(nil), e.object...))
	// 64 bits are no double, so numbers count as they are written.
	err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return sha256.Sum256(e.object)
	}
	return sha256.Sum256(canonical)
}

// AuditEntry makes the event of an entry. Its id follows from what the appliance
// shows alone.
func (c Encoder) AuditEntry(e AuditEntry, recorded time.Time) (Event, error) {
	subject := strconv.FormatInt(e.ID, 10)
	when := strconv.FormatInt(e.Time, 10)
	if e.Time == 0 {
		sum := e.Sum()
		when = hex.EncodeToString(sum[:8])
	}
	a := Attributes{
		ID:           subject + "-" + when,
		Source:       "ndrbridge://" + c.Appliance + "/auditlog",
		Type:         c.TypePrefix + ".audit.logged",
		Subject:      subject,
		PartitionKey: c.Appliance,
		Appliance:    c.Appliance,
		RecordedTime: recorded,
		Repaired:     e.repaired,
		TraceParent:  c.TraceParent,
	}
	switch {
	case e.occurred > 0:
		a.Time = time.UnixMilli(e.occurred)
	case e.Time > 0:
		a.Time = time.UnixMilli(e.Time)
	}
	return encode(a, []byte(`{"audit":`), e.object, []byte(`}`))
}
