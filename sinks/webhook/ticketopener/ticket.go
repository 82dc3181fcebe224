// Package ticketopener opens a ticket for each detection, in Jira, ServiceNow, Request Tracker,
// Redmine, or any system by a template, and links the detection to it.
package ticketopener

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Ticket is a ticket in its system.
type Ticket struct {
	ID  string `json:"id"`            // the id shown to people
	Key string `json:"key,omitempty"` // the id that never changes; empty: ID
	URL string `json:"url,omitempty"` // of its page; empty if unknown
	// Moves is how often its ID changed.
	Moves int `json:"moves,omitempty"`

	status string // that the answer shows; empty: none
}

// Host returns the host of the ticket's system; empty if it is unknown.
func (t Ticket) Host() string {
	page, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return page.Host
}

// System is the protocol of a ticket system. The errors of its methods are *failure.Error.
type System interface {
	follower
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
	// Sink is the sink's name, for reports.
	Sink   string
	System System
	// Follow is nil if later versions leave tickets alone.
	Follow *Follow
	// Group is nil if each detection has a ticket of its own.
	Group *Group
	// Link links a detection to its ticket. When it returns nil, the link is stored
	// durably; linking twice with the same ID and Moves has no further effect. An error that is not a *failure.Error
	// is temporary. If Link is nil, detections are not linked.
	Link func(ctx context.Context, e transform.Event, t Ticket) error
	// Notes is nil if the comments on tickets that follow are not read.
	Notes *Notes
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
	bearer := ""
	if s, ok := o.System.(interface{ bearer() string }); ok {
		bearer = s.bearer()
	}
	made := &webhook.Preset{
		Header: map[string]string{"Accept": "application/json"}, Bearer: bearer, Secrets: o.System.secrets(), Checks: o.System.checks(),
		Compose: p.compose, Converse: p.converse, Key: webhook.DetectionKey,
		Undivided: o.Group != nil, // two detections of a group must not open tickets at the same time
	}
	if o.Follow != nil && o.Notes != nil {
		made.Poll = (&commentReader{preset: p}).poll
	}
	if i, ok := o.System.(inspector); ok && o.Follow != nil {
		made.Inspect = func(ctx context.Context, c *webhook.Conversation) []finding.Finding {
			return i.inspect(ctx, c, o.Follow)
		}
	}
	return made
}

// compose returns the request that opens a ticket for the first event.
func (p *preset) compose(events []transform.Event) (webhook.Request, error) {
	if n := leading(events, func(i int) bool { return opensNoTicket(events[i]) }); n > 0 {
		return webhook.Request{Events: n, Nothing: true}, nil
	}
	return p.request(events[0])
}

// request returns the request that opens a ticket.
func (p *preset) request(e transform.Event) (webhook.Request, error) {
	r, err := p.o.System.open(e)
	r.Events, r.Once = 1, true
	return r, err
}

// converse makes sure that the first event's detection has a ticket and is linked to it, and lets
// the ticket follow the event.
func (p *preset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	if n := leading(events, func(i int) bool { return p.rests(events[i], remembered(c.Known(i))) }); n > 0 {
		return n, nil
	}
	e := events[0]
	m, err := p.recall(ctx, c)
	if err != nil {
		return 1, err
	}
	if m.done(p.o.Link != nil) && !m.own.Joining {
		i := p.o.Follow.intend(e, m)
		if i.rests() { // it is the bridge's own write, or of a status without a move
			m.follows(e, i)
			return 1, p.remember(ctx, c, e, m, nil)
		}
		if open, err := p.follow(ctx, c, e, m, i); err != nil || !open {
			return 1, err
		}
	}
	if m.lead.ID == "" || m.own.Joining {
		if !p.opens(e, m.lead) && !m.own.Joining {
			return 1, nil
		}
		if err := p.findOrOpen(ctx, c, e, m); err != nil {
			return 1, err
		}
	}
	if err := p.link(ctx, c, e, m); err != nil {
		return 1, err
	}
	// A ticket is opened as that of a new detection, and follows at once.
	if i := p.o.Follow.intend(e, m); i.key != "" {
		_, err = p.follow(ctx, c, e, m, intention{state: i.state, key: i.key})
	}
	return 1, err
}

// rests reports whether an event needs neither a request nor the memory.
func (p *preset) rests(e transform.Event, m memory) bool {
	switch {
	case m.Joining:
		return false
	case !m.done(p.o.Link != nil):
		return m.ID == "" && m.Leader == "" && !p.opens(e, &m)
	}
	i := p.o.Follow.intend(e, &memories{own: &m, lead: &m})
	return i.rests() && (i.state == "" || i.state == m.State)
}

