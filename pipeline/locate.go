package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/tickets"
)

// locate returns the appliances that know a command's detection, or its ticket if it
// names no detection. It looks in the state first, then asks the appliances. It returns
// an error if an appliance could not be asked and no other one knows it.
func (p *Pipeline) locate(ctx context.Context, c tickets.Command) ([]string, error) {
	all := p.current.Load().appliances
	known := p.remembersTicket
	ask := hasTicket
	if c.DetectionID != 0 {
		known, ask = p.remembersDetection, hasDetection
	}
	names, err := known(ctx, c, all)
	if err != nil || len(names) > 0 {
		return names, err
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

// remembersDetection returns the appliances whose polling has seen the detection.
func (p *Pipeline) remembersDetection(ctx context.Context, c tickets.Command, all []*appliancePart) (names []string, err error) {
	for _, a := range all {
		seen, err := poller.HasSeen(ctx, p.store, a.config.Name, c.DetectionID)
		if err != nil {
			return nil, err
		}
		if seen {
			names = append(names, a.config.Name)
		}
	}
	return names, nil
}

// remembersTicket returns the appliances that earlier commands for the ticket were sent
// to.
func (p *Pipeline) remembersTicket(ctx context.Context, c tickets.Command, all []*appliancePart) (names []string, err error) {
	for _, a := range all {
		for _, state := range []checkpoint.CommandState{checkpoint.CommandApplied, checkpoint.CommandPending} {
			earlier, err := p.store.Commands(ctx, checkpoint.CommandFilter{Appliance: a.config.Name, Subject: c.TicketID, State: state}, 0, 1)
			if err != nil {
				return nil, err
			}
			if len(earlier) > 0 && !slices.Contains(names, a.config.Name) {
				names = append(names, a.config.Name)
			}
		}
	}
	return names, nil
}

// hasDetection asks an appliance whether it has the detection of a command.
func hasDetection(ctx context.Context, client *appliance.Client, c tickets.Command) (bool, error) {
	_, _, err := client.DetectionModTime(ctx, c.DetectionID)
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
