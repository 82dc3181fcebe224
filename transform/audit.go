package transform

import (
	"fmt"
	"strconv"
	"time"

	"ndrbridge/internal/jsonscan"
)

// AuditEntry is an entry of an appliance's audit log.
type AuditEntry struct {
	ID int64
	// Time is when the entry was logged: its time, else its occur_time, in milliseconds
	// since the epoch; 0 if neither can be parsed.
	Time int64

	occurred int64
	object   []byte
	repaired bool
}

// ParseAuditEntry extracts the fields that the bridge needs from an entry's JSON
// object. The result retains object, which must be valid JSON and must not be modified.
// repaired means that bytes that were not UTF-8 have been replaced. It returns an error,
// and the entry's times, if the entry has no id.
func ParseAuditEntry(object []byte, repaired bool) (AuditEntry, error) {
	e := AuditEntry{object: object, repaired: repaired}
	var id, logged, occurred []byte
	for name, value := range jsonscan.Members(object) {
		switch string(name) {
		case "id":
			id = value
		case "time":
			logged = value
		case "occur_time":
			occurred = value
		}
	}
	e.Time, e.occurred = timestamp(logged), timestamp(occurred)
	if e.Time == 0 {
		e.Time = e.occurred
	}
	var err error
	if e.ID, err = integer(id); err != nil {
		return e, fmt.Errorf("id: %w", err)
	}
	return e, nil
}

// timestamp returns a time in milliseconds since the epoch, of any precision, or 0 if value
// is not a time after 1970 and before the year 10000.
func timestamp(value []byte) int64 {
	ms, _ := jsonscan.Millis(value)
	return ms
}

// AuditEntry returns the event of an entry. Its id depends only on the appliance's
// data.
func (c Encoder) AuditEntry(e AuditEntry, recorded time.Time) (Event, error) {
	subject := strconv.FormatInt(e.ID, 10)
	a := c.attributes(StreamAudit, "audit.logged", subject+"-"+strconv.FormatInt(e.Time, 10), recorded)
	a.Subject, a.PartitionKey, a.Repaired = subject, c.Appliance, e.repaired
	switch {
	case e.occurred > 0:
		a.Time = time.UnixMilli(e.occurred)
	case e.Time > 0:
		a.Time = time.UnixMilli(e.Time)
	}
	return encode(a, []byte(`{"audit":`), e.object, []byte(`}`))
}
