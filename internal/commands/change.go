package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/notes"
	"ndrbridge/transform"
)

// client is the part of *appliance.Client that a Writer needs. Its methods return an
// *appliance.Error.
type client interface {
	PatchDetection(ctx context.Context, id int64, change appliance.DetectionChange) error
	PatchTicket(ctx context.Context, ticketID string, change appliance.DetectionChange) error
	Detection(ctx context.Context, id int64, page *appliance.Page) error
	DetectionsWithTicket(ctx context.Context, ticketID string, offset int, page *appliance.Page) error
	Ticketing(ctx context.Context) (enabled, known bool, err error)
	HidingRules(ctx context.Context, page *appliance.Page) error
	CreateRule(ctx context.Context, rule appliance.NewRule) (id int64, err error)
	PatchRule(ctx context.Context, id int64, change appliance.RuleChange) error
	notes.Client
}

// progress is stored with a command that is being carried out.
type progress struct {
	Linked bool `json:"linked"` // the ticket is linked with the detection
}

// write carries out a command.
func (w *Writer) write(late context.Context, c checkpoint.Command) error {
	var command Command
	if err := json.Unmarshal(c.Body, &command); err != nil {
		return failure.Errorf(failure.Rejected, "read the command: %w", err)
	}
	switch command.Kind() {
	case KindRule:
		return w.writeRule(late, c, command)
	case KindNote:
		return w.writeNote(late, c, command)
	}
	return w.writeTicket(late, c, command)
}

// writeTicket links the ticket with the detection, if the command names one, then changes the
// detections that have the ticket.
func (w *Writer) writeTicket(late context.Context, c checkpoint.Command, command Command) error {
	var done progress
	if len(c.Note) > 0 {
		if err := json.Unmarshal(c.Note, &done); err != nil {
			return failure.Errorf(failure.Rejected, "read the progress of the command: %w", err)
		}
	}
	all := command.change()
	if command.DetectionID != 0 && !done.Linked {
		link := appliance.DetectionChange{TicketID: &command.TicketID}
		err := w.change(late, c, edit{
			texts: textsOf(link),
			read: func(offset int, page *appliance.Page) error {
				if offset > 0 {
					*page = appliance.Page{} // there is only one
					return nil
				}
				return w.client.Detection(late, command.DetectionID, page)
			},
			patch: func(ctx context.Context) error { return w.client.PatchDetection(ctx, command.DetectionID, link) },
			keep: func(expect []checkpoint.Entry) error {
				if all == (appliance.DetectionChange{}) {
					return w.finish(late, c, result{expect: expect})
				}
				c.Note, _ = json.Marshal(progress{Linked: true}) // of a boolean
				return w.store.Note(late, c.ID, c.Note, expect)
			},
		})
		if err != nil || all == (appliance.DetectionChange{}) {
			return err
		}
	}
	return w.change(late, c, edit{
		texts: textsOf(all),
		read: func(offset int, page *appliance.Page) error {
			return w.client.DetectionsWithTicket(late, command.TicketID, offset, page)
		},
		patch: func(ctx context.Context) error { return w.client.PatchTicket(ctx, command.TicketID, all) },
		keep: func(expect []checkpoint.Entry) error {
			return w.finish(late, c, result{expect: expect})
		},
	})
}

// change returns the changes to all detections that have the command's ticket.
func (c Command) change() appliance.DetectionChange {
	change := appliance.DetectionChange{Assignee: c.Assignee}
	if c.Status != "" {
		change.Status = &c.Status
	}
	if c.Resolution != "" {
		change.Resolution = &c.Resolution
	}
	return change
}

// textsOf returns the tracked fields that a change sets.
func textsOf(c appliance.DetectionChange) texts {
	f := make(texts)
	for name, value := range map[string]*string{"ticket_id": c.TicketID, "status": c.Status, "resolution": c.Resolution, "assignee": c.Assignee} {
		if value != nil {
			f[name] = *value
		}
	}
	if c.Status != nil && *c.Status != "closed" {
		f["resolution"] = "" // the appliance clears it
	}
	return f
}

