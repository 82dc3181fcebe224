package transform_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"ndrbridge/transform"
)

func TestTicketEvents(t *testing.T) {
	nobody := ""
	for _, c := range []struct {
		name   string
		make   func(transform.Encoder, transform.Ticket) (transform.Event, error)
		ticket transform.Ticket
		id     string
		kind   string
		data   string
	}{
		{
			"when it was applied",
			func(e transform.Encoder, t transform.Ticket) (transform.Event, error) {
				return e.TicketApplied(t, recorded)
			},
			transform.Ticket{Command: 7, TicketID: "SEC-1", DetectionID: 25769804127, Status: "closed", Resolution: "action_taken"},
			"ticket.applied-7-", "ticket.applied",
			`{"ticket":{"command":7,"ticket_id":"SEC-1","detection_id":25769804127,"status":"closed","resolution":"action_taken"}}`,
		},
		{
			"when it was rejected",
			func(e transform.Encoder, t transform.Ticket) (transform.Event, error) {
				return e.TicketRejected(t, recorded)
			},
			transform.Ticket{Command: 8, TicketID: "SEC-2", Assignee: &nobody, Reason: "answered 404"},
			"ticket.rejected-8-", "ticket.rejected",
			`{"ticket":{"command":8,"ticket_id":"SEC-2","assignee":"","reason":"answered 404"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := c.make(encoder, c.ticket)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, e, ownAttributes(c.id+strconv.FormatInt(recorded.UnixMilli(), 10), c.kind), c.data)
		})
	}
}

func TestMessageRefusedEvents(t *testing.T) {
	e, err := encoder.MessageRefused(transform.RefusedMessage{
		Message: "stream NDR, message 17", Reason: "ticket_id is missing", Sent: time.UnixMilli(1700000000123),
	}, recorded)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, e, ownAttributes("ticket.rejected-stream-NDR-message-17-1700000000123", "ticket.rejected"),
		`{"ticket":{"message":"stream NDR, message 17","reason":"ticket_id is missing","sent":"2023-11-14T22:13:20.123Z"}}`)
}

func TestTheChangesBetweenTwoVersionsAreTheFieldsThatDiffer(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"none", `{"status":"new"}`, `{"status":"new"}`, ``},
		{"a value, and one that came", `{"status":"new"}`, `{"status":"closed","resolution":"action_taken"}`, `status "new" "closed";resolution  "action_taken";`},
		{"one that went", `{"assignee":"ana","title":"x"}`, `{"title":"x"}`, `assignee "ana" ;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for change := range transform.Changes([]byte(c.before), []byte(c.after)) {
				got += fmt.Sprintf("%s %s %s;", change.Field, change.From, change.To)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
