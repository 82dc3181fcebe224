package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ndrbridge/admin"
	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/tickets"
	"ndrbridge/transform"
)

// buildTickets returns the acceptor and the webhook receivers of ticket commands. The
// result is empty if tickets.enabled is false.
func (p *Pipeline) buildTickets(config *configs.Config) (admin.Tickets, error) {
	if !config.Tickets.Enabled {
		return admin.Tickets{}, nil
	}
	receivers, err := config.Tickets.Webhooks.Receivers()
	if err != nil {
		return admin.Tickets{}, fmt.Errorf("webhooks.%w", err)
	}
	return admin.Tickets{
		Acceptor: tickets.NewAcceptor(p.store, tickets.AcceptorOptions{
			Appliances: applianceNames(config), Locate: p.locate, Now: time.Now, Metrics: p.metrics.acceptor,
		}),
		Webhooks: receivers,
	}, nil
}

// Tickets returns the current acceptor and receivers of ticket commands. The pipeline must be
// open.
func (p *Pipeline) Tickets() admin.Tickets { return p.current.Load().tickets }

func applianceNames(config *configs.Config) []string {
	var names []string
	for _, a := range config.Appliances {
		names = append(names, a.Name)
	}
	return names
}

// linkFor returns a function that passes the tickets a sink opened to the current
// acceptor, as commands that link them with their detections.
func (p *Pipeline) linkFor(sink string) endpoint.Link {
	return func(ctx context.Context, e transform.Event, t ticketopener.Ticket) error {
		acceptor := p.Tickets().Acceptor
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
