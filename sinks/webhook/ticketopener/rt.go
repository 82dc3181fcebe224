package ticketopener

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// RTOptions configure the tickets of Request Tracker.
type RTOptions struct {
	// URL is that of the web interface, such as https://rt.example.
	URL string
	// Queue is the name of the queue.
	Queue string
	// Priorities are priorities by severity in lower case. For a severity without one, the
	// queue's default applies.
	Priorities map[string]string
	// Fields are the values of other fields; the name of a custom field begins with "CF.".
	Fields map[string]string
}

// requestTracker creates tickets in Request Tracker. A reference to the detection finds them again.
type requestTracker struct {
	RTOptions
	site *url.URL
}

// NewRT returns a System that creates tickets in Request Tracker 5, by its interface REST 2
// (https://docs.bestpractical.com/rt/5.0.3/RT/REST2.html). The error names the faulty option.
func NewRT(o RTOptions) (System, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("rt: %w", err)
	}
	return requestTracker{o, site}, nil
}

func (requestTracker) secrets() []string { return nil }

func (requestTracker) bearer() string { return "Authorization: token " }

func (requestTracker) searchable() bool { return true }

// resource returns the address of a resource.
func (r requestTracker) resource(path ...string) *url.URL {
	return r.site.JoinPath("REST/2.0").JoinPath(path...)
}

// search returns the address of a search for tickets; one that is deleted is never found.
func (r requestTracker) search(query string) *url.URL {
	target := r.resource("tickets")
	target.RawQuery = url.Values{"query": {query}, "orderby": {"id"}, "per_page": {"1"}}.Encode()
	return target
}

// reference is the address that a ticket refers to, by which it is found again.
func reference(e transform.Event) string { return "ndrbridge://" + label(e) }

func (r requestTracker) find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error) {
	id, err := r.first(ctx, c, "RefersTo = '"+reference(e)+"'")
	if err != nil || id == "" {
		return Ticket{}, err
	}
	return r.ticket(id), nil
}

// first returns the id of the first ticket that a query finds, or "".
func (r requestTracker) first(ctx context.Context, c *webhook.Conversation, query string) (id string, err error) {
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: r.search(query)})
	if err != nil {
		return "", err
	}
	if a.Status == http.StatusBadRequest { // the query is of the same form for all events
		return "", a.Error(failure.Halted)
	}
	var reply struct {
		Items []struct{ ID json.RawMessage }
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return "", err
	}
	switch {
	case reply.Items == nil:
		return "", failure.Errorf(failure.Halted, "the answer to a search has no items; check url")
	case len(reply.Items) == 0:
		return "", nil
	}
	if id = transform.Text(reply.Items[0].ID); id == "" {
		return "", failure.Errorf(failure.Halted, "the answer to a search has a ticket without an id; check url")
	}
	return id, nil
}

func (r requestTracker) ticket(id string) Ticket {
	page := r.site.JoinPath("Ticket/Display.html")
	page.RawQuery = url.Values{"id": {id}}.Encode()
	return Ticket{ID: id, URL: page.String()}
}

func (r requestTracker) open(e transform.Event) (webhook.Request, error) {
	const maxSubject, maxContent = 200, 30_000
	c := card.Of(e)
	fields := map[string]any{
		"Queue": r.Queue, "Subject": card.Fit(c.Headline(), maxSubject, card.Plain),
		"Content": cmp.Or(card.Fit(plainText(c), maxContent, card.Plain), c.Title), "ContentType": "text/plain",
		"RefersTo": reference(e),
	}
	if priority := r.Priorities[c.Level.String()]; priority != "" {
		fields["Priority"] = priority
	}
	setFields(fields, r.Fields)
	body, err := json.Marshal(fields)
	if err != nil {
		return webhook.Request{}, failure.Unsendable("encode a ticket: %w", err)
	}
	return webhook.Request{URL: r.resource("ticket"), Body: body}, nil
}

