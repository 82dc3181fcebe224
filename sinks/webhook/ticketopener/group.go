package ticketopener

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Group configures one ticket for many detections of an appliance. The first one opens the ticket.
// Each other one with the same values joins it with a comment, until the ticket is closed. One
// without any of the values has a ticket of its own.
type Group struct {
	// By are the fields whose values are the same: type, categories, offender or victim.
	By []string
	// Window is how far the detections may be from the first one, by their times.
	Window time.Duration
	// Max is how many detections a ticket has at most.
	Max int
}

// group is what the memory of the detection that leads a group holds of it: the ticket was opened
// for that detection, and is found by its label.
type group struct {
	Name   string          `json:"name"`   // for people
	Opened int64           `json:"opened"` // the time of the first detection, in milliseconds
	Closed map[string]bool `json:"closed"` // its detections, and whether each is closed
}

// memories are what is remembered of an event's detection: its own memory, and that of the leader
// of its group, which holds everything about the ticket. They are the same for a detection that
// leads, or has no group.
type memories struct {
	own, lead *memory
	leader    string // the key of lead, unless that is own
	current   string // the key under which leader is to be found by others of the group; empty: none
}

// done reports whether nothing is left to do for a detection.
func (m memories) done(links bool) bool { return m.lead.ID != "" && m.own.done(links) }

// others are the other detections of the group.
func (m memories) others(e transform.Event) (all []string) {
	if m.lead.Group != nil {
		for _, id := range slices.Sorted(maps.Keys(m.lead.Group.Closed)) {
			if id != e.Subject {
				all = append(all, id)
			}
		}
	}
	return all
}

// othersClosed reports whether all other detections of the group are closed.
func (m memories) othersClosed(e transform.Event) bool {
	for _, id := range m.others(e) {
		if !m.lead.Group.Closed[id] {
			return false
		}
	}
	return true
}

// opener returns the event as one of the detection that the ticket is opened for.
func (m memories) opener(e transform.Event) transform.Event {
	if m.leader != "" {
		e.Subject = m.leader[strings.LastIndexByte(m.leader, '/')+1:]
	}
	return e
}

// recall returns what is remembered of the first event's detection.
func (p *preset) recall(ctx context.Context, c *webhook.Conversation) (*memories, error) {
	own := remembered(c.Known(0))
	m := &memories{own: &own, lead: &own}
	if own.Leader == "" {
		return m, nil
	}
	lead, err := recallAt(ctx, c, own.Leader)
	if err != nil {
		return nil, err
	}
	if lead.Group == nil { // it is forgotten: the detection follows alone
		own.Leader = ""
	} else {
		m.lead, m.leader = &lead, own.Leader
	}
	return m, nil
}

func recallAt(ctx context.Context, c *webhook.Conversation, key string) (memory, error) {
	value, err := c.Recall(ctx, key)
	return remembered(value), err
}

// lead makes the detection the leader of its group, if it has one.
func (p *preset) lead(e transform.Event, m *memories) {
	key, name := p.o.Group.of(e)
	if key == "" || m.lead.Lost {
		return
	}
	m.current = key
	if m.lead.Group == nil {
		m.lead.Group = &group{Name: name, Opened: e.When().UnixMilli(), Closed: map[string]bool{}}
	}
	m.lead.Group.Closed[e.Subject] = statusOf(e) == stateClosed
}

// join puts the detection on the ticket of its group, unless there is none, or it is full, closed
// or lost. The place is stored before the ticket is read and has a comment, so that after a crash
// the detection joins the same one.
func (p *preset) join(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) (joined bool, err error) {
	if !m.own.Joining {
		if reserved, err := p.reserve(ctx, c, e, m); !reserved || err != nil {
			return false, err
		}
	}
	r, now, over := p.report(e, m), Standing{}, false
	if err = errLost; !m.lead.Lost {
		now, err = p.o.System.read(ctx, c, m.lead.Ticket)
	}
	if err == nil && now.Closed {
		var found bool
		found, _, err = p.commented(ctx, c, e, m)
		over = !found
	}
	switch lost := errors.Is(err, errLost); {
	case lost, err == nil && over:
		if m.lead.Group != nil {
			delete(m.lead.Group.Closed, e.Subject)
		}
		var about *report
		if lost && !m.lead.Lost {
			r = p.report(e, m)
			p.lose(m, &r)
			about = &r
		}
		*m.own = memory{}
		err := p.remember(ctx, c, e, m, about)
		*m = memories{own: m.own, lead: m.own}
		return false, err
	case err == nil:
		err = p.moved(ctx, c, e, m, now, &r)
	}
	if err == nil {
		const maxText = 3000
		of := card.Of(e)
		err = p.comment(ctx, c, e, m, card.Fit("Another detection: "+of.Headline()+"\n"+plainText(of), maxText, card.Plain), &r)
	}
	if err != nil {
		return false, err
	}
	m.own.Joining = false
	return true, p.remember(ctx, c, e, m, &r)
}

