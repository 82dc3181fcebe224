package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/notes"
	"ndrbridge/internal/pipeline/endpoint"
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
		Acceptor: commands.NewAcceptor(p.store, commands.AcceptorOptions{
			Appliances: config.ApplianceNames(), MaxExpiration: maxExpiration(config), Notes: notesOut(config),
			Locate: p.locate, Now: time.Now, Metrics: p.metrics.acceptor,
		}),
		Webhooks: receivers,
	}, nil
}

// maxExpiration returns commands.AcceptorOptions.MaxExpiration.
func maxExpiration(config *configs.Config) map[string]time.Duration {
	most := make(map[string]time.Duration)
	for _, a := range config.Appliances {
		if a.Rules.Write {
			most[a.Name] = time.Duration(a.Rules.MaxExpiration)
		}
	}
	return most
}

// notesOut returns commands.AcceptorOptions.Notes.
func notesOut(config *configs.Config) (names []string) {
	for _, a := range config.Appliances {
		if config.WritesNotes(a) {
			names = append(names, a.Name)
		}
	}
	return names
}

// Tickets returns the current acceptor and receivers of ticket commands. The pipeline must be
// open.
func (p *Pipeline) Tickets() admin.Tickets { return p.current.Load().tickets }

// linkFor returns a function that passes the tickets a sink opened to the current
// acceptor, as commands that link them with their detections.
func (p *Pipeline) linkFor(sink string) endpoint.Link {
	return func(ctx context.Context, e transform.Event, t ticketopener.Ticket) error {
		id, err := strconv.ParseInt(e.Subject, 10, 64)
		if err != nil {
			return failure.Errorf(failure.Rejected, "%.40q is not a detection id", e.Subject)
		}
		key := "sink/" + sink + "/" + webhook.DetectionKey(e) + "/" + t.ID
		if t.Moves > 0 { // it may have had this id before
			key += "/" + strconv.Itoa(t.Moves)
		}
		_, err = currentAcceptor{p}.Accept(ctx, key, []commands.Command{{TicketID: t.ID, Appliance: e.Appliance, DetectionID: id}})
		if _, ok := errors.AsType[*commands.FieldError](err); ok {
			return &failure.Error{Class: failure.Rejected, Err: err} // a retry would fail the same way
		}
		return err
	}
}

// noteFor returns a function that passes the comments on a sink's tickets to the current acceptor,
// as commands that add them to the notes of their detections.
func (p *Pipeline) noteFor(sink string) func(context.Context, transform.Event, ticketopener.Ticket, ticketopener.Comment) error {
	return func(ctx context.Context, e transform.Event, t ticketopener.Ticket, c ticketopener.Comment) error {
		id, err := strconv.ParseInt(e.Subject, 10, 64)
		if err != nil {
			return failure.Errorf(failure.Rejected, "%.40q is not a detection id", e.Subject)
		}
		// It is the same whatever the sink is called, wherever the ticket is moved, and after the state
		// was lost.
		sum := sha256.Sum256([]byte(strings.Join([]string{t.Host(), cmp.Or(t.Key, t.ID), c.ID}, "\n")))
		key := hex.EncodeToString(sum[:8])
		_, err = currentAcceptor{p}.Accept(ctx, "comment/"+webhook.DetectionKey(e)+"/"+key, []commands.Command{{
			Appliance: e.Appliance, DetectionID: id, Note: notes.Shorten(c.Text, notes.MaxText), Time: c.Time, Key: key,
			By: notes.Shorten(printable(c.Author), 200) + " (" + notes.Shorten(printable(t.ID), 200) + ")",
		}})
		if _, ok := errors.AsType[*commands.FieldError](err); ok { // a retry would fail the same way
			p.options.Log.Warn("a comment on a ticket does not reach the detection's note", "sink", sink, "ticket", t.ID, "detection", id, "error", err)
			return nil
		}
		return err
	}
}

// printable returns a text without control characters and invisible ones.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}

// locate returns the appliances that know a command's detection, or its ticket if it
// names no detection. It looks in the state first, then asks the appliances.
func (p *Pipeline) locate(ctx context.Context, c commands.Command) (names []string, err error) {
	if names, err = p.whichKnow(ctx, c, p.remembers); err != nil || len(names) > 0 {
		return names, err
	}
	return p.whichKnow(ctx, c, askAppliance)
}

// whichKnow returns the appliances for which knows reports true. It returns an error if knows
// failed for an appliance and no other one knows the command's detection or ticket.
func (p *Pipeline) whichKnow(ctx context.Context, c commands.Command, knows func(context.Context, *appliancePart, commands.Command) (bool, error)) (names []string, err error) {
	all := p.current.Load().appliances
	known, errs := make([]bool, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for i, a := range all {
		asking.Go(func() { known[i], errs[i] = knows(ctx, a, c) })
	}
	asking.Wait()
	for i, a := range all {
		if known[i] {
			names = append(names, a.config.Name)
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	return nil, errors.Join(errs...)
}

// remembers reports whether an appliance's polling has seen the detection of a command, or
// whether earlier commands for its ticket were sent to the appliance, or will be.
func (p *Pipeline) remembers(ctx context.Context, a *appliancePart, c commands.Command) (bool, error) {
	if id := c.Detection(); id != 0 {
		_, known, err := poller.SeenOf(ctx, p.store, a.config.Name, id)
		return known, err
	}
	for _, state := range []checkpoint.CommandState{checkpoint.CommandApplied, checkpoint.CommandPending} {
		earlier, err := p.store.Commands(ctx, checkpoint.CommandFilter{Appliance: a.config.Name, Subject: c.TicketID, State: state}, 0, 1)
		if err != nil || len(earlier) > 0 {
			return len(earlier) > 0, err
		}
	}
	return false, nil
}

// askAppliance asks an appliance whether it has the detection of a command, or one with its ticket.
func askAppliance(ctx context.Context, a *appliancePart, c commands.Command) (bool, error) {
	if id := c.Detection(); id != 0 {
		_, err := a.client.DetectionModTime(ctx, id)
		if refused, ok := errors.AsType[*appliance.Error](err); ok && refused.Status == http.StatusNotFound {
			return false, nil
		}
		return err == nil, err
	}
	filter, err := json.Marshal(map[string][]string{"ticket_id": {c.TicketID}})
	if err != nil {
		return false, fmt.Errorf("encode a filter: %w", err)
	}
	ids, err := a.client.SearchDetectionIDs(ctx, appliance.Search{ModTime: 1, Limit: 1, Filter: filter})
	return len(ids) > 0, err
}
