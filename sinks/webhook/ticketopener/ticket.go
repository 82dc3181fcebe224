// Package ticketopener opens a ticket for each detection, in Jira, in ServiceNow, or in any
// system by a template, and links the detection to it.
package ticketopener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Ticket is a ticket in its system.
type Ticket struct {
	ID  string `json:"id"`            // the id shown to people
	URL string `json:"url,omitempty"` // of its page; empty if unknown
}

// System is the protocol of a ticket system. The errors of its methods are *failure.Error.
type System interface {
	// searchable reports whether the system can be asked for a detection's ticket.
	searchable() bool
	// find asks for a detection's ticket; its ID is empty if there is none.
	find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error)
	// open returns the request that opens a ticket.
	open(e transform.Event) (webhook.Request, error)
	// opened parses the answer to open.
	opened(a webhook.Answer) (Ticket, error)
	// checks returns the webhook.Preset.Checks.
	checks() []webhook.CheckRequest
	// secrets returns secrets in addition to those of the webhook.
	secrets() []string
}

// Options configure a preset.
type Options struct {
	System System
	// Link links a detection to its ticket. When it returns nil, the link is stored
	// durably; linking twice has no further effect. An error that is not a *failure.Error
	// is temporary. If Link is nil, detections are not linked.
	Link func(ctx context.Context, e transform.Event, t Ticket) error
	// SearchDelay is how long it may take until a new ticket can be found. If the
	// outcome of an attempt is unknown, another one is made only after that.
	SearchDelay time.Duration
	// Now is the clock for SearchDelay.
	Now func() time.Time
}

// preset opens a ticket for a detection that has none: neither at its appliance, nor in
// the sink's memory, nor in the ticket system, which is queried first. Later versions
// of the detection, versions that only show the bridge's own writes, follow-ups except contexts,
// and events of other kinds are delivered without a request. A test event opens a ticket of its own, which is
// neither remembered nor linked.
//
// An attempt is stored before the ticket is opened, and the ticket before the detection
// is linked: after a crash at any point, the system is queried until SearchDelay has
// passed, and no second ticket is opened. If the system cannot be queried, a second one
// may be.
type preset struct{ o Options }

// New returns the preset that opens tickets.
func New(o Options) *webhook.Preset {
	p := &preset{o}
	return &webhook.Preset{
		Header: map[string]string{"Accept": "application/json"}, Secrets: o.System.secrets(), Checks: o.System.checks(),
		Compose: p.compose, Converse: p.converse, Key: webhook.DetectionKey,
	}
}

// compose returns the request that opens a ticket for the first event.
func (p *preset) compose(events []transform.Event) (webhook.Request, error) {
	if n := leading(events, func(i int) bool { return opensNoTicket(events[i]) }); n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	r, err := p.o.System.open(events[0])
	r.Events, r.Once = 1, true
	return r, err
}

// converse makes sure that the first event's detection has a ticket and is linked to it.
func (p *preset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	done := leading(events, func(i int) bool {
		m := remembered(c.Known(i))
		return opensNoTicket(events[i]) && !p.unlinked(m) || m.done(p.o.Link != nil)
	})
	if done > 0 {
		return done, nil
	}
	e, m := events[0], remembered(c.Known(0))
	if !p.unlinked(m) {
		if err := p.findOrOpen(ctx, c, e, &m); err != nil {
			return 1, err
		}
	}
	return 1, p.link(ctx, c, e, m.Ticket)
}

// leading counts the leading events that are done.
func leading(events []transform.Event, done func(i int) bool) int {
	n := 0
	for n < len(events) && done(n) {
		n++
	}
	return n
}

// opensNoTicket reports whether an event opens no ticket regardless of the memory: it
// is neither a test nor one that may open a ticket, its detection has a ticket, or it only shows the
// bridge's own writes.
func opensNoTicket(e transform.Event) bool {
	return !e.MayOpen() && !e.IsTest() || e.CausedBy == transform.CausedByWriteback || ticketOf(e) != ""
}

// ticketOf returns the ticket id of a detection at its appliance, or "".
func ticketOf(e transform.Event) string {
	return transform.Text(jsonscan.At(e.Data(), "detection.ticket_id"))
}