// edit is a single write to the appliance.
type edit struct {
	texts texts
	// read reads a page of the detections that are changed, starting at offset; the
	// page is empty if there are no more.
	read  func(offset int, page *appliance.Page) error
	patch func(context.Context) error
	// keep stores that the edit was made, and which own writes to expect.
	keep func(expect []checkpoint.Entry) error
}

// change makes an edit, and remembers it as an own write before.
func (w *Writer) change(late context.Context, c checkpoint.Command, e edit) error {
	before, err := readBefore(e)
	if err != nil {
		return err
	}
	replaced := w.ownWrites.intend(before, e.texts)
	if err := w.expect(late, c, before); err != nil {
		w.ownWrites.undo(replaced)
		return err
	}
	if err := w.o.Lease.Do(late, e.patch); err != nil {
		if refused(err) {
			w.ownWrites.undo(replaced)
			if err := w.expect(late, c, before); err != nil {
				return err
			}
		}
		return fmt.Errorf("write ticket %s: %w", c.Subject, err)
	}
	// If the result of the edit cannot be read, OwnWrites matches by the fields alone.
	if after, err := readDetections(e); err == nil {
		w.ownWrites.witness(before, after)
	}
	entries, err := w.ownWrites.entries(before)
	if err != nil {
		return err
	}
	if err := e.keep(entries); err != nil {
		return err
	}
	return w.forget(late, before)
}

// expect stores the own writes to detections.
func (w *Writer) expect(ctx context.Context, c checkpoint.Command, detections []transform.Detection) error {
	entries, err := w.ownWrites.entries(detections)
	if err != nil {
		return err
	}
	if err := w.store.Note(ctx, c.ID, c.Note, entries); err != nil {
		return fmt.Errorf("store the changes of command %d: %w", c.ID, err)
	}
	return nil
}

// forget drops own writes that were awaited for too long.
func (w *Writer) forget(ctx context.Context, written []transform.Detection) error {
	var now int64
	for _, d := range written {
		now = max(now, d.ModTime)
	}
	before, due := w.ownWrites.prune(now)
	if !due {
		return nil
	}
	if err := w.store.DropExpected(ctx, w.o.Appliance, before); err != nil {
		// It is retried in a day; stale entries do no harm.
		w.o.Log.Warn("failed to drop old writes from the state", "error", err)
	}
	return nil
}

// readBefore reads the detections that an edit is about to change. If the appliance
// refuses the request itself, not its sender, it returns nothing and no error: the edit
// will fail with the reason, and no own write is to be expected.
func readBefore(e edit) ([]transform.Detection, error) {
	found, err := readDetections(e)
	if refusal, ok := errors.AsType[*appliance.Error](err); ok && !refusal.Refused() && !refusal.Throttled() && refusal.Status/100 == 4 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the detections to be changed: %w", err)
	}
	return found, nil
}

// Limits on reading the detections that one command changes.
const (
	maxLookupRows  = 10_000
	maxLookupPages = 1000     // an appliance may return fewer rows per page than requested
	maxLookupBytes = 32 << 20 // kept in memory
	maxLookupRead  = 128 << 20
	maxLookupTime  = 2 * time.Minute
)

// errLookupSlow reports that a lookup took too long because of the appliance's rate
// limit or load. It is temporary.
var errLookupSlow = fmt.Errorf("the appliance did not return all detections with the ticket within %s; "+
	"raise its rate limit or reduce its load if this persists", maxLookupTime)