// setFields sets configured fields in the body of a request.
func setFields(body map[string]any, fields map[string]string) {
	custom := map[string]string{}
	for name, value := range fields {
		if of, ok := strings.CutPrefix(name, "CF."); ok {
			custom[of], body["CustomFields"] = value, custom
		} else {
			body[name] = value
		}
	}
}

func (r requestTracker) opened(a webhook.Answer) (Ticket, error) {
	var reply struct{ ID json.RawMessage }
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Ticket{}, err
	}
	id := transform.Text(reply.ID)
	if id == "" {
		return Ticket{}, failure.Errorf(failure.Transient, "%w", errNoTicket)
	}
	return r.ticket(id), nil
}

// rtTicket is a ticket as Request Tracker shows it.
type rtTicket struct {
	ID     json.RawMessage
	Status string
	Owner  struct{ ID string }
}

// get reads a ticket. One that was merged is the ticket that it was merged into.
func (r requestTracker) get(ctx context.Context, c *webhook.Conversation, t Ticket) (shown rtTicket, err error) {
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: r.resource("ticket", t.ID)})
	if err != nil {
		return shown, err
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusForbidden {
		return shown, errLost
	}
	if err := decode(a, failure.Transient, &shown); err != nil {
		return shown, err
	}
	switch shown.Status {
	case "":
		return shown, failure.Errorf(failure.Transient, "the ticket has no status: %s", a.QuoteBody())
	case "deleted":
		return shown, errLost
	}
	if shown.Owner.ID == "Nobody" {
		shown.Owner.ID = ""
	}
	return shown, nil
}

func (r requestTracker) read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error) {
	shown, err := r.get(ctx, c, t)
	if err != nil {
		return Standing{}, err
	}
	now := Standing{Status: shown.Status, Assignee: shown.Owner.ID}
	if id := transform.Text(shown.ID); id != "" {
		now.Ticket = r.ticket(id)
	}
	// Which statuses are those of finished tickets depends on the queue.
	closed, err := r.first(ctx, c, "id = "+cmp.Or(now.ID, t.ID)+" AND Status = '__Inactive__'")
	if err != nil {
		return Standing{}, err
	}
	now.Closed = closed != ""
	moves, err := r.history(ctx, c, t, 1, "Status")
	if len(moves) > 0 {
		now.Moved = moves[0].Created
	}
	return now, err
}

// rtTransaction is a part of a ticket's history as Request Tracker shows it.
type rtTransaction struct {
	ID      json.RawMessage
	Data    string // the subject of a comment
	Creator struct{ ID string }
	Created time.Time
}

// history reads transactions of types, newest first: a page of maxComments.
func (r requestTracker) history(ctx context.Context, c *webhook.Conversation, t Ticket, page int, types ...string) ([]rtTransaction, error) {
	var filter []rtTerm
	for _, name := range types {
		filter = append(filter, rtTerm{Field: "Type", Value: name})
	}
	var reply struct{ Items []rtTransaction }
	err := r.list(ctx, c, r.resource("ticket", t.ID, "history"), filter, url.Values{
		"fields": {"Data,Creator,Created"}, "orderby": {"id"}, "order": {"DESC"}, "per_page": {strconv.Itoa(maxComments)}, "page": {strconv.Itoa(page)},
	}, failure.Transient, &reply)
	return reply.Items, err
}

// rtTerm is a term of a filter; those of one field are alternatives.
type rtTerm struct {
	Field    string `json:"field"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value"`
}

// list reads a list of what a filter selects. An answer that cannot be read has the class.
func (r requestTracker) list(ctx context.Context, c *webhook.Conversation, target *url.URL, filter []rtTerm, query url.Values, class failure.Class, reply any) error {
	encoded, err := json.Marshal(filter)
	if err != nil {
		return failure.Unsendable("encode a filter: %w", err)
	}
	query.Set("query", string(encoded))
	target.RawQuery = query.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return err
	}
	return decode(a, class, reply)
}

