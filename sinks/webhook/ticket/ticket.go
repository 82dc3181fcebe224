// Package ticket opens a ticket for each detection, in Jira, in ServiceNow, or in a
// system that a template speaks to, and links the detection with it.
package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Ticket is a ticket at its system.
type Ticket struct {
	ID  string `json:"id"`            // by which people call it
	URL string `json:"url,omitempty"` // of its page; empty: not known
}

// System is a ticket system's own words. Its methods only compute; their errors are
// *sinks.Error.
type System interface {
	// find makes the request that looks for a detection's ticket; nil: the system
	// cannot be asked.
	find(e transform.Event) (*webhook.Request, error)
	// found reads its answer; false where there is no ticket.
	found(e transform.Event, a webhook.Answer) (Ticket, bool, error)
	// open makes the request that opens one.
	open(e transform.Event) (webhook.Request, error)
	// opened reads its answer.
	opened(a webhook.Answer) (Ticket, error)
	// questions are those of webhook.Asking.
	questions() []webhook.Question
}

// withSecrets is a system with secrets beside those of the webhook.
type withSecrets interface{ secrets() []string }

// Options say how tickets are opened.
type Options struct {
	System System
	// Link has a detection linked with its ticket: it has been taken down durably
	// when Link returns nil, and the same link twice is one. The error is a
	// *sinks.Error, or one that passes. nil: detections are not linked.
	Link func(ctx context.Context, e transform.Event, t Ticket) error
	// SearchDelay is how long a ticket that was opened may not be found: an attempt
	// whose outcome is not known is followed by another only after that.
	SearchDelay time.Duration
	// Now is the clock that SearchDelay is measured with.
	Now func() time.Time
}

// Preset opens a ticket for a detection that has none, neither at its appliance nor
// in what the sink remembers nor at the system itself, which is asked first. Later
// versions of it, versions that show only what the bridge wrote, and events of other
// kinds are delivered without a request.
//
// An attempt is noted before the ticket is opened, and the ticket before the
// detection is linked: after a crash, at any moment, the system is asked until
// SearchDelay has passed, and no second ticket is opened. Of a system that cannot be
// asked, it may be.
type Preset struct{ o Options }

var _ webhook.Finishing = (*Preset)(nil)

// New makes a preset.
func New(o Options) *Preset { return &Preset{o} }

// Service asks for JSON.
func (p *Preset) Service() webhook.Service {
	service := webhook.Service{Header: map[string]string{"Accept": "application/json"}}
	if s, ok := p.o.System.(withSecrets); ok {
		service.Secrets = s.secrets()
	}
	return service
}

// Key is that of the detection.
func (p *Preset) Key(e transform.Event) string { return webhook.DetectionKey(e) }

// task is what a request does with an event.
type task struct {
	event   transform.Event
	opens   bool      // it opens a ticket; else it looks for one
	ticket  Ticket    // that is remembered; zero: none
	attempt time.Time // that is remembered; zero: none
}

// Compose makes the request that opens a ticket, without looking for one.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	if n := leading(events, func(i int) bool { return opensNoTicket(events[i]) }); n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	return p.open(task{event: events[0]})
}

