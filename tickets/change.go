package tickets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Client is what a Writer asks of an appliance. *appliance.Client is one. Its
// methods return an *appliance.Error.
type Client interface {
	PatchDetection(ctx context.Context, id int64, change appliance.DetectionChange) error
	PatchTicket(ctx context.Context, ticketID string, change appliance.DetectionChange) error
	Detection(ctx context.Context, id int64, page *appliance.Page) error
	DetectionsWithTicket(ctx context.Context, ticketID string, offset int, page *appliance.Page) error
	Ticketing(ctx context.Context) (enabled, known bool, err error)
}

// progress is what the state notes of a command that is being carried out.
type progress struct {
	Linked bool `json:"linked"` // the detection has the ticket
}

// write carries out a command: it links the ticket with the detection, if there is
// one, then changes what has the ticket.
func (w *Writer) write(ctx, late context.Context, c checkpoint.Command) error {
	var command Command
	if err := json.Unmarshal(c.Body, &command); err != nil {
		return sinks.Errorf(sinks.Rejected, "read the command: %w", err)
	}
	var done progress
	if len(c.Note) > 0 {
		if err := json.Unmarshal(c.Note, &done); err != nil {
			return sinks.Errorf(sinks.Rejected, "read how far the command was carried out: %w", err)
		}
	}
	all := command.change()
	if command.DetectionID != 0 && !done.Linked {
		link := appliance.DetectionChange{TicketID: &command.TicketID}
		err := w.change(ctx, late, c, edit{
			texts: textsOf(link),
			read: func(offset int, page *appliance.Page) error {
				if offset > 0 {
					*page = appliance.Page{} // there is but one
					return nil
				}
				return w.client.Detection(late, command.DetectionID, page)
			},
			patch: func() error { return w.client.PatchDetection(late, command.DetectionID, link) },
			keep: func(expect []checkpoint.Entry) error {
				if all == (appliance.DetectionChange{}) {
					return w.finish(late, c, checkpoint.CommandApplied, "", expect)
				}
				c.Note, _ = json.Marshal(progress{Linked: true}) // of a boolean
				return w.store.Note(late, c.ID, c.Note, expect)
			},
		})
		if err != nil || all == (appliance.DetectionChange{}) {
			return err
		}
	}
	return w.change(ctx, late, c, edit{
		texts: textsOf(all),
		read: func(offset int, page *appliance.Page) error {
			return w.client.DetectionsWithTicket(late, command.TicketID, offset, page)
		},
		patch: func() error { return w.client.PatchTicket(late, command.TicketID, all) },
		keep: func(expect []checkpoint.Entry) error {
			return w.finish(late, c, checkpoint.CommandApplied, "", expect)
		},
	})
}

// change is what a command changes of all that has its ticket.
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

// textsOf is what a detection has after a change.
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

// edit is one write to the appliance.
type edit struct {
	texts texts
	// read reads some of the detections that are changed, behind the first offset;
	// none where there are no more.
	read  func(offset int, page *appliance.Page) error
	patch func() error
	// keep keeps in the state that it was made, and what is expected of it.
	keep func(expect []checkpoint.Entry) error
}

// change makes an edit while nobody reads the appliance's detections, and finds out
// which versions it made.
func (w *Writer) change(ctx, late context.Context, c checkpoint.Command, e edit) error {
	end, err := w.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	before, clock, err := readBefore(e)
	if err != nil {
		return err
	}
	stands := w.ownWrites.before(before)
	intended := intend(stands, before, e.texts, clock)
	if err := w.expect(late, c, intended); err != nil {
		return err
	}
	w.ownWrites.put(intended)
	if err := e.patch(); err != nil {
		if refused(err) {
			w.ownWrites.put(stands)
			if err := w.expect(late, c, stands); err != nil {
				return err
			}
		}
		return fmt.Errorf("write ticket %s: %w", c.Subject, err)
	}
	// Where it cannot be read what the edit made, the loose rule of Echoes holds.
	if after, _, err := readDetections(e); err == nil {
		intended = witness(intended, before, after)
		w.ownWrites.put(intended)
	}
	entries, err := entriesOf(intended)
	if err != nil {
		return err
	}
	if err := e.keep(entries); err != nil {
		return err
	}
	return w.forget(late, before)
}

// errWaitsForTurn says why a command is not carried out yet.
var errWaitsForTurn = errors.New("a page of the appliance's detections is being read for long; tickets are written between two pages")

