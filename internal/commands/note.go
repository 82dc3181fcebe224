package commands

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ndrbridge/internal/notes"
)

// checkNote is Check for a command on a note.
func (c Command) checkNote() error {
	others := c
	others.Appliance, others.By, others.DetectionID, others.Note = "", "", 0, ""
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
	}
	return nil
}
