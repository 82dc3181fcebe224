package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
)

// ErrNotRejected is returned, wrapped, if a ticket command was not rejected.
var ErrNotRejected = errors.New("only a rejected command can be tried again")

// TicketCommand is the JSON form of a ticket command.
type TicketCommand struct {
	ID        uint64                  `json:"id"`                  // its id
	Appliance string                  `json:"appliance"`           // the appliance's name
	TicketID  string                  `json:"ticket_id,omitempty"` // the ticket; absent if it is not about one
	Command   json.RawMessage         `json:"command"`             // as accepted, with its appliance
	Accepted  time.Time               `json:"accepted"`            // when it was accepted
	Status    checkpoint.CommandState `json:"status"`              // pending, applied or rejected
	Reason    string                  `json:"reason,omitempty"`    // why it was rejected
	Done      time.Time               `json:"done,omitzero"`       // when it was applied or rejected
}

// NewTicketCommand returns the JSON form of a command, with its times in UTC.
func NewTicketCommand(c checkpoint.Command) TicketCommand {
	return TicketCommand{c.ID, c.Appliance, c.Subject, c.Body, c.Accepted.UTC(), c.State, c.Reason, c.Done.UTC()}
}

// SendCommand posts a command of any kind, which is encoded as JSON, to a running bridge. The
// result of what it accepts is at GetTicketCommand with the id. The error is a *commands.FieldError
// if a field is invalid.
func (c *Client) SendCommand(ctx context.Context, command any) (id uint64, err error) {
	if c.local != nil {
		return 0, ErrNotRunning
	}
	answer, err := ask[accepted](ctx, c, call{method: http.MethodPost, path: []string{"commands"}, body: command})
	if p, ok := errors.AsType[*problem](err); ok && p.Field != "" {
		err = &commands.FieldError{Field: p.Field, Problem: strings.TrimPrefix(p.Detail, p.Field+" ")}
	}
	if err == nil && len(answer.Commands) != 1 {
		err = fmt.Errorf("read the bridge's answer: it accepted %d commands instead of one", len(answer.Commands))
	}
	if err != nil {
		return 0, err
	}
	return answer.Commands[0].ID, nil
}

// CommandsRequest selects ticket commands, in the order in which they were accepted.
type CommandsRequest struct {
	Appliance string                  `param:"appliance"` // selects those for this appliance
	Ticket    string                  `param:"ticket"`    // selects those for this ticket
	Status    checkpoint.CommandState `param:"status"`    // selects those with this status
	// The id after which the page begins, next of the page before.
	After uint64 `param:"after" invalid:"after must be the id of a ticket command"`
	// The maximum number of items on the page.
	Limit int `param:"limit" default:"100" invalid:"limit must be a number from 1 to 1000"`
}

func (r CommandsRequest) check() error {
	states := []checkpoint.CommandState{"", checkpoint.CommandPending, checkpoint.CommandApplied, checkpoint.CommandRejected}
	if !slices.Contains(states, r.Status) {
		p := newProblem(http.StatusBadRequest, "status must be pending, applied or rejected")
		p.Field, p.Allowed = "status", []string{"pending", "applied", "rejected"}
		return p
	}
	return checkLimit(r.Limit)
}

// Filter returns the filter of the commands.
func (r CommandsRequest) Filter() checkpoint.CommandFilter {
	return checkpoint.CommandFilter{Appliance: r.Appliance, Subject: r.Ticket, State: r.Status}
}

// CommandPage is a page of ticket commands.
type CommandPage struct {
	Commands []TicketCommand `json:"commands"` // the commands
	// The id after which the next page begins; absent on the last page.
	Next uint64 `json:"next,omitempty"`
}

// NewCommandPage returns a page of at most limit commands, of which the caller gives one more
// if there is one.
func NewCommandPage(commands []checkpoint.Command, limit int) CommandPage {
	page := CommandPage{Commands: []TicketCommand{}}
	for _, command := range commands[:min(limit, len(commands))] {
		page.Commands = append(page.Commands, NewTicketCommand(command))
	}
	if len(commands) > limit {
		page.Next = commands[limit-1].ID
	}
	return page
}
