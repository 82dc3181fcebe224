package ticketopener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Follow configures how a ticket follows its detection.
type Follow struct {
	// Comment lists what becomes a comment: tracked fields of a detection that changed, and
	// follow-ups by their action.
	Comment []string
	// States are the moves by the detection's status; reopened is that of one that was closed.
	States map[string]Move
	// KeepClosed are the statuses that a ticket is never moved out of.
	KeepClosed []string
	// People are the ticket system's accounts by those of the appliance.
	People map[string]string
	// OpenAgain opens another ticket for one that was deleted.
	OpenAgain bool
}

// Move is how a ticket gets another status.
type Move struct {
	To     string            // a status or a transition, by its id or name
	Fields map[string]string // that are set with it
}

// Standing is what a ticket system says of a ticket.
type Standing struct {
	// Ticket has the ID that the ticket has now; an empty one is as it was.
	Ticket
	Status   string // for people
	Closed   bool   // the status is that of a ticket that is done
	Assignee string // the account; empty: nobody
	// Moved is when the status last changed, at the latest; zero if unknown.
	Moved time.Time
}

// Comment is a comment on a ticket.
type Comment struct {
	ID     string // never changes
	Author string // for people
	Text   string // lines; empty if only some people may see them
	Time   time.Time

	// text reads the lines, if Text has the subject alone; nil otherwise. Its error has the class
	// failure.Rejected if they can never be read.
	text func(ctx context.Context, c *webhook.Conversation) (string, error)
}

// maxComments is how many comments are read with one call.
const maxComments = 100

// Step is a move that the system offers for a ticket.
type Step struct {
	ID     string // for the system
	Status string // that the ticket has then
}

// A follower lets tickets follow their detections. Errors for which the ticket or the configuration
// is at fault, not the system, have the class failure.Rejected.
type follower interface {
	// read returns the ticket's standing. The error is errLost if the ticket does not exist.
	read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error)
	// step finds the move to a status, or by a transition.
	step(ctx context.Context, c *webhook.Conversation, t Ticket, to string) (Step, error)
	// move makes a move.
	move(ctx context.Context, c *webhook.Conversation, t Ticket, s Step, fields map[string]string) error
	// assign assigns the ticket to an account.
	assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error
	// comment adds a comment. The last line of its text identifies it.
	comment(ctx context.Context, c *webhook.Conversation, t Ticket, text string) error
	// comments returns the ticket's comments, newest first: all but the newest skip, and at most
	// maxComments of them; fewer if there are no older ones. The error may be errLost if the ticket
	// does not exist.
	comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error)
}

// errLost means that a ticket does not exist any more, or is hidden from the account.
var errLost = errors.New("the ticket was deleted, or the account may not see it")

// followed is what the memory holds of a ticket that follows its detection.
type followed struct {
	// State is the detection's last status that the ticket followed.
	State string `json:"state,omitempty"`
	// Seen is the ticket's status after that, and Target that of a move whose outcome is unknown.
	Seen   string `json:"seen,omitempty"`
	Target string `json:"target,omitempty"`
	// Assigned is the account that the ticket was last assigned to.
	Assigned string `json:"assigned,omitempty"`
	// Recorded is when the bridge received the last version that was followed.
	Recorded time.Time `json:"recorded,omitzero"`
	// Read is which comments were read; nil: none.
	Read *readComments `json:"read,omitempty"`
	// Lost means that the ticket was deleted: without an ID, another one is opened.
	Lost bool `json:"lost,omitempty"`
}

// intention is what an event asks of a ticket.
type intention struct {
	comment string // empty: none
	state   string // the detection's status, if the event is a newer version
	key     string // of the move, in Follow.States; empty: none
	account string // to assign the ticket to; empty: nobody new
}

// rests reports whether an event leaves the ticket alone.
func (i intention) rests() bool { return i.comment == "" && i.key == "" && i.account == "" }

// intend returns what an event asks of the ticket of its detection.
func (f *Follow) intend(e transform.Event, m *memories) (i intention) {
	if f == nil || m.lead.Lost {
		return i
	}
	own := e.CausedBy == transform.CausedByWriteback
	changes := jsonscan.At(e.Data(), "changes")
	if !own {
		i.comment = f.commentOn(e, changes)
	}
	if e.IsFollowUp() || e.RecordedTime.Before(m.own.Recorded) {
		return i
	}
	i.state = statusOf(e)
	if own && jsonscan.At(changes, "status") != nil { // else the status is that of a version that did not match
		return i
	}
	if !own && jsonscan.At(changes, "assignee") != nil {
		i.account = f.People[transform.Text(jsonscan.At(e.Data(), "detection.assignee"))]
	}
	if i.state == m.own.State || m.own.State == "" || i.state == stateClosed && !m.othersClosed(e) {
		return i
	}
	for _, key := range []string{stateReopened, i.state} {
		if _, found := f.States[key]; found && (key != stateReopened || m.own.State == stateClosed) {
			i.key = key
			break
		}
	}
	return i
}

