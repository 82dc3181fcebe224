// Package tickets writes the state of tickets back to appliances: it accepts commands,
// stores them, carries them out in order, and recognizes its own writes when the
// appliance shows them.
package tickets

// Command is a change of a detection's ticket (PATCH /detections/tickets, and PATCH
// /detections/{id} if it names a detection). Empty fields stay unchanged. At least
// TicketID and one more field must be set.
type Command struct {
	TicketID string `json:"ticket_id"`
	// Appliance is the appliance's name. If it is empty, it is the only appliance, or
	// the one that knows the detection or the ticket.
	Appliance string `json:"appliance,omitempty"`
	// DetectionID is the detection that is first linked with the ticket; 0 for none.
	DetectionID int64 `json:"detection_id,omitempty"`
	// Status is new, in_progress, closed or acknowledged.
	Status string `json:"status,omitempty"`
	// Resolution is action_taken or no_action_taken, and only valid with the status
	// closed.
	Resolution string  `json:"resolution,omitempty"`
	Assignee   *string `json:"assignee,omitempty"` // nil: unchanged; empty: unassigned
}