// findOrOpen puts a detection's ticket into m, and opens one if none is found, unless one may
// have been opened that cannot be found yet.
func (p *preset) findOrOpen(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memory) (err error) {
	if p.o.System.searchable() {
		m.Ticket, err = p.o.System.find(ctx, c, e)
		if err != nil {
			return err
		}
		if m.ID != "" {
			p.reportTest(ctx, c, e, "ticket %s was found instead of opening another one; close it", m.Ticket)
			return p.remember(ctx, c, e, memory{Ticket: m.Ticket})
		}
		if wait := p.o.SearchDelay - p.o.Now().Sub(m.Attempt); !m.Attempt.IsZero() && wait > 0 {
			const maxWait = 5 * time.Second
			retry := failure.Errorf(failure.Throttled, "the outcome of an earlier attempt is unknown; waiting until its ticket could be found")
			retry.RetryAfter = min(wait, maxWait)
			return retry
		}
		if err := p.remember(ctx, c, e, memory{Attempt: p.o.Now()}); err != nil {
			return err
		}
	}
	r, err := p.compose([]transform.Event{e})
	if err != nil {
		return err
	}
	a, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	if m.Ticket, err = p.o.System.opened(a); err != nil {
		return err
	}
	p.reportTest(ctx, c, e, "ticket %s was opened; close it, the bridge does not", m.Ticket)
	return p.remember(ctx, c, e, memory{Ticket: m.Ticket})
}

// reportTest reports the ticket of a test event, in a text with its id.
func (p *preset) reportTest(ctx context.Context, c *webhook.Conversation, e transform.Event, text string, t Ticket) {
	if e.IsTest() {
		c.Report(ctx, fmt.Sprintf(text, c.Quote(t.ID+" "+t.URL)))
	}
}

// link links the detection to its ticket.
func (p *preset) link(ctx context.Context, c *webhook.Conversation, e transform.Event, t Ticket) error {
	if p.o.Link == nil || e.IsTest() {
		return nil
	}
	if err := p.o.Link(ctx, e, t); err != nil {
		class, wait := failure.ClassOf(err)
		return &failure.Error{Class: class, RetryAfter: wait, Err: fmt.Errorf("ticket %s was opened, but its detection is not linked to it: %w", c.Quote(t.ID), err)}
	}
	return p.remember(ctx, c, e, memory{Ticket: t, Linked: true})
}

// remember stores what is known of a detection, but not of a test.
func (p *preset) remember(ctx context.Context, c *webhook.Conversation, e transform.Event, m memory) error {
	if e.IsTest() {
		return nil
	}
	value, err := json.Marshal(m)
	if err != nil {
		return nil // a year beyond 9999
	}
	return c.Remember(ctx, e, value)
}

// memory is the value remembered for a detection, in JSON.
type memory struct {
	Ticket
	Linked bool `json:"linked,omitempty"`
	// Attempt is when the sink last tried to open a ticket; its outcome is unknown.
	Attempt time.Time `json:"attempt,omitzero"`
}

// done reports whether nothing is left to do for a detection.
func (m memory) done(links bool) bool { return m.ID != "" && (m.Linked || !links) }

// unlinked reports whether a detection has a ticket but is not linked to it yet.
func (p *preset) unlinked(m memory) bool { return m.ID != "" && !m.done(p.o.Link != nil) }

// remembered decodes a memory; it returns the zero value if it cannot.
func remembered(value []byte) memory {
	var m memory
	if value == nil || json.Unmarshal(value, &m) != nil {
		return memory{}
	}
	return m
}

// label returns the identifier of a detection, or of a test, at a ticket system: without
// spaces, and the same for all versions.
func label(e transform.Event) string {
	if e.IsTest() {
		return "ndrbridge-" + e.ID
	}
	return "ndrbridge-" + e.Appliance + "-" + e.Subject
}

// errNoTicket is returned if an answer lacks the id of the ticket.
var errNoTicket = errors.New("the answer contains no ticket id")

// decode parses the JSON of an answer of 2xx into target. Other statuses return the
// error of their status; invalid content returns an error of the given class.
func decode(a webhook.Answer, class failure.Class, target any) error {
	if err := a.Refusal(); err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, target); err != nil {
		return failure.Errorf(class, "the answer cannot be read: %s: %s", a.Quote(err.Error()), a.QuoteBody())
	}
	return nil
}