// readDetections reads the detections that an edit changes, skipping objects that are
// not valid detections. It rejects the command if the appliance returns more than a
// command may change, or never ends; if it is too slow, the error is errLookupSlow.
func readDetections(e edit) (found []transform.Detection, err error) {
	var page appliance.Page
	seen := make(map[int64]bool)
	began, rows, size, bytes := time.Now(), 0, 0, int64(0)
	for pages := 0; ; pages++ {
		if err := e.read(rows, &page); err != nil {
			return nil, err
		}
		if len(page.Objects) == 0 { // some appliances return short pages before the last one
			return found, nil
		}
		fresh := false
		for _, o := range page.Objects {
			d, err := transform.ParseDetection(o.Raw, o.Repaired)
			if seen[d.ID] { // objects without an id count as one detection
				continue
			}
			if seen[d.ID], fresh = true, true; err != nil {
				continue
			}
			// Object belongs to the page and is not needed.
			found = append(found, transform.Detection{ID: d.ID, ModTime: d.ModTime, Tracked: d.Tracked})
			size += len(d.Tracked)
		}
		rows += len(page.Objects)
		bytes += page.Size()
		switch {
		case !fresh:
			return nil, failure.Errorf(failure.Rejected, "the appliance returned the same detections again at offset %d: it ignores offset, so the detections with the ticket cannot be listed",
				rows-len(page.Objects))
		case rows > maxLookupRows || size > maxLookupBytes:
			return nil, failure.Errorf(failure.Rejected, "the appliance has more than %d detections, or %d MiB of them, with the ticket: a command cannot change more", maxLookupRows, maxLookupBytes>>20)
		case pages >= maxLookupPages || bytes > maxLookupRead:
			return nil, failure.Errorf(failure.Rejected, "the appliance did not return all detections with the ticket within %d pages and %d MiB", maxLookupPages, maxLookupRead>>20)
		case time.Since(began) > maxLookupTime:
			return nil, errLookupSlow
		}
	}
}

// refused reports whether the appliance answered that it did not carry out the request.
func refused(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout
}

var errTrackingOff = &failure.Error{Class: failure.Halted, Cause: "ticket tracking is off", Err: errors.New(
	"the appliance accepts neither tickets nor notes: external ticket tracking is off; turn it on in its settings or by PATCH of its " +
		"resource ticketing; pending commands are then written")}

// classOf returns the class of a failure, and how long to wait before the next request.
// If the failure may mean that ticket tracking is off, it makes the writer ask for that
// before the next write.
func (w *Writer) classOf(ctx context.Context, err error) (failure.Class, time.Duration) {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok {
		return failure.ClassOf(err)
	}
	switch {
	case e.Refused():
		return failure.Halted, 0
	case e.Throttled():
		return failure.Throttled, e.RetryAfter
	case e.Status == http.StatusUnprocessableEntity && w.o.Kind == KindRule:
		return failure.Rejected, 0
	case e.Status == http.StatusUnprocessableEntity:
		// A 422 is about the command or about ticket tracking. If that cannot be
		// determined, assume tracking: the command was checked when it was accepted.
		enabled, known, err := w.client.Ticketing(ctx)
		if err == nil && known && enabled {
			return failure.Rejected, 0
		}
		w.untracked = err == nil && known
		return failure.Halted, 0
	case e.Status/100 == 3, e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusGone,
		e.Status == http.StatusUnsupportedMediaType, e.Status == http.StatusProxyAuthRequired:
		return failure.Halted, 0
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound, e.Status == http.StatusRequestEntityTooLarge:
		return failure.Rejected, 0
	case e.Status == 0 && failure.HandshakeFailed(e):
		return failure.Halted, 0
	}
	return failure.Transient, e.RetryAfter
}

// isTrackingOff reports whether the appliance is known not to accept tickets. If it
// does not answer, or not as expected, the write is tried.
func (w *Writer) isTrackingOff(ctx context.Context) bool {
	enabled, known, err := w.client.Ticketing(ctx)
	return err == nil && known && !enabled
}

// answered reports whether the appliance answered the request: other commands may
// succeed.
func answered(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && e.Status != 0
}
