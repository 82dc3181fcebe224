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
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Ticket is a ticket in its system.
type Ticket struct {
	ID  string `json:"id"`            // the id shown to people
	URL string `json:"url,omitempty"` // of its page; empty if unknown
}

// System is the protocol of a ticket system. Its methods only compute; their errors are
// *failure.Error.
type System interface {
	// find returns the request that looks up a detection's ticket, or nil if the system
	// cannot be queried.
	find(e transform.Event) (*webhook.Request, error)
	// found parses the answer to find; the ticket's ID is empty if there is none.
	found(e transform.Event, a webhook.Answer) (Ticket, error)
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
		Compose: p.compose, Judge: p.judge,
		Key: webhook.DetectionKey, ComposeWithMemory: p.composeWithMemory, Remember: p.remember, Finish: p.finish,
	}
}

// task is what a request does with an event.
type task struct {
	event  transform.Event
	opens  bool   // it opens a ticket; otherwise it looks for one
	memory memory // of the detection
}

// compose returns the request that opens a ticket, without a lookup.
func (p *preset) compose(events []transform.Event) (webhook.Request, error) {
	if n := leading(events, func(i int) bool { return opensNoTicket(events[i]) }); n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	return p.open(task{event: events[0]})
}

// composeWithMemory returns the request that looks for a ticket.
func (p *preset) composeWithMemory(events []transform.Event, known [][]byte) (webhook.Request, error) {
	n := leading(events, func(i int) bool {
		m := remembered(known[i])
		return opensNoTicket(events[i]) && !p.unlinked(m) || m.done(p.o.Link != nil)
	})
	if n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	t := task{event: events[0], memory: remembered(known[0])}
	if p.unlinked(t.memory) {
		return webhook.Request{Events: 1, Nothing: true, About: t}, nil
	}
	request, err := p.o.System.find(t.event)
	switch {
	case err != nil:
		return webhook.Request{}, err
	case request == nil:
		return p.open(t)
	}
	request.Events, request.About = 1, t
	return *request, nil
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

func (p *preset) open(t task) (webhook.Request, error) {
	request, err := p.o.System.open(t.event)
	if err != nil {
		return webhook.Request{}, err
	}
	t.opens = true
	request.Events, request.Once, request.About = 1, true, t
	return request, nil
}

// judge opens a ticket if none was found, unless one may have been opened that cannot
// be found yet.
func (p *preset) judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	t := r.About.(task)
	if t.opens {
		_, err := p.o.System.opened(a)
		return nil, err
	}
	ticket, err := p.o.System.found(t.event, a)
	if ticket.ID != "" || err != nil {
		return nil, err
	}
	attempt := t.memory.Attempt
	if wait := p.o.SearchDelay - p.o.Now().Sub(attempt); !attempt.IsZero() && wait > 0 {
		const maxWait = 5 * time.Second
		retry := failure.Errorf(failure.Throttled, "the outcome of an earlier attempt is unknown; waiting until its ticket could be found")
		retry.RetryAfter = min(wait, maxWait)
		return nil, retry
	}
	next, err := p.open(t)
	return &next, err
}

// remember returns the ticket, or the attempt to open one.
func (p *preset) remember(r webhook.Request, a webhook.Answer) map[string][]byte {
	t := r.About.(task)
	if t.event.IsTest() {
		return nil
	}
	ticket := p.ticketIn(t, a)
	if ticket.ID == "" {
		return encode(t.event, memory{Attempt: p.o.Now()})
	}
	return encode(t.event, memory{Ticket: ticket})
}

// ticketIn returns the ticket in an answer for which Judge returned no error.
func (p *preset) ticketIn(t task, a webhook.Answer) (ticket Ticket) {
	if t.opens {
		ticket, _ = p.o.System.opened(a)
	} else {
		ticket, _ = p.o.System.found(t.event, a)
	}
	return ticket
}

// finish links the detection to its ticket.
func (p *preset) finish(ctx context.Context, r webhook.Request, a webhook.Answer) (map[string][]byte, error) {
	t, ok := r.About.(task)
	if report := sinks.Receipts(ctx); report != nil && ok && t.event.IsTest() {
		ticket, text := p.ticketIn(t, a), "ticket %s was opened; close it, the bridge does not"
		if !t.opens {
			text = "ticket %s was found instead of opening another one; close it"
		}
		report(fmt.Sprintf(text, a.Quote(ticket.ID+" "+ticket.URL)))
	}
	if !ok || p.o.Link == nil || t.event.IsTest() {
		return nil, nil
	}
	ticket := t.memory.Ticket
	if !r.Nothing {
		ticket = p.ticketIn(t, a)
	}
	if ticket.ID == "" {
		return nil, nil
	}
	if err := p.o.Link(ctx, t.event, ticket); err != nil {
		class, wait := failure.ClassOf(err)
		return nil, &failure.Error{Class: class, RetryAfter: wait, Err: fmt.Errorf("ticket %s was opened, but its detection is not linked to it: %w", a.Quote(ticket.ID), err)}
	}
	return encode(t.event, memory{Ticket: ticket, Linked: true}), nil
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

func encode(e transform.Event, m memory) map[string][]byte {
	value, err := json.Marshal(m)
	if err != nil {
		return nil // a year beyond 9999
	}
	return map[string][]byte{webhook.DetectionKey(e): value}
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