// The status of a detection whose ticket is opened, and the keys of Follow.States that are more than
// a status.
const (
	stateNew      = "new"
	stateClosed   = "closed"
	stateReopened = "reopened"
)

// commentOn returns the text of a comment on an event with changes; empty: none.
func (f *Follow) commentOn(e transform.Event, changes []byte) string {
	c := card.Of(e)
	if e.IsFollowUp() {
		kind := e.Action()
		if kind == "gone" || kind == "shown" {
			kind = "hidden"
		}
		if !slices.Contains(f.Comment, kind) {
			return ""
		}
		return c.Note + "\n" + e.FollowUpSummary()
	}
	if !slices.ContainsFunc(f.Comment, func(field string) bool { return jsonscan.At(changes, field) != nil }) {
		return ""
	}
	text := c.Note
	for _, fact := range c.Facts {
		if slices.Contains([]string{"Changed", "Status", "Assignee"}, fact.Name) {
			text += "\n" + fact.Name + ": " + fact.Value
		}
	}
	return text
}

// follow lets the ticket follow an event. It reads the ticket first, so that nothing is done again
// that an attempt without an answer did. open means that the ticket is lost, and another one is to
// be opened.
func (p *preset) follow(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories, i intention) (open bool, err error) {
	r := p.report(e, m)
	now, err := p.o.System.read(ctx, c, m.lead.Ticket)
	if errors.Is(err, errLost) {
		open = p.lose(m, &r)
		return open, p.remember(ctx, c, e, m, &r)
	}
	if err == nil {
		err = p.moved(ctx, c, e, m, now, &r)
	}
	if err == nil && i.key != "" {
		err = p.move(ctx, c, e, m, now, i.key, &r)
	}
	if err == nil && i.account != "" {
		err = p.assign(ctx, c, m.lead, now, i.account, &r)
	}
	if err == nil && i.comment != "" {
		err = p.comment(ctx, c, e, m, i.comment, &r)
	}
	if err != nil {
		return false, err
	}
	m.follows(e, i)
	return false, p.remember(ctx, c, e, m, &r)
}

// commented reports whether one of the ticket's newest comments is that on an event. It returns those
// before it.
func (p *preset) commented(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories) (found bool, before []Comment, err error) {
	all, err := p.o.System.comments(ctx, c, m.lead.Ticket, 0)
	if errors.Is(err, errLost) { // the ticket was just read
		err = failure.Errorf(failure.Transient, "its comments cannot be read: %w", err)
	}
	at := slices.IndexFunc(all, func(c Comment) bool { return c.key() == commentKey(e) })
	return at >= 0, all[at+1:], err
}

// comment adds a comment on an event, unless an attempt without an answer did.
func (p *preset) comment(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories, text string, r *report) error {
	found, before, err := p.commented(ctx, c, e, m)
	if m.own.Joining { // what was said before is in the notes of the others
		m.own.Read = newReadComments(before, p.o.Now())
	}
	if r.Commented = found; found || err != nil {
		return err
	}
	err = p.o.System.comment(ctx, c, m.lead.Ticket, strings.TrimSpace(text+"\n"+r.Reason)+"\n"+commentKey(e))
	r.Commented = err == nil
	return r.explain(err, "it has no comment on the event", "")
}

