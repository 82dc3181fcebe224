package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
)

// ErrNotRejected is returned, wrapped, if a ticket command was not rejected.
var ErrNotRejected = errors.New("only a rejected command can be tried again")

// TicketCommand is the JSON form of a ticket command. It is stable: fields are added,
// and never change their meaning.
type TicketCommand struct {
	ID        uint64          `json:"id"`
	Appliance string          `json:"appliance"`
	TicketID  string          `json:"ticket_id"`
	Command   json.RawMessage `json:"command"` // as accepted, with its appliance
	Accepted  time.Time       `json:"accepted"`
	// Status is pending, applied or rejected.
	Status checkpoint.CommandState `json:"status"`
	Reason string                  `json:"reason,omitempty"`
	Done   time.Time               `json:"done,omitzero"`
}

// NewTicketCommand returns the JSON form of a command, with its times in UTC.
func NewTicketCommand(c checkpoint.Command) TicketCommand {
	return TicketCommand{c.ID, c.Appliance, c.Subject, c.Body, c.Accepted.UTC(), c.State, c.Reason, c.Done.UTC()}
}

// stored returns the stored form, without key and note.
func (c TicketCommand) stored() checkpoint.Command {
	return checkpoint.Command{
		ID: c.ID, Appliance: c.Appliance, Subject: c.TicketID, Body: c.Command, Accepted: c.Accepted,
		State: c.Status, Reason: c.Reason, Done: c.Done,
	}
}

// commandPage is a page of ticket commands.
type commandPage struct {
	Commands []TicketCommand `json:"commands"`
	// Next is the ID after which the next page begins; absent: this page is the last.
	Next uint64 `json:"next,omitempty"`
}

func listCommands(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	query := r.URL.Query()
	f := checkpoint.CommandFilter{
		Appliance: query.Get("appliance"), Subject: query.Get("ticket"), State: checkpoint.CommandState(query.Get("status")),
	}
	switch f.State {
	case "", checkpoint.CommandPending, checkpoint.CommandApplied, checkpoint.CommandRejected:
	default:
		p := newProblem(http.StatusBadRequest, "status must be pending, applied or rejected")
		p.Field, p.Allowed = "status", []string{"pending", "applied", "rejected"}
		return nil, p
	}
	limit, err := readLimit(query)
	if err != nil {
		return nil, err
	}
	after, err := strconv.ParseUint(cmp.Or(query.Get("after"), "0"), 10, 64)
	if err != nil {
		return nil, newProblem(http.StatusBadRequest, "after must be the id of a ticket command")
	}
	commands, err := c.Commands(r.Context(), f, after, limit+1)
	if err != nil {
		return nil, err
	}
	page := commandPage{Commands: []TicketCommand{}}
	for _, command := range commands[:min(limit, len(commands))] {
		page.Commands = append(page.Commands, NewTicketCommand(command))
	}
	if len(commands) > limit {
		page.Next = commands[limit-1].ID
	}
	return page, nil
}

func showCommand(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := commandID(r)
	if err != nil {
		return nil, err
	}
	command, err := c.Command(r.Context(), id)
	return NewTicketCommand(command), err
}

func retryCommand(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := commandID(r)
	if err != nil {
		return nil, err
	}
	return noContent{}, c.RetryCommand(r.Context(), id)
}

func dropCommand(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := commandID(r)
	if err != nil {
		return nil, err
	}
	return noContent{}, c.DropCommand(r.Context(), id)
}

// commandID returns the id in the path of a request.
func commandID(r *http.Request) (uint64, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, newProblem(http.StatusNotFound, fmt.Sprintf("there is no ticket command %.80q: an id is a number, as GET /api/v1/tickets shows it", r.PathValue("id")))
	}
	return id, nil
}