// turn takes the turn to write, and reports by the status if that takes long.
func (w *Writer) turn(ctx context.Context) (end func(), err error) {
	const long = 30 * time.Second
	soon, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	if end, err = w.ownWrites.Turn(soon); err == nil || ctx.Err() != nil {
		return end, err
	}
	w.enter(sinks.StateRetrying, errWaitsForTurn)
	return w.ownWrites.Turn(ctx)
}

// expect keeps in the state what is expected of detections.
func (w *Writer) expect(ctx context.Context, c checkpoint.Command, chains map[int64][]write) error {
	entries, err := entriesOf(chains)
	if err != nil {
		return err
	}
	if err := w.store.Note(ctx, c.ID, c.Note, entries); err != nil {
		return fmt.Errorf("keep what command %d is to change: %w", c.ID, err)
	}
	return nil
}

// forget drops what was waited for too long.
func (w *Writer) forget(ctx context.Context, written []transform.Detection) error {
	var now int64
	for _, d := range written {
		now = max(now, d.ModTime)
	}
	before, due := w.ownWrites.prune(now)
	if !due {
		return nil
	}
	if err := w.store.Unexpect(ctx, w.o.Appliance, nil, before); err != nil {
		// It is tried again in a day: what stays does no harm.
		w.o.Log.Warn("what was written long ago could not be dropped from the state", "error", err)
	}
	return nil
}

// readBefore reads what an edit is about to change. Where the appliance refuses
// that for what is asked, and not for who asks, the edit itself will tell why: then
// there is nothing to expect of it.
func readBefore(e edit) (found []transform.Detection, clock int64, err error) {
	found, clock, err = readDetections(e)
	if refusal, ok := errors.AsType[*appliance.Error](err); ok && !refusal.Refused() && !refusal.Throttled() && refusal.Status/100 == 4 {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read what is to be changed: %w", err)
	}
	return found, clock, nil
}

// Bounds of what is read of the detections that one command changes. Polling waits
// meanwhile.
const (
	maxLookupRows  = 10_000
	maxLookupPages = 1000     // an appliance may return fewer rows a page than it is asked for
	maxLookupBytes = 32 << 20 // that are kept
	maxLookupRead  = 128 << 20
	maxLookupTime  = 2 * time.Minute
)

// errLookupSlow reports that a lookup took too long: for the appliance's rate limit, or
// its load. Both pass.
var errLookupSlow = fmt.Errorf("the appliance did not show all detections with the ticket within %s; "+
	"raise its rate limit, or reduce its load, if this remains", maxLookupTime)

// readDetections reads what an edit changes, without what is no detection that can
// be recognized. An appliance that shows no end of it, or more than a command may
// change, is an error that rejects the command; one that takes too long is
// errLookupSlow. clock is the appliance's in its first answer, in milliseconds.
func readDetections(e edit) (found []transform.Detection, clock int64, err error) {
	var page appliance.Page
	seen := make(map[int64]bool)
	began, rows, size, bytes := time.Now(), 0, 0, int64(0)
	for pages := 0; ; pages++ {
		if err := e.read(rows, &page); err != nil {
			return nil, 0, err
		}
		if pages == 0 {
			clock = page.Date.UnixMilli()
		}
		if len(page.Objects) == 0 { // a short page is not the last one everywhere
			return found, clock, nil
		}
		fresh := false
		for _, o := range page.Objects {
			d, err := transform.ParseDetection(o.Raw, o.Repaired)
			if seen[d.ID] { // what has no id counts as one detection
				continue
			}
			if seen[d.ID], fresh = true, true; err != nil {
				continue
			}
			// The object is the page's, and not needed.
			found = append(found, transform.Detection{ID: d.ID, ModTime: d.ModTime, Tracked: d.Tracked})
			size += len(d.Tracked)
		}
		rows += len(page.Objects)
		bytes += page.Size()
		switch {
		case !fresh:
			return nil, 0, sinks.Errorf(sinks.Rejected, "the appliance shows the same detections at offset %d again: it ignores offset, so that it cannot be known what has the ticket",
				rows-len(page.Objects))
		case rows > maxLookupRows || size > maxLookupBytes:
			return nil, 0, sinks.Errorf(sinks.Rejected, "the appliance shows more than %d detections, or %d MiB of them, with the ticket: a command changes no more", maxLookupRows, maxLookupBytes>>20)
		case pages >= maxLookupPages || bytes > maxLookupRead:
			return nil, 0, sinks.Errorf(sinks.Rejected, "the appliance did not show all detections with the ticket within %d pages and %d MiB", maxLookupPages, maxLookupRead>>20)
		case time.Since(began) > maxLookupTime:
			return nil, 0, errLookupSlow
		}
	}
}

// refused reports whether an appliance answered that it did not do what it was asked.
func refused(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout
}
