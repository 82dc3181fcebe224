package ticketopener

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Notes configures how comments on tickets become notes of their detections.
type Notes struct {
	// Add adds a comment to the note of a detection; e has only the attributes that identify that.
	// When it returns nil, the comment is stored durably, or can never be; adding it twice has no
	// further effect.
	Add func(ctx context.Context, e transform.Event, t Ticket, c Comment) error
	// Every is the wait between two rounds over the tickets. A round takes a hundredth of it for
	// each.
	Every time.Duration
}

const (
	perRound = 100
	// closedFor is how long the comments of a ticket are read after its detection was closed.
	closedFor = 24 * time.Hour
	// lateComment is by how much a comment may be older than others that were read before it.
	lateComment = 10 * time.Minute
)

// commentReader reads the comments of the tickets that follow, one ticket at a time. A restart
// begins the round again.
type commentReader struct {
	*preset
	after string // the key of the last ticket of the round
}

// poll reads the comments of the next ticket.
func (r *commentReader) poll(ctx context.Context, c *webhook.Conversation) (time.Duration, error) {
	const page = 200
	entries, err := c.Remembered(ctx, r.after, page)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		r.after = e.Key // one that fails holds up no other
		m := remembered(e.Value)
		open := m.State != stateClosed || r.o.Now().Sub(m.Recorded) < closedFor
		if detection, ok := detectionWith(e.Key); ok && m.done(r.o.Link != nil) && !m.Joining && !m.Lost && open {
			return r.o.Notes.Every / perRound, r.read(ctx, c, detection, m)
		}
	}
	if len(entries) == page {
		return 0, nil
	}
	r.after = ""
	return r.o.Notes.Every, nil
}

// read adds the new comments of a ticket to the note of its detection, except the bridge's own.
func (r *commentReader) read(ctx context.Context, c *webhook.Conversation, detection transform.Event, m memory) error {
	all, err := r.o.System.(commented).comments(ctx, c, m.Ticket)
	if errors.Is(err, errLost) {
		return nil // the next event of the detection reports it
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b Comment) int { return a.Time.Compare(b.Time) })
	if m.Read == nil && m.Leader != "" { // what was said before it joined is in the first one's note
		m.Read = &readComments{Until: m.Recorded}
	}
	unread := m.Read.unread(all)
	for _, o := range unread {
		if o.key() == "" && strings.TrimSpace(o.Text) != "" {
			if err := r.o.Notes.Add(ctx, detection, m.Ticket, o); err != nil {
				return err
			}
		}
	}
	if len(unread) == 0 {
		return nil
	}
	m.Read = newReadComments(all, r.o.Now())
	return r.remember(ctx, c, detection, &memories{own: &m, lead: &m}, nil)
}

// detectionWith returns an event with the attributes of a detection that has a webhook.DetectionKey.
func detectionWith(key string) (e transform.Event, ok bool) {
	at := max(0, strings.LastIndexByte(key, '/'))
	e.Source, e.Subject = key[:at], strings.TrimPrefix(key[at:], "/")
	_, rest, _ := strings.Cut(e.Source, "://")
	e.Appliance, _, _ = strings.Cut(rest, "/")
	return e, webhook.DetectionKey(e) == key
}

// readComments is which comments of a ticket were read.
type readComments struct {
	// Until is the time of the newest, but none ahead of the bridge's clock.
	Until time.Time `json:"until"`
	// IDs are those of the comments that are not older than Until by more than lateComment.
	IDs []string `json:"ids"`
}

func newReadComments(all []Comment, now time.Time) *readComments {
	r := &readComments{}
	for _, c := range all {
		if c.Time.After(r.Until) {
			r.Until = c.Time
		}
	}
	if r.Until.After(now) {
		r.Until = now
	}
	for _, c := range all {
		if !c.Time.Before(r.Until.Add(-lateComment)) {
			r.IDs = append(r.IDs, c.ID)
		}
	}
	return r
}

// unread returns the comments that were not read. Older ones come back into a list of the newest if
// others are deleted.
func (r *readComments) unread(all []Comment) (some []Comment) {
	for _, c := range all {
		if r == nil || !c.Time.Before(r.Until.Add(-lateComment)) && !slices.Contains(r.IDs, c.ID) {
			some = append(some, c)
		}
	}
	return some
}