// ComposeKnowing makes the request that looks for a ticket.
func (p *Preset) ComposeKnowing(events []transform.Event, known [][]byte) (webhook.Request, error) {
	n := leading(events, func(i int) bool {
		m := remembered(known[i])
		return opensNoTicket(events[i]) && !p.unlinked(m) || m.done(p.o.Link != nil)
	})
	if n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	m := remembered(known[0])
	t := task{event: events[0], ticket: m.Ticket, attempt: m.Attempt}
	if p.unlinked(m) {
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

// leading counts the leading events for which nothing is to do.
func leading(events []transform.Event, nothing func(i int) bool) int {
	n := 0
	for n < len(events) && nothing(n) {
		n++
	}
	return n
}

// opensNoTicket reports whether an event opens no ticket, whatever is remembered: it is of no
// detection, its detection has a ticket, or it shows only what the bridge wrote.
func opensNoTicket(e transform.Event) bool {
	return webhook.DetectionKey(e) == "" || e.CausedBy == transform.CausedByWriteback || ticketOf(e) != ""
}

// ticketOf is the ticket that a detection has at its appliance; empty: none.
func ticketOf(e transform.Event) string { return transform.Text(at(e.Data(), "detection.ticket_id")) }

func (p *Preset) open(t task) (webhook.Request, error) {
	request, err := p.o.System.open(t.event)
	if err != nil {
		return webhook.Request{}, err
	}
	t.opens = true
	request.Events, request.Once, request.About = 1, true, t
	return request, nil
}

// Judge has a ticket opened where none was found, unless one may have been opened
// that cannot be found yet.
func (p *Preset) Judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	t := r.About.(task)
	if t.opens {
		_, err := p.o.System.opened(a)
		return nil, err
	}
	_, found, err := p.o.System.found(t.event, a)
	if found || err != nil {
		return nil, err
	}
	if wait := p.o.SearchDelay - p.o.Now().Sub(t.attempt); !t.attempt.IsZero() && wait > 0 {
		const between = 5 * time.Second
		again := sinks.Errorf(sinks.Throttled, "it is not known whether a ticket was opened; it is looked for until one would be found")
		again.RetryAfter = min(wait, between)
		return nil, again
	}
	next, err := p.open(t)
	return &next, err
}

// Learn remembers the ticket, or that one is about to be opened.
func (p *Preset) Learn(r webhook.Request, a webhook.Answer) map[string][]byte {
	t := r.About.(task)
	ticket, there := p.ticketIn(t, a)
	if !there {
		return remember(t.event, memory{Attempt: p.o.Now()})
	}
	return remember(t.event, memory{Ticket: ticket})
}

// ticketIn reads an answer in which Judge saw no error.
func (p *Preset) ticketIn(t task, a webhook.Answer) (Ticket, bool) {
	if t.opens {
		ticket, err := p.o.System.opened(a)
		return ticket, err == nil
	}
	ticket, found, _ := p.o.System.found(t.event, a)
	return ticket, found
}

// Finish has the detection linked with its ticket.
func (p *Preset) Finish(ctx context.Context, r webhook.Request, a webhook.Answer) (map[string][]byte, error) {
	t, ok := r.About.(task)
	if !ok || p.o.Link == nil {
		return nil, nil
	}
	if r.Nothing {
		return p.link(ctx, t.event, t.ticket)
	}
	ticket, there := p.ticketIn(t, a)
	if !there {
		return nil, nil
	}
	return p.link(ctx, t.event, ticket)
}

func (p *Preset) link(ctx context.Context, e transform.Event, t Ticket) (map[string][]byte, error) {
	if err := p.o.Link(ctx, e, t); err != nil {
		class, wait := sinks.ClassOf(err)
		return nil, &sinks.Error{Class: class, RetryAfter: wait, Err: fmt.Errorf("ticket %s is open, but its detection is not linked with it: %w", t.ID, err)}
	}
	return remember(e, memory{Ticket: t, Linked: true}), nil
}

// memory is what is remembered of a detection, in JSON.
type memory struct {
	Ticket
	Linked bool `json:"linked,omitempty"`
	// Attempt is when a ticket was about to be opened, of which nothing else is known.
	Attempt time.Time `json:"attempt,omitzero"`
}

// done reports whether nothing is left to do for a detection.
func (m memory) done(links bool) bool { return m.ID != "" && (m.Linked || !links) }

// unlinked reports whether a detection has a ticket that it is yet to be linked with.
func (p *Preset) unlinked(m memory) bool { return m.ID != "" && !m.done(p.o.Link != nil) }

// remembered reads a memory. What cannot be read is as if it were forgotten.
func remembered(value []byte) memory {
	var m memory
	if value == nil || json.Unmarshal(value, &m) != nil {
		return memory{}
	}
	return m
}

func remember(e transform.Event, m memory) map[string][]byte {
	value, err := json.Marshal(m)
	if err != nil {
		return nil // a year beyond 9999
	}
	return map[string][]byte{webhook.DetectionKey(e): value}
}

// label names a detection at a ticket system: without blanks, and the same for all
// versions.
func label(e transform.Event) string {
	return "ndrbridge-" + e.Appliance + "-" + e.Subject
}

// errNoTicket says that an answer that should name a ticket does not.
var errNoTicket = errors.New("the answer names no ticket")

// decode reads the JSON of an answer of 2xx. The error of any other has the class of
// its status, and that of other content is of class.
func decode(a webhook.Answer, class sinks.Class, into any) error {
	if err := a.Refusal(); err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return sinks.Errorf(class, "the answer cannot be read: %w: %s", err, strings.TrimSpace(string(a.Body)))
	}
	return nil
}
