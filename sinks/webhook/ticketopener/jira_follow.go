package ticketopener

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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

func (j jira) read(ctx context.Context, c *webhook.Conversation, t Ticket, key string) (Standing, error) {
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
	if key != "" {
		s.Commented, err = j.commented(ctx, c, t, key)
	}
	return s, err
}

// commented reports whether one of the newest comments has a key.
func (j jira) commented(ctx context.Context, c *webhook.Conversation, t Ticket, key string) (bool, error) {
	target := j.issueURL(t, "comment")
	target.RawQuery = url.Values{"orderBy": {"-created"}, "maxResults": {"100"}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return false, err
	}
	var reply struct {
		Comments []struct{ Body json.RawMessage }
	}
	if err := decode(a, failure.Transient, &reply); err != nil {
		return false, err
	}
	quoted, err := json.Marshal(key)
	for _, comment := range reply.Comments {
		if bytes.Contains(comment.Body, quoted) {
			return true, nil
		}
	}
	return false, err
}

// transition is a transition that an issue's status has now.
type transition struct {
	ID, Name string
	To       struct{ ID, Name string }
}

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
		if to == o.ID || strings.EqualFold(to, o.Name) || strings.EqualFold(to, o.To.Name) {
			return Step{ID: o.ID, Status: o.To.Name}, nil
		}
		offered = append(offered, o.Name+" ("+o.ID+", to "+o.To.Name+")")
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
