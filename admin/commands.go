package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
)

// Commands is the part of Control that acts on ticket commands. It also works on a
// bridge that accepts no more of them. Its methods return ErrUnknown if a command does
// not exist.
type Commands interface {
	// Commands returns at most limit commands that f selects and whose ID is above
	// after, in the order in which they were accepted.
	Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error)
	// Command returns the command with an id.
	Command(ctx context.Context, id uint64) (checkpoint.Command, error)
	// RetryCommand makes a rejected command pending again. It returns ErrNotRejected
	// if the command was not rejected.
	RetryCommand(ctx context.Context, id uint64) error
	// DropCommand deletes a command. A pending one is not carried out.
	DropCommand(ctx context.Context, id uint64) error
}

// ErrNotRejected is returned, wrapped, if a ticket command was not rejected.
var ErrNotRejected = errors.New("only a rejected command can be tried again")

// The maximum number of commands on a page, and the default.
const (
	maxCommands     = 1000
	defaultCommands = 100
)

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

// command returns the stored form, without key and note.
func (c TicketCommand) command() checkpoint.Command {
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

func listCommands(c Control, w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f := checkpoint.CommandFilter{
		Appliance: query.Get("appliance"), Subject: query.Get("ticket"), State: checkpoint.CommandState(query.Get("status")),
	}
	switch f.State {
	case "", checkpoint.CommandPending, checkpoint.CommandApplied, checkpoint.CommandRejected:
	default:
		p := newProblem(http.StatusBadRequest, "status must be pending, applied or rejected")
		p.Field, p.Allowed = "status", []string{"pending", "applied", "rejected"}
		p.write(w)
		return
	}
	limit, after := defaultCommands, uint64(0)
	var err error
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxCommands {
			writeProblem(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", maxCommands))
			return
		}
	}
	if text := query.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			writeProblem(w, http.StatusBadRequest, "after must be the id of a ticket command")
			return
		}
	}
	commands, err := c.Commands(r.Context(), f, after, limit+1)
	if err != nil {
		writeError(w, err)
		return
	}
	page := commandPage{Commands: []TicketCommand{}}
	for _, command := range commands[:min(limit, len(commands))] {
		page.Commands = append(page.Commands, NewTicketCommand(command))
	}
	if len(commands) > limit {
		page.Next = commands[limit-1].ID
	}
	writeJSON(w, page)
}

func showCommand(c Control, w http.ResponseWriter, r *http.Request) {
	id, ok := commandID(w, r)
	if !ok {
		return
	}
	command, err := c.Command(r.Context(), id)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, NewTicketCommand(command))
}

func retryCommand(c Control, w http.ResponseWriter, r *http.Request) {
	changeCommand(w, r, c.RetryCommand)
}

func dropCommand(c Control, w http.ResponseWriter, r *http.Request) {
	changeCommand(w, r, c.DropCommand)
}

func changeCommand(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id uint64) error) {
	id, ok := commandID(w, r)
	if !ok {
		return
	}
	if err := do(r.Context(), id); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// commandID returns the id in the path of a request. If the id is invalid, it writes a
// problem and returns false.
func commandID(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		writeProblem(w, http.StatusNotFound, fmt.Sprintf("there is no ticket command %.80q: an id is a number, as GET /api/v1/tickets shows it", r.PathValue("id")))
		return 0, false
	}
	return id, true
}
