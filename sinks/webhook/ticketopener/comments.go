package ticketopener

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/failure"
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
	// maxRead is how many comments of a ticket are read at once.
	maxRead = 10 * maxComments
	// maxID is the length of the longest id that a system has for a comment, in bytes.
	maxID = 100
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
	read, unread, err := r.list(ctx, c, m)
	if errors.Is(err, errLost) {
		return nil // the next event of the detection reports it
	}
	if err != nil {
		return err
	}
	until, added := r.o.Now(), 0
	for _, o := range unread {
		if err = r.add(ctx, c, detection, m.Ticket, o); err != nil {
			until = earlier(until, o.Time)
			break
		}
		added++
	}
	if added == 0 {
		return err
	}
	m.Read = newReadComments(append(read, unread[:added]...), until)
	return cmp.Or(r.remember(ctx, c, detection, &memories{own: &m, lead: &m}, nil), err)
}

// list reads the newest comments of a ticket: page by page, as long as all of a page are unread. It
// returns those that were not read oldest first.
func (r *commentReader) list(ctx context.Context, c *webhook.Conversation, m memory) (read, unread []Comment, err error) {
	for skip := 0; skip < maxRead; skip += maxComments {
		page, err := r.o.System.comments(ctx, c, m.Ticket, skip)
		if err != nil {
			return nil, nil, err
		}
		known := len(read)
		for _, o := range page[:min(len(page), maxComments)] {
			switch {
			case len(o.ID) > maxID: // it would be remembered
			case m.Read.has(o):
				read = append(read, o)
			default:
				unread = append(unread, o)
			}
		}
		if len(page) < maxComments || len(read) > known {
			break
		}
	}
	slices.Reverse(unread)
	slices.SortStableFunc(unread, func(a, b Comment) int { return a.Time.Compare(b.Time) })
	return read, unread, nil
}

// add adds a comment to the note of its detection, unless it is the bridge's own or empty.
func (r *commentReader) add(ctx context.Context, c *webhook.Conversation, detection transform.Event, t Ticket, o Comment) (err error) {
	if o.text != nil && o.key() == "" {
		o.Text, err = o.text(ctx, c)
		if class, _ := failure.ClassOf(err); err != nil && class == failure.Rejected {
			o.Text = "(the text cannot be read)"
		} else if err != nil {
			return err
		}
	}
	if o.key() != "" || strings.TrimSpace(o.Text) == "" {
		return nil
	}
	return r.o.Notes.Add(ctx, detection, t, o)
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
	// Until is the time of the newest, but none ahead of the bridge's clock, nor of an unread one.
	Until time.Time `json:"until"`
	// IDs are those of the comments that are not older than Until by more than lateComment.
	IDs []string `json:"ids"`
}

func newReadComments(read []Comment, limit time.Time) *readComments {
	r := &readComments{}
	for _, c := range read {
		if c.Time.After(r.Until) {
			r.Until = c.Time
		}
	}
	r.Until = earlier(r.Until, limit)
	for _, c := range read {
		if !c.Time.Before(r.Until.Add(-lateComment)) {
			r.IDs = append(r.IDs, c.ID)
		}
	}
	return r
}

// has reports whether a comment was read. Older ones come back into a list of the newest if others
// are deleted.
func (r *readComments) has(c Comment) bool {
	return r != nil && (c.Time.Before(r.Until.Add(-lateComment)) || slices.Contains(r.IDs, c.ID))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
