// Package commands writes to appliances: the state of tickets, tuning rules, and notes. It
// accepts commands, stores them, carries them out in order, and recognizes its own writes to
// detections when the appliance shows them.
package commands

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"ndrbridge/transform"
)

// Kind is the kind of what a command changes. Every kind has a Writer of its own, so that one
// which is halted holds up no other.
type Kind string

// The kinds.
const (
	KindTicket Kind = "ticket"
	KindRule   Kind = "rule"
	KindNote   Kind = "note"
)

// Command is a change at an appliance, of one kind. Empty fields stay unchanged.
//
// A change of a detection's ticket has TicketID and at least one of DetectionID, Status and
// Assignee (PATCH /detections/tickets, and PATCH /detections/{id} if it names a detection). A
// change of a tuning rule has By and either Hide, which makes a rule, or RuleID with Extend or
// End. An addition to the note of a detection has By, DetectionID and Note.
type Command struct {
	TicketID string `json:"ticket_id,omitempty"`
	// Appliance is the appliance's name. If it is empty, it is the only appliance, or
	// the one that knows the detection or the ticket.
	Appliance string `json:"appliance,omitempty"`
	// DetectionID is the detection that has the note, or is first linked with the ticket; 0 for
	// none.
	DetectionID int64 `json:"detection_id,omitempty"`
	// Status is new, in_progress, closed or acknowledged.
	Status string `json:"status,omitempty"`
	// Resolution is action_taken or no_action_taken, and only valid with the status
	// closed.
	Resolution string  `json:"resolution,omitempty"`
	Assignee   *string `json:"assignee,omitempty"` // nil: unchanged; empty: unassigned

	Hide   *Hide `json:"hide,omitempty"`
	RuleID int64 `json:"rule_id,omitempty"` // of an existing rule
	// Extend is the rule's new end, written like Hide.Expiration. It is never earlier than the
	// rule's present one.
	Extend string `json:"extend,omitempty"`
	End    bool   `json:"end,omitempty"` // the rule no longer hides anything

	Note string `json:"note,omitempty"` // is added
	// Time is when Note was written; zero: when the command was accepted.
	Time time.Time `json:"time,omitzero"`
	// Key identifies Note among the additions to the detection's note: one whose key the note has is
	// not added. Empty: the command's own.
	Key string `json:"key,omitempty"`

	// By is the person who asks for the change. A ticket's is only reported.
	By string `json:"by,omitempty"`
}

// Kind returns the kind of what the command changes.
func (c Command) Kind() Kind {
	if c.Note != "" {
		return KindNote
	}
	if c.Hide != nil || c.RuleID != 0 || c.Extend != "" || c.End {
		return KindRule
	}
	return KindTicket
}

// Detection returns the id of the detection that the command names, or 0.
func (c Command) Detection() int64 {
	if c.Hide != nil {
		return c.Hide.DetectionID
	}
	return c.DetectionID
}

// Valid values of Command.Status and Command.Resolution.
var statuses, resolutions = transform.Statuses(), transform.Resolutions()

// Statuses returns the valid values of Command.Status, in the order of the appliance's
// REST interface. The caller owns the result.
func Statuses() []string { return slices.Clone(statuses) }

// Resolutions returns the valid values of Command.Resolution. The caller owns the
// result.
func Resolutions() []string { return slices.Clone(resolutions) }

// maxText limits the length of each text of a command but a note, in bytes.
const maxText = 512

// FieldError reports an invalid field of a command. Nothing was stored.
type FieldError struct {
	// Index is the index of the command in its call.
	Index int
	// Field is the field's name in JSON, or its path in the source it was read from; it
	// is empty if the error concerns the command as a whole.
	Field string
	// Problem says how the field is wrong and how to fix it.
	Problem string
	// Allowed are the valid values; it is empty if there is no such list.
	Allowed []string
}

// Error returns the problem with the valid values, in one line.
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

