package poller

import (
	"encoding/json"
	"fmt"

	"ndrbridge/transform"
)

// auditPosition is where an audit log source stands. All times are the
// appliance's own, in milliseconds since the epoch.
type auditPosition struct {
	// Last is the newest entry that was committed; nil: none was.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is where Last stood, counted from the oldest entry. It is a hint, and
	// only known of a log that comes oldest first.
	Offset int `json:"offset,omitempty"`
	// Count is how many entries were remembered.
	Count int64 `json:"count"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Past is set while a log is read whose beginning may lie before Start: what
	// is older is passed over. Later a clock that goes back hides nothing.
	Past bool `json:"past,omitempty"`
	// Reread is what is to be delivered again; nil: nothing.
	Reread *auditReread `json:"again,omitempty"`
	// URL says what was asked, so that a change can be told.
	URL string `json:"url"`
}

// auditOffset tells an entry from all others that any log of an appliance ever
// held.
type auditOffset struct {
	transform.AuditPlace
	Sum string `json:"sum"` // of its content
}

// auditReread is a second reading of a log, from its oldest entry up to the last
// that was committed.
type auditReread struct {
	// To is the time from which on entries are delivered again.
	To int64 `json:"to"`
	// Last is the newest entry that was read again; nil: none was.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is where it stood, like auditPosition's.
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

// rewindAudit moves a position back to a time in milliseconds since the epoch, 0
// or more: once the source has read what is new, it delivers again what was
// logged at that time or later. That reaches behind the start, too.
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
