package tickets

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The values of Command.Status and Command.Resolution.
var (
	statuses    = []string{"new", "in_progress", "closed", "acknowledged"}
	resolutions = []string{"action_taken", "no_action_taken"}
)

// Statuses are the values of Command.Status, in the order of the appliance's
// interface. The caller owns the result.
func Statuses() []string { return slices.Clone(statuses) }

// Resolutions are the values of Command.Resolution. The caller owns the result.
func Resolutions() []string { return slices.Clone(resolutions) }

// maxText bounds a ticket's id and an assignee, in bytes.
const maxText = 512

// FieldError says what is wrong with a field of a command. Nothing was stored.
type FieldError struct {
	// Index counts the commands of one call from 0.
	Index int
	// Field is the field's name in JSON, or its path in what it was read from;
	// empty: the command as a whole.
	Field string
	// Problem says what is wrong with the field, and what to do.
	Problem string
	// Allowed are the values that it may have; empty: no such list exists.
	Allowed []string
}

// Error is one line for a person, the values allowed with it.
func (e *FieldError) Error() string {
	text := e.Problem
	if e.Field != "" {
		text = e.Field + " " + text
	}
	if len(e.Allowed) > 0 {
		text += "; it may be " + strings.Join(e.Allowed, ", ")
	}
	return text
}

// Check says what is wrong with a command, as a *FieldError; nil: nothing is.
// Whether its appliance exists is the Desk's to know.
func (c Command) Check() error {
	if c.TicketID == "" {
		return &FieldError{Field: "ticket_id", Problem: "is missing"}
	}
	if err := checkText("ticket_id", c.TicketID); err != nil {
		return err
	}
	switch {
	case c.DetectionID < 0:
		return &FieldError{Field: "detection_id", Problem: "is no id of a detection: write a number above 0"}
	case c.Status != "" && !slices.Contains(statuses, c.Status):
		return &FieldError{Field: "status", Problem: fmt.Sprintf("cannot be %.80q", c.Status), Allowed: Statuses()}
	case c.Resolution != "" && !slices.Contains(resolutions, c.Resolution):
		return &FieldError{Field: "resolution", Problem: fmt.Sprintf("cannot be %.80q", c.Resolution), Allowed: Resolutions()}
	case c.Resolution != "" && c.Status != "closed":
		return &FieldError{Field: "resolution", Problem: `goes with the status "closed" alone: send both, or neither`}
	case c.Assignee != nil:
		return checkText("assignee", *c.Assignee)
	case c.Status == "" && c.DetectionID == 0:
		return &FieldError{Problem: "the command changes nothing: send status, assignee or detection_id with ticket_id"}
	}
	return nil
}

func checkText(field, text string) error {
	switch {
	case len(text) > maxText:
		return &FieldError{Field: field, Problem: fmt.Sprintf("is longer than %d bytes", maxText)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return &FieldError{Field: field, Problem: "holds bytes that are no text"}
	}
	return nil
}