// Check returns a *FieldError if the command is invalid. It does not check whether the
// appliance exists; Acceptor does.
func (c Command) Check() error {
	if err := checkText("by", c.By); err != nil {
		return err
	}
	if c.Kind() == KindNote {
		return c.checkNote()
	}
	if c.Key != "" || !c.Time.IsZero() {
		return &FieldError{Problem: "key and time are those of a note: leave them out"}
	}
	if c.Kind() == KindRule {
		return c.checkRule()
	}
	if c.TicketID == "" {
		return &FieldError{Field: "ticket_id", Problem: "is missing"}
	}
	if err := checkText("ticket_id", c.TicketID); err != nil {
		return err
	}
	switch {
	case c.DetectionID < 0:
		return &FieldError{Field: "detection_id", Problem: "is not a detection id: write a number above 0"}
	case c.Status != "" && !slices.Contains(statuses, c.Status):
		return &FieldError{Field: "status", Problem: fmt.Sprintf("cannot be %.80q", c.Status), Allowed: Statuses()}
	case c.Resolution != "" && !slices.Contains(resolutions, c.Resolution):
		return &FieldError{Field: "resolution", Problem: fmt.Sprintf("cannot be %.80q", c.Resolution), Allowed: Resolutions()}
	case c.Resolution != "" && c.Status != "closed":
		return &FieldError{Field: "resolution", Problem: `is only valid with the status "closed": send both, or neither`}
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
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return &FieldError{Field: field, Problem: "contains control characters or invisible ones, or is not valid UTF-8"}
	}
	return nil
}

// ErrSyntax means that the data is not a command, whatever its values: invalid JSON, an
// unknown field, or a value of the wrong type. It is always wrapped.
var ErrSyntax = errors.New("not a command")

// SyntaxError is an ErrSyntax with its location in the JSON.
type SyntaxError struct {
	// Field is the path of the invalid value, such as status or [1].status; it is empty
	// if the error concerns the JSON as a whole.
	Field   string
	Problem string
}

// Error returns the problem in one line.
func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return ErrSyntax.Error() + ": " + e.Problem
	}
	return fmt.Sprintf("%v: %s %s", ErrSyntax, e.Field, e.Problem)
}

// Is reports whether target is ErrSyntax.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// Parse reads a command or a list of commands from JSON. several reports whether it was
// a list; the list is never empty. The error is a *SyntaxError. Parse does not check
// the values of fields.
func Parse(data []byte) (commands []Command, several bool, err error) {
	several = bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
	strict := json.RejectUnknownMembers(true)
	if several {
		err = json.Unmarshal(data, &commands, strict)
	} else {
		commands = make([]Command, 1)
		err = json.Unmarshal(data, &commands[0], strict)
	}
	switch {
	case err != nil:
		return nil, several, newSyntaxError(err)
	case len(commands) == 0:
		return nil, several, &SyntaxError{Problem: "the list is empty"}
	}
	return commands, several, nil
}

func newSyntaxError(err error) error {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return &SyntaxError{Problem: "it is not valid JSON (" + strings.TrimPrefix(err.Error(), "jsontext: ") + ")"}
	}
	e := &SyntaxError{}
	for token := range semantic.JSONPointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			e.Field += "[" + token + "]"
		case e.Field == "":
			e.Field = token
		default:
			e.Field += "." + token
		}
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		e.Problem = "is an unknown field: there are " + strings.Join(fields(semantic.GoType), ", ")
	case semantic.GoType != nil:
		e.Problem = "must be " + jsonType(semantic.GoType)
	default:
		e.Problem = "has a value that cannot be read"
	}
	return e
}

// jsonType describes the JSON value that a type requires.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "a whole number"
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return "a time, such as 2026-03-14T09:26:53Z"
		}
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}

// fields returns the JSON names of a struct's fields.
func fields(of reflect.Type) []string {
	var names []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
