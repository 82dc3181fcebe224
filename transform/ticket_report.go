package transform

import "time"

// TicketReport is what a sink did with a detection's ticket, or learned of it.
type TicketReport struct {
	Sink     string `json:"sink"`
	TicketID string `json:"ticket_id"`
	URL      string `json:"url,omitempty"` // of its page
	// DetectionID is the detection's id, and Event that of the event that the report is about.
	DetectionID int64  `json:"detection_id"`
	Event       string `json:"event"`
	// Group names the group of detections that the ticket is for, by the values that they share, and
	// Detections is how many there are; empty and 0 for a detection's own ticket.
	Group      string `json:"group,omitempty"`
	Detections int    `json:"detections,omitempty"`
	// MovedFrom is the id that the ticket had before, if it changed.
	MovedFrom string `json:"moved_from,omitempty"`
	// From and To are the ticket's status before and after a move.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Assignee is to whom the ticket was assigned.
	Assignee string `json:"assignee,omitempty"`
	// Commented means that the ticket has a comment about the event.
	Commented bool `json:"commented,omitempty"`
	// Reason is why the ticket differs from the detection, and what to do; it contains no secret.
	Reason string `json:"reason,omitempty"`
}

// The actions of a TicketReport's event.
const (
	TicketOpened   = "opened"
	TicketUpdated  = "updated"
	TicketConflict = "conflict"
	TicketLost     = "lost"
)

// TicketReport returns the event ticket.opened, ticket.updated, ticket.conflict or ticket.lost by
// its action. Its id is derived from the sink and the event that it is about.
func (c Encoder) TicketReport(action string, r TicketReport, recorded time.Time) (Event, error) {
	kind := "ticket." + action
	return c.own(kind, kind+"-"+r.Sink+"-"+r.Event, recorded, "ticket", r)
}