// move makes the move of a key, unless the ticket is there already, is to stay, or was moved by a
// person after the detection changed.
func (p *preset) move(ctx context.Context, c *webhook.Conversation, e transform.Event, m *memories, now Standing, key string, r *report) error {
	system, to := p.o.System, p.o.Follow.States[key]
	lead := m.lead
	seen, target := lead.Seen, lead.Target
	lead.Seen, lead.Target = now.Status, ""
	byPerson := now.Status != seen && (!now.Moved.IsZero() && !now.Moved.Before(e.When()) || now.Moved.IsZero() && seen != "")
	switch {
	case target != "" && now.Status == target: // by an attempt without an answer
		r.From, r.To = seen, target
		return nil
	case key == stateClosed && now.Closed, key == stateReopened && !now.Closed:
		return nil
	case slices.Contains(p.o.Follow.KeepClosed, now.Status):
		r.conflict(fmt.Sprintf("it stays %s, as follow.keep_closed says", c.Quote(now.Status)))
		return nil
	case byPerson:
		r.conflict(fmt.Sprintf("it was moved to %s after the detection changed, and stays there", c.Quote(now.Status)))
		return nil
	}
	step, err := system.step(ctx, c, lead.Ticket, to.To)
	if err == nil && step.Status != now.Status {
		lead.Target = step.Status
		if err := p.remember(ctx, c, e, m, nil); err != nil {
			return err
		}
		if err = system.move(ctx, c, lead.Ticket, step, to.Fields); err == nil {
			lead.Seen, r.From, r.To = step.Status, now.Status, step.Status
		}
	}
	lead.Target = ""
	return r.explain(err, "it is not moved", "; check follow.states")
}

// assign assigns the ticket, unless a person assigned it to somebody.
func (p *preset) assign(ctx context.Context, c *webhook.Conversation, m *memory, now Standing, account string, r *report) error {
	if now.Assignee == account { // also by an attempt that the memory does not show
		m.Assigned = account
		return nil
	}
	if now.Assignee != "" && now.Assignee != m.Assigned {
		return nil
	}
	err := p.o.System.assign(ctx, c, m.Ticket, account)
	if err == nil {
		m.Assigned, r.Assignee = account, account
	}
	return r.explain(err, "it is not assigned", "; check follow.people")
}

// follows records that the ticket followed an event.
func (m *memories) follows(e transform.Event, i intention) {
	if i.state == "" {
		return
	}
	m.own.State, m.own.Recorded = i.state, e.RecordedTime
	if m.lead.Group != nil {
		m.lead.Group.Closed[e.Subject] = i.state == stateClosed
	}
}

// ownKey begins the last line of the bridge's comments.
const ownKey = "ndrbridge event "

// commentKey is the last line of a comment on an event, by which it is found again.
func commentKey(e transform.Event) string { return ownKey + e.Appliance + "/" + e.ID }

// key returns the commentKey of a comment of a bridge, or "".
func (c Comment) key() string {
	text := strings.TrimSpace(c.Text)
	if last := text[strings.LastIndex(text, "\n")+1:]; strings.HasPrefix(last, ownKey) {
		return last
	}
	return ""
}

// marked returns configured fields with a last line, as that of the bridge's comments, in those with
// names, which become comments.
func marked(fields map[string]string, names ...string) map[string]string {
	fields = maps.Clone(fields)
	for _, name := range names {
		if fields[name] != "" {
			fields[name] += "\n" + ownKey + "fields"
		}
	}
	return fields
}

// report is what is reported of a ticket.
type report struct {
	transform.TicketReport
	action string
}

func (p *preset) report(e transform.Event, m *memories) report {
	r := report{action: transform.TicketUpdated}
	r.Sink, r.TicketID, r.URL, r.Event = p.o.Sink, m.lead.ID, m.lead.URL, e.ID
	if of := m.lead.Group; of != nil {
		r.Group, r.Detections = of.Name, len(of.Closed)
	}
	r.DetectionID, _ = strconv.ParseInt(e.Subject, 10, 64) // of a detection
	return r
}

// conflict adds a reason why the ticket differs from the detection.
func (r *report) conflict(reason string) {
	if r.action = transform.TicketConflict; r.Reason != "" {
		reason = r.Reason + "; " + reason
	}
	r.Reason = reason
}

// explain takes an error that the ticket or the configuration is the reason for as a conflict.
// It returns any other.
func (r *report) explain(err error, what, advice string) error {
	if class, _ := failure.ClassOf(err); err == nil || class != failure.Rejected {
		return err
	}
	r.conflict(what + ": " + err.Error() + advice)
	return nil
}

// change sends a change of one ticket. What the system refuses of this ticket alone is rejected.
func change(ctx context.Context, c *webhook.Conversation, method string, target *url.URL, content any) (webhook.Answer, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return webhook.Answer{}, failure.Unsendable("encode a change of a ticket: %w", err)
	}
	a, err := c.Do(ctx, webhook.Request{Method: method, URL: target, Body: body, Once: true})
	if err != nil {
		return a, err
	}
	return a, refusalOf(a)
}

// refusalOf returns the error of an answer about a change of one ticket. The ticket is read
// before, so what is refused then is about the ticket, not about the account.
func refusalOf(a webhook.Answer) error {
	switch a.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return a.Error(failure.Rejected)
	}
	return a.Refusal()
}