// opens reports whether an event may open the ticket of a memory, which has none.
func (p *preset) opens(e transform.Event, m *memory) bool {
	return !opensNoTicket(e) || m.Lost && e.MayOpen()
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

// statusOf returns the status of a version's detection.
func statusOf(e transform.Event) string {
	return cmp.Or(transform.Text(jsonscan.At(e.Data(), "detection.status")), stateNew)
}

// ticketOf returns the ticket id of a detection at its appliance, or "".
func ticketOf(e transform.Event) string {
	return transform.Text(jsonscan.At(e.Data(), "detection.ticket_id"))
}

// findOrOpen puts a detection's ticket into m: one that is found, that of its group, or a new one.
// It opens none if one may have been opened that cannot be found yet.
func (p *preset) findOrOpen(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) (err error) {
	text := "ticket %s was found instead of opening another one; close it"
	if p.o.System.searchable() && !m.own.Joining {
		if m.lead.Ticket, err = p.o.System.find(ctx, c, m.opener(e)); err != nil {
			return err
		}
	}
	if m.lead.ID == "" || m.own.Joining {
		if err := p.wait(*m.lead); err != nil {
			return err
		}
		if joined, err := p.join(ctx, c, e, m); joined || err != nil {
			return err
		}
		text = "ticket %s was opened; close it, the bridge does not"
	}
	p.lead(e, m)
	if m.lead.ID == "" {
		if err := p.open(ctx, c, e, m); err != nil {
			return err
		}
	}
	if e.IsTest() {
		c.Report(ctx, fmt.Sprintf(text, c.Quote(m.lead.ID+" "+m.lead.URL)))
		return nil
	}
	m.lead.Attempt, m.lead.followed = time.Time{}, followed{State: m.lead.State, Recorded: m.lead.Recorded, Seen: m.lead.status}
	m.own.Ticket, m.own.State, m.own.Recorded = m.lead.Ticket, stateNew, e.RecordedTime
	if err := p.linkOthers(ctx, c, e, m); err != nil {
		return err
	}
	r := p.report(e, m)
	r.action = transform.TicketOpened
	return p.remember(ctx, c, e, m, &r)
}

// open opens a ticket. It remembers the attempt first, if the ticket could be found by it, and
// forgets it if the system refused to.
func (p *preset) open(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) error {
	r, err := p.request(m.opener(e))
	if err != nil {
		return err
	}
	if p.o.System.searchable() {
		m.lead.Attempt, m.own.State, m.own.Recorded = p.o.Now(), stateNew, e.RecordedTime
		if err := p.remember(ctx, c, e, m, nil); err != nil {
			return err
		}
	}
	a, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	m.lead.Ticket, err = p.o.System.opened(a)
	if class, _ := failure.ClassOf(err); err != nil && class == failure.Rejected {
		m.lead.Attempt = time.Time{}
		return cmp.Or(p.remember(ctx, c, e, m, nil), err)
	}
	return err
}

// link links the detection to its ticket.
func (p *preset) link(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) error {
	if p.o.Link == nil || e.IsTest() {
		return nil
	}
	if err := p.linkOne(ctx, c, e, m.lead.Ticket); err != nil {
		return err
	}
	m.own.Linked = true
	return p.remember(ctx, c, e, m, nil)
}

func (p *preset) linkOne(ctx context.Context, c *webhook.Conversation, e transform.Event, t Ticket) error {
	if err := p.o.Link(ctx, e, t); err != nil {
		class, wait := failure.ClassOf(err)
		return &failure.Error{Class: class, RetryAfter: wait, Err: fmt.Errorf("ticket %s is not linked with detection %s: %w", c.Quote(t.ID), e.Subject, err)}
	}
	return nil
}

// remember stores what is known of a detection's ticket, and journals a report of it, unless that
// is nil. Of a test, it does neither.
func (p *preset) remember(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories, r *report) error {
	if e.IsTest() {
		return nil
	}
	entries := map[string][]byte{}
	for key, one := range map[string]*memory{webhook.DetectionKey(e): m.own, m.leader: m.lead} {
		value, err := json.Marshal(one)
		if err != nil {
			return nil // a year beyond 9999
		}
		entries[key] = value
	}
	delete(entries, "") // without a leader
	if m.current != "" {
		entries[m.current] = []byte(webhook.DetectionKey(e))
	}
	var about []transform.Event
	if r != nil {
		event, err := transform.Encoder{Appliance: e.Appliance}.TicketReport(r.action, r.TicketReport, p.o.Now())
		if err != nil {
			return failure.Unsendable("report on ticket %s: %w", c.Quote(m.lead.ID), err)
		}
		about = append(about, event)
	}
	return c.Remember(ctx, entries, about...)
}

// memory is the value remembered for a detection, in JSON.
type memory struct {
	Ticket
	Linked bool `json:"linked,omitempty"`
	// Attempt is when the sink last tried to open a ticket; its outcome is unknown.
	Attempt time.Time `json:"attempt,omitzero"`
	followed
	// Group is nil unless the detection leads a group.
	Group *group `json:"group,omitempty"`
	// Leader is the DetectionKey of the detection whose ticket this one joined.
	Leader string `json:"leader,omitempty"`
	// Joining means that the ticket may not have a comment on the detection yet.
	Joining bool `json:"joining,omitempty"`
}

// done reports whether nothing is left to do for a detection.
func (m memory) done(links bool) bool { return m.ID != "" && (m.Linked || !links) }

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
