package commands

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/notes"
	"ndrbridge/transform"
)

// checkNote is Check for a command on a note.
func (c Command) checkNote() error {
	others := c
	others.Appliance, others.By, others.DetectionID, others.Note, others.Time, others.Key = "", "", 0, "", time.Time{}, ""
	switch {
	case others != Command{}:
		return &FieldError{Problem: "the command is about a note and about a ticket or a rule: send two commands"}
	case c.By == "":
		return &FieldError{Field: "by", Problem: "is missing: name the person who asks for it"}
	case c.DetectionID <= 0:
		return &FieldError{Field: "detection_id", Problem: "is missing or not a detection id: write a number above 0"}
	case len(c.Note) > notes.MaxText:
		return &FieldError{Field: "note", Problem: fmt.Sprintf("is longer than %d bytes", notes.MaxText)}
	case !utf8.ValidString(c.Note) || strings.TrimSpace(c.Note) == "":
		return &FieldError{Field: "note", Problem: "is empty or not valid UTF-8"}
	case len(c.Key) > notes.MaxKey:
		return &FieldError{Field: "key", Problem: fmt.Sprintf("is longer than %d bytes", notes.MaxKey)}
	}
	return checkText("key", c.Key)
}

// writeNote carries out a command on a note. The key of the entry identifies the command even if the
// state is lost and ids begin again.
func (w *Writer) writeNote(late context.Context, c checkpoint.Command, command Command) error {
	e := notes.Entry{Key: command.Key, Time: command.Time, Author: command.By, Text: command.Note}
	if e.Key == "" {
		e.Key = fmt.Sprintf("%d-%d", c.ID, c.Accepted.UnixMilli())
	}
	if e.Time.IsZero() {
		e.Time = c.Accepted
	}
	err := notes.Write(late, leasedNotes{w}, command.DetectionID, e)
	if err != nil {
		return fmt.Errorf("add to the note of detection %d: %w", command.DetectionID, err)
	}
	return w.finish(late, c, result{})
}

// leasedNotes is a notes.Client that writes nothing without the lease of the Writer.
type leasedNotes struct{ *Writer }

func (l leasedNotes) Note(ctx context.Context, id int64, page *appliance.Page) (appliance.Note, error) {
	return l.client.Note(ctx, id, page)
}

func (l leasedNotes) PutNote(ctx context.Context, id int64, text string) error {
	return l.o.Lease.Do(ctx, func(ctx context.Context) error { return l.client.PutNote(ctx, id, text) })
}

// reportNote is report for a command on a note.
func (w *Writer) reportNote(c checkpoint.Command, command Command, r result, now time.Time) (transform.Event, error) {
	return w.events.NoteResult(transform.NoteCommand{Command: c.ID, DetectionID: command.DetectionID, By: command.By, Reason: r.reason}, now)
}