// reserve reserves a place for the detection in the current ticket of its group.
func (p *preset) reserve(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) (reserved bool, err error) {
	key, _ := p.o.Group.of(e)
	if key == "" || m.lead.Lost {
		return false, nil
	}
	leader, err := c.Recall(ctx, key)
	if err != nil || len(leader) == 0 || string(leader) == webhook.DetectionKey(e) {
		return false, err
	}
	lead, err := recallAt(ctx, c, string(leader))
	if err != nil || !p.o.Group.takes(e, lead) {
		return false, err
	}
	own := memory{Leader: string(leader), Joining: true, followed: followed{State: statusOf(e), Recorded: e.RecordedTime}}
	joining := &memories{own: &own, lead: &lead, leader: own.Leader}
	var about *report
	if lead.ID == "" { // its attempt has no outcome yet
		opener := joining.opener(e)
		if lead.Ticket, err = p.o.System.find(ctx, c, opener); err != nil || lead.ID == "" {
			return false, cmp.Or(err, p.wait(lead))
		}
		lead.Attempt, lead.Seen = time.Time{}, lead.status
		opened := p.report(opener, joining)
		opened.action, about = transform.TicketOpened, &opened
	}
	own.Ticket = lead.Ticket
	lead.Group.Closed[e.Subject] = own.State == stateClosed
	*m = *joining
	return true, p.remember(ctx, c, e, m, about)
}

// takes reports whether a ticket takes another detection.
func (g *Group) takes(e transform.Event, lead memory) bool {
	of := lead.Group
	return of != nil && !lead.Lost && (lead.ID != "" || !lead.Attempt.IsZero()) &&
		len(of.Closed) < g.Max && e.When().Sub(time.UnixMilli(of.Opened)).Abs() < g.Window
}

// of returns the key under which the leader of a detection's group is remembered, and the name of
// the group; they are empty if the detection has no group.
func (g *Group) of(e transform.Event) (key, name string) {
	if g == nil || !e.MayOpen() {
		return "", ""
	}
	key = e.Appliance
	var names []string
	for _, field := range g.By {
		ids, shown := valuesOf(e, field)
		if len(ids) == 0 {
			return "", ""
		}
		encoded, err := json.Marshal(ids)
		if err != nil {
			return "", ""
		}
		key += "\n" + field + string(encoded)
		names = append(names, field+" "+strings.Join(shown, ", "))
	}
	const maxName = 200
	sum := sha256.Sum256([]byte(key))
	return "group/" + hex.EncodeToString(sum[:]), card.Fit(strings.Join(names, "; "), maxName, card.Plain)
}

// valuesOf returns the values of a field in any order, each once, and their forms for people.
func valuesOf(e transform.Event, field string) (ids, shown []string) {
	names := map[string]string{}
	switch detection := jsonscan.At(e.Data(), "detection"); field {
	case "type":
		kind := transform.Text(jsonscan.At(detection, "type"))
		names[kind] = kind
	case "categories":
		for category := range jsonscan.Elements(jsonscan.At(detection, "categories")) {
			names[transform.Text(category)] = transform.Text(category)
		}
	default: // a role
		for participant := range jsonscan.Elements(jsonscan.At(detection, "participants")) {
			of := func(name string) string { return transform.Text(jsonscan.At(participant, name)) }
			if of("role") != field {
				continue
			}
			id := cmp.Or(of("object_value"), of("hostname"), of("username"))
			if of("object_type") == "device" && of("object_id") != "" {
				id = "device " + of("object_id")
			}
			names[id] = cmp.Or(of("hostname"), of("object_value"), of("username"), id)
		}
	}
	delete(names, "")
	for _, id := range slices.Sorted(maps.Keys(names)) {
		ids, shown = append(ids, id), append(shown, names[id])
	}
	return ids, shown
}

// lose records that the ticket was deleted, and fills in the report of that.
func (p *preset) lose(m *memories, r *report) (open bool) {
	r.action, r.Reason = transform.TicketLost, errLost.Error()
	lead := m.lead
	lead.followed = followed{State: lead.State, Recorded: lead.Recorded, Lost: true}
	if open = p.o.Follow != nil && p.o.Follow.OpenAgain; open {
		lead.Ticket, m.own.Ticket, m.own.Linked = Ticket{}, Ticket{}, false
	}
	return open
}

// moved takes over another id of the ticket, which a person gave to it, and links the detections
// with that.
func (p *preset) moved(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories, now Standing, r *report) error {
	if now.ID == "" || now.ID == m.lead.ID {
		return nil
	}
	r.MovedFrom = m.lead.ID
	now.Ticket.Moves = m.lead.Moves + 1
	m.lead.Ticket, m.own.Ticket = now.Ticket, now.Ticket
	r.TicketID, r.URL = now.ID, now.URL
	err := p.linkOthers(ctx, c, e, m)
	if err == nil && p.o.Link != nil && m.own.Linked {
		err = p.linkOne(ctx, c, e, now.Ticket)
	}
	return r.explain(err, "not every detection is linked with it", "")
}

// linkOthers links the other detections of the group with its ticket.
func (p *preset) linkOthers(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) error {
	if p.o.Link == nil {
		return nil
	}
	for _, id := range m.others(e) {
		e.Subject = id
		if err := p.linkOne(ctx, c, e, m.lead.Ticket); err != nil {
			return err
		}
	}
	return nil
}

// wait returns an error as long as the ticket of an attempt may not be found yet.
func (p *preset) wait(m memory) error {
	wait := p.o.SearchDelay - p.o.Now().Sub(m.Attempt)
	if m.Attempt.IsZero() || wait <= 0 {
		return nil
	}
	const maxWait = 5 * time.Second
	retry := failure.Errorf(failure.Throttled, "the outcome of an earlier attempt is unknown; waiting until its ticket could be found")
	retry.RetryAfter = min(wait, maxWait)
	return retry
}
