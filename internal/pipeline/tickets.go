package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
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
			Appliances: config.ApplianceNames(), Locate: p.locate, Now: time.Now, Metrics: p.metrics.acceptor,
		}),
		Webhooks: receivers,
	}, nil
}

// Tickets returns the current acceptor and receivers of ticket commands. The pipeline must be
// open.
func (p *Pipeline) Tickets() admin.Tickets { return p.current.Load().tickets }

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
			return failure.Errorf(failure.Rejected, "%.40q is not a detection id", e.Subject)
		}
		key := "sink/" + sink + "/" + webhook.DetectionKey(e) + "/" + t.ID
		_, err = acceptor.Accept(ctx, key, []tickets.Command{{TicketID: t.ID, Appliance: e.Appliance, DetectionID: id}})
		var wrong *tickets.FieldError
		if errors.As(err, &wrong) {
			return &failure.Error{Class: failure.Rejected, Err: err} // a retry would fail the same way
		}
		return err
	}
}

// locate returns the appliances that know a command's detection, or its ticket if it
// names no detection. It looks in the state first, then asks the appliances.
func (p *Pipeline) locate(ctx context.Context, c tickets.Command) (names []string, err error) {
	for _, ask := range []bool{false, true} {
		if names, err = p.findAppliances(ctx, c, ask); err != nil || len(names) > 0 {
			break
		}
	}
	return names, err
}

// findAppliances returns the appliances that know a command's detection, or its ticket if it
// names no detection, according to the state or, with ask, to the appliances. It returns an error if an appliance could not be asked and no other one
// knows it. The pipeline must be open.
func (p *Pipeline) findAppliances(ctx context.Context, c tickets.Command, ask bool) (names []string, err error) {
	all := p.current.Load().appliances
	if ask {
		return askAppliances(ctx, all, c)
	}
	remembers := p.remembersTicket
	if c.DetectionID != 0 {
		remembers = p.remembersDetection
	}
	for _, a := range all {
		known, err := remembers(ctx, a.config.Name, c)
		if err != nil {
			return nil, err
		}
		if known {
			names = append(names, a.config.Name)
		}
	}
	return names, nil
}

// askAppliances returns the appliances that have a command's detection or ticket.
func askAppliances(ctx context.Context, all []*appliancePart, c tickets.Command) (names []string, err error) {
	ask := hasTicket
	if c.DetectionID != 0 {
		ask = hasDetection
	}
	has, errs := make([]bool, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for i, a := range all {
		asking.Go(func() { has[i], errs[i] = ask(ctx, a.client, c) })
	}
	asking.Wait()
	for i, a := range all {
		if has[i] {
			names = append(names, a.config.Name)
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	return nil, errors.Join(errs...)
}

// remembersDetection reports whether an appliance's polling has seen the detection.
func (p *Pipeline) remembersDetection(ctx context.Context, appliance string, c tickets.Command) (bool, error) {
	_, known, err := poller.SeenOf(ctx, p.store, appliance, c.DetectionID)
	return known, err
}

// remembersTicket reports whether earlier commands for the ticket were sent to an
// appliance, or will be.
func (p *Pipeline) remembersTicket(ctx context.Context, appliance string, c tickets.Command) (bool, error) {
	for _, state := range []checkpoint.CommandState{checkpoint.CommandApplied, checkpoint.CommandPending} {
		earlier, err := p.store.Commands(ctx, checkpoint.CommandFilter{Appliance: appliance, Subject: c.TicketID, State: state}, 0, 1)
		if err != nil || len(earlier) > 0 {
			return len(earlier) > 0, err
		}
	}
	return false, nil
}

// hasDetection asks an appliance whether it has the detection of a command.
func hasDetection(ctx context.Context, client *appliance.Client, c tickets.Command) (bool, error) {
	_, err := client.DetectionModTime(ctx, c.DetectionID)
	var refused *appliance.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// hasTicket asks an appliance whether it has a detection with the ticket of a command.
func hasTicket(ctx context.Context, client *appliance.Client, c tickets.Command) (bool, error) {
	filter, err := json.Marshal(map[string][]string{"ticket_id": {c.TicketID}})
	if err != nil {
		return false, fmt.Errorf("encode a filter: %w", err)
	}
	ids, err := client.SearchDetectionIDs(ctx, appliance.Search{ModTime: 1, Limit: 1, Filter: filter})
	return len(ids) > 0, err
}
