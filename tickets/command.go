// Package tickets writes the state of tickets back to appliances: it takes
// commands in, stores them, carries them out in order, and knows what it wrote
// when the appliance shows it.
package tickets

// Command is what a detection's ticket is to become (PATCH /detections/tickets,
// and PATCH /detections/{id} where it names a detection). An empty field is left
// as it is. At least TicketID and one more field are set.
type Command struct {
	TicketID string `json:"ticket_id"`
	// Appliance is the appliance's name; empty: the one that there is, or that
	// knows the detection or the ticket.
	Appliance string `json:"appliance,omitempty"`
	// DetectionID is the detection that the ticket is linked with first; 0: none.
	DetectionID int64 `json:"detection_id,omitempty"`
	// Status is new, in_progress, closed or acknowledged.
	Status string `json:"status,omitempty"`
	// Resolution is action_taken or no_action_taken, with the status closed alone.
	Resolution string  `json:"resolution,omitempty"`
	Assignee   *string `json:"assignee,omitempty"` // empty: nobody's
}
