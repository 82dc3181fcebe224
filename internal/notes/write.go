package notes

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
)

// Client is the part of *appliance.Client that Write needs.
type Client interface {
	Note(ctx context.Context, id int64, page *appliance.Page) (appliance.Note, error)
	PutNote(ctx context.Context, id int64, text string) error
}

// maxWrites limits how often a note is written for one entry.
const maxWrites = 5

// ErrContended means that a note did not keep an entry, because somebody else wrote it at the same
// time, each time. It is temporary, and wrapped by an error with its class.
var ErrContended = errors.New("others wrote it at the same time")

// Write adds an entry to the note of a detection. It reads the note, writes it with the entry, and
// reads it again until that has the entry; so a call that is repeated, whatever became of the
// others, adds none. The interface has no guard against a lost update: of a text that somebody
// writes between a read and the write that follows, nothing is left.
//
// The error is that of the client, or has a class: Rejected if the note cannot be written without
// changing it, or was not kept whole and is as before; Transient with ErrContended.
func Write(ctx context.Context, client Client, id int64, e Entry) error {
	var before, wrote string
	for writes := 0; ; writes++ {
		text, err := read(ctx, client, id)
		if err != nil {
			return err
		}
		if writes > 0 && isCut(before, wrote, text) {
			if err := client.PutNote(ctx, id, before); err != nil {
				return err
			}
			return failure.Errorf(failure.Rejected, "the appliance kept %d of the %d bytes of the note of detection %d, so it has its former text again: shorten it there",
				len(text), len(wrote), id)
		}
		merged := Merge(text, e)
		switch {
		case merged == text:
			return nil
		case writes == maxWrites:
			return failure.Errorf(failure.Transient, "the note of detection %d was written %d times, but not kept: %w", id, writes, ErrContended)
		case len(merged) > appliance.MaxNote:
			return failure.Errorf(failure.Rejected, "the note of detection %d would have %d bytes, more than %d: shorten it on the appliance", id, len(merged), appliance.MaxNote)
		}
		if err := client.PutNote(ctx, id, merged); err != nil {
			return err
		}
		before, wrote = text, merged
	}
}

// read returns the text of a note, which is empty if there is none.
func read(ctx context.Context, client Client, id int64) (string, error) {
	var page appliance.Page
	n, err := client.Note(ctx, id, &page)
	// A 404 of something in front of the appliance is not about the note.
	if e, ok := errors.AsType[*appliance.Error](err); ok && e.Status == http.StatusNotFound && e.Foreign == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if n.Inexact {
		return "", failure.Errorf(failure.Rejected, "the note of detection %d has characters that are not valid Unicode, or is twice in the answer, so a write would change it: "+
			"correct it on the appliance", id)
	}
	return n.Text, nil
}

// isCut reports whether the appliance has cut the end of what was written, given the text before:
// what it once kept is never too long for it. So less is the change of an analyst.
func isCut(before, wrote, text string) bool {
	rest, ok := strings.CutPrefix(wrote, text)
	return ok && strings.TrimSpace(rest) != "" && len(text) >= len(before) && text != before
}
