package ticketopener

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
)

// issueURL returns the address of an issue, or of a resource of it.
func (j jira) issueURL(t Ticket, resource ...string) *url.URL {
	return j.site.JoinPath("rest/api/3/issue", cmp.Or(t.Key, t.ID)).JoinPath(resource...)
}

// jiraTime is the layout of times in answers.
const jiraTime = "2006-01-02T15:04:05.000-0700"

func (j jira) read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error) {
	target := j.issueURL(t)
	target.RawQuery = url.Values{"fields": {"status,assignee"}, "expand": {"changelog"}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return Standing{}, err
	}
	if a.Status == http.StatusNotFound {
		return Standing{}, errLost
	}
	var issue struct {
		ID, Key string
		Fields  struct {
			Status struct {
				Name           string
				StatusCategory struct{ Key string }
			}
			Assignee struct{ AccountID string }
		}
		Changelog struct {
			Histories []struct {
				Created string
				Items   []struct{ FieldID string }
			}
		}
	}
	if err := decode(a, failure.Transient, &issue); err != nil {
		return Standing{}, err
	}
	if issue.Fields.Status.Name == "" {
		return Standing{}, failure.Errorf(failure.Transient, "the issue has no status: %s", a.QuoteBody())
	}
	s := Standing{Status: issue.Fields.Status.Name, Closed: issue.Fields.Status.StatusCategory.Key == "done", Assignee: issue.Fields.Assignee.AccountID}
	if issue.Key != "" {
		s.Ticket = j.ticket(issue.ID, issue.Key)
	}
	for _, h := range issue.Changelog.Histories {
		for _, item := range h.Items {
			if at, err := time.Parse(jiraTime, h.Created); item.FieldID == "status" && err == nil && at.After(s.Moved) {
				s.Moved = at
			}
		}
	}
	return s, nil
}

func (j jira) comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error) {
	target := j.issueURL(t, "comment")
	target.RawQuery = url.Values{"orderBy": {"-created"}, "startAt": {strconv.Itoa(skip)}, "maxResults": {strconv.Itoa(maxComments)}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return nil, err
	}
	if a.Status == http.StatusNotFound {
		return nil, errLost
	}
	var reply struct {
		Comments []struct {
			ID, Created string
			Author      struct{ DisplayName string }
			Body        node
			Visibility  struct{ Type string } // of a comment for a role or a group alone
		}
	}
	if err := decode(a, failure.Transient, &reply); err != nil {
		return nil, err
	}
	var all []Comment
	for _, o := range reply.Comments {
		at, err := time.Parse(jiraTime, o.Created)
		if err != nil {
			return nil, failure.Errorf(failure.Transient, "a comment has no time: %s", a.Quote(o.Created))
		}
		one := Comment{ID: o.ID, Author: o.Author.DisplayName, Time: at}
		if o.Visibility.Type == "" {
			one.Text = strings.TrimSpace(o.Body.lines())
		}
		all = append(all, one)
	}
	return all, nil
}

// lines returns the text of a document.
func (n node) lines() string {
	text := n.Text
	for _, name := range []string{"text", "url"} { // of a mention, an emoji, a date or a card
		if value, ok := n.Attrs[name].(string); ok && text == "" && n.Content == nil {
			text = value
		}
	}
	for _, child := range n.Content {
		text += child.lines()
	}
	switch n.Type {
	case "paragraph", "heading", "codeBlock", "hardBreak", "rule":
		text += "\n"
	}
	return text
}

// transition is a transition that an issue's status has now.
type transition struct {
	ID, Name string
	To       struct{ ID, Name string }
}

// is reports whether the transition is meant by a name: its own, its id, or that of the status.
func (t transition) is(name string) bool {
	return name == t.ID || strings.EqualFold(name, t.Name) || strings.EqualFold(name, t.To.Name)
}

func (t transition) String() string { return t.Name + " (" + t.ID + ", to " + t.To.Name + ")" }

func (j jira) step(ctx context.Context, c *webhook.Conversation, t Ticket, to string) (Step, error) {
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: j.issueURL(t, "transitions")})
	if err != nil {
		return Step{}, err
	}
	var reply struct{ Transitions []transition }
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Step{}, err
	}
	var offered []string
	for _, o := range reply.Transitions {
		if o.is(to) {
			return Step{ID: o.ID, Status: o.To.Name}, nil
		}
		offered = append(offered, o.String())
	}
	return Step{}, failure.Errorf(failure.Rejected, "the issue has no transition %q now; it has %s", to, a.Quote(strings.Join(offered, ", ")))
}

func (j jira) move(ctx context.Context, c *webhook.Conversation, t Ticket, s Step, fields map[string]string) error {
	set := map[string]any{}
	for name, value := range fields {
		set[name] = named{Name: value}
	}
	body := map[string]any{"transition": map[string]string{"id": s.ID}}
	if len(set) > 0 {
		body["fields"] = set
	}
	_, err := change(ctx, c, http.MethodPost, j.issueURL(t, "transitions"), body)
	return err
}

func (j jira) assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error {
	_, err := change(ctx, c, http.MethodPut, j.issueURL(t, "assignee"), map[string]string{"accountId": account})
	return err
}

func (j jira) comment(ctx context.Context, c *webhook.Conversation, t Ticket, lines string) error {
	doc := node{Type: "doc", Version: 1}
	for line := range strings.Lines(lines) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			doc.Content = append(doc.Content, paragraph(text(line)))
		}
	}
	_, err := change(ctx, c, http.MethodPost, j.issueURL(t, "comment"), map[string]node{"body": doc})
	return err
}
