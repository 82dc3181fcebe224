package poller

import (
	"encoding/json"
	"fmt"

	"ndrbridge/transform"
)

// auditPosition is the position of an audit log source. All times are the appliance's own,
// in milliseconds since the epoch.
type auditPosition struct {
	// Last is the newest committed entry; nil if there is none.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is the offset of Last from the oldest entry. It is a hint, and only known
	// for a log that comes oldest first.
	Offset int `json:"offset,omitempty"`
	// Count is how many entries were remembered.
	Count int64 `json:"count"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Past is set while reading a log that may begin before Start: older entries are
	// skipped. Afterwards no entry is skipped for its time, so a clock that goes back
	// hides nothing.
	Past bool `json:"past,omitempty"`
	// Reread is what to deliver again; nil: nothing.
	Reread *auditReread `json:"again,omitempty"`
	// URL is the appliance's address, so that a change can be detected.
	URL string `json:"url"`
}

// auditOffset identifies an entry among all that any log of an appliance ever held.
type auditOffset struct {
	transform.AuditPosition
	Sum string `json:"sum"` // of its content
}

// auditReread is a second reading of a log, from its oldest entry up to the last committed
// one.
type auditReread struct {
	// To is the time from which entries are delivered again.
	To int64 `json:"to"`
	// Last is the newest entry that was read again; nil if there is none.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is the offset of Last, like auditPosition's.
	Offset int `json:"offset,omitempty"`
}

func parseAuditPosition(b []byte) (auditPosition, error) {
	var p auditPosition
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("read the position %q: %w", b, err)
	}
	return p, nil
}

func (p auditPosition) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	return b
}

// rewindAudit moves a position back to a time in milliseconds since the epoch, at least 0:
// once the source has read what is new, it delivers again every entry logged at that time
// or later, entries before the stream's start included.
func rewindAudit(position []byte, to int64) ([]byte, error) {
	p, err := parseAuditPosition(position)
	if err != nil {
		return nil, err
	}
	p.Start = min(p.Start, to)
	if p.Last != nil && (p.Last.Time == 0 || p.Last.Time >= to) {
		if p.Reread != nil {
			to = min(to, p.Reread.To)
		}
		p.Reread = &auditReread{To: to}
	}
	return p.encode(), nil
}