// comments returns comments and replies. The history has their subjects alone.
func (r requestTracker) comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error) {
	items, err := r.history(ctx, c, t, 1+skip/maxComments, "Comment", "Correspond")
	if err != nil {
		return nil, err
	}
	var all []Comment
	for _, item := range items {
		id := transform.Text(item.ID)
		all = append(all, Comment{ID: id, Author: item.Creator.ID, Text: item.Data, Time: item.Created,
			text: func(ctx context.Context, c *webhook.Conversation) (string, error) { return r.text(ctx, c, id) }})
	}
	return all, nil
}

// text reads the text of a comment: of its first part without a file's name that is plain, or else in
// HTML.
func (r requestTracker) text(ctx context.Context, c *webhook.Conversation, transaction string) (string, error) {
	var reply struct {
		Items []struct{ ContentType, Content string }
	}
	err := r.list(ctx, c, r.resource("transaction", transaction, "attachments"), []rtTerm{
		{Field: "ContentType", Value: "text/plain"}, {Field: "ContentType", Value: "text/html"}, {Field: "Filename", Operator: "IS", Value: "NULL"},
	}, url.Values{"fields": {"ContentType,Content"}, "orderby": {"ContentType", "id"}, "order": {"DESC", "ASC"}, "per_page": {"1"}}, failure.Rejected, &reply)
	switch {
	case err != nil:
		return "", err
	case len(reply.Items) == 0:
		return "", nil
	case reply.Items[0].ContentType == "text/html":
		return textOfHTML(reply.Items[0].Content), nil
	}
	return reply.Items[0].Content, nil
}

var (
	htmlUnseen = regexp.MustCompile(`(?is)<(style|script|head)\b.*?</(style|script|head)>|<!--.*?-->|\s+`)
	htmlBreak  = regexp.MustCompile(`(?i)<br\b[^>]*>|</(p|div|li|tr|h[1-6]|pre|blockquote)>`)
	htmlTag    = regexp.MustCompile(`<[^>]*>`)
)

// textOfHTML returns the text of a part of a message in HTML, line by line.
func textOfHTML(code string) string {
	code = htmlBreak.ReplaceAllString(htmlUnseen.ReplaceAllString(code, " "), "\n")
	var lines []string
	for line := range strings.Lines(htmlTag.ReplaceAllString(code, "")) {
		lines = append(lines, strings.TrimSpace(html.UnescapeString(line)))
	}
	return strings.Join(lines, "\n")
}

func (requestTracker) step(_ context.Context, _ *webhook.Conversation, _ Ticket, to string) (Step, error) {
	return Step{ID: to, Status: to}, nil
}

func (r requestTracker) move(ctx context.Context, c *webhook.Conversation, t Ticket, to Step, fields map[string]string) error {
	set := map[string]any{"Status": to.ID}
	setFields(set, fields)
	shown, said, err := r.write(ctx, c, t, set)
	if err == nil && shown.Status != to.ID {
		err = failure.Errorf(failure.Rejected, "the ticket has status %s, not %s: %s", c.Quote(shown.Status), to.ID, said)
	}
	return err
}

func (r requestTracker) assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error {
	shown, said, err := r.write(ctx, c, t, map[string]any{"Owner": account})
	if err == nil && shown.Owner.ID != account {
		err = failure.Errorf(failure.Rejected, "the ticket is not %s's: %s", account, said)
	}
	return err
}

// write changes fields of a ticket, and reads it: Request Tracker answers 200 to a change that it
// refuses, with the reason.
func (r requestTracker) write(ctx context.Context, c *webhook.Conversation, t Ticket, fields map[string]any) (shown rtTicket, said string, err error) {
	a, err := change(ctx, c, http.MethodPut, r.resource("ticket", t.ID), fields)
	if err == nil {
		shown, err = r.get(ctx, c, t)
	}
	return shown, a.QuoteBody(), err
}

// comment adds a comment, whose subject is the key.
func (r requestTracker) comment(ctx context.Context, c *webhook.Conversation, t Ticket, text string) error {
	_, err := change(ctx, c, http.MethodPost, r.resource("ticket", t.ID, "comment"), map[string]any{
		"Subject": Comment{Text: text}.key(), "Content": text, "ContentType": "text/plain",
	})
	return err
}
