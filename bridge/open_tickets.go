package bridge

import (
	"context"
	"errors"
	"strconv"

	"ndrbridge/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/tickets"
	"ndrbridge/transform"
)

// linkFor returns a function that passes the tickets a sink opened to the current
// acceptor, as commands that link them with their detections.
func (b *Bridge) linkFor(sink string) endpoint.Link {
	return func(ctx context.Context, e transform.Event, t ticketopener.Ticket) error {
		acceptor := b.tickets().Acceptor
		if acceptor == nil {
			return errors.New("tickets.enabled is false")
		}
		id, err := strconv.ParseInt(e.Subject, 10, 64)
		if err != nil {
			return sinks.Errorf(sinks.Rejected, "%.40q is not a detection id", e.Subject)
		}
		key := "sink/" + sink + "/" + webhook.DetectionKey(e) + "/" + t.ID
		_, err = acceptor.Accept(ctx, key, []tickets.Command{{TicketID: t.ID, Appliance: e.Appliance, DetectionID: id}})
		var wrong *tickets.FieldError
		if errors.As(err, &wrong) {
			return &sinks.Error{Class: sinks.Rejected, Err: err} // a retry would fail the same way
		}
		return err
	}
}
