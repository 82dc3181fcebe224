package ticketopener

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// A ticket of another system follows by four requests below the webhook's URL: GET and PATCH /ID, and
// GET and POST /ID/comments.

// ticketURL returns the address of a ticket, or of a resource of it.
func (g generic) ticketURL(t Ticket, resource ...string) *url.URL {
	return g.site.JoinPath(url.PathEscape(t.ID)).JoinPath(resource...)
}

func (g generic) read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error) {
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: g.ticketURL(t)})
	if err != nil {
		return Standing{}, err
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusGone {
		return Standing{}, errLost
	}
	var reply struct {
		Status   string
		Closed   bool
		Assignee string
		Moved    time.Time
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return Standing{}, err
	}
	if reply.Status == "" {
		return Standing{}, failure.Errorf(failure.Halted, "the ticket has no status: %s", a.QuoteBody())
	}
	return Standing{Status: reply.Status, Closed: reply.Closed, Assignee: reply.Assignee, Moved: reply.Moved}, nil
}

func (generic) step(_ context.Context, _ *webhook.Conversation, _ Ticket, to string) (Step, error) {
	return Step{ID: to, Status: to}, nil
}

func (g generic) move(ctx context.Context, c *webhook.Conversation, t Ticket, s Step, fields map[string]string) error {
	body := map[string]string{"status": s.ID}
	maps.Copy(body, fields)
	_, err := change(ctx, c, http.MethodPatch, g.ticketURL(t), body)
	return err
}

func (g generic) assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error {
	_, err := change(ctx, c, http.MethodPatch, g.ticketURL(t), map[string]string{"assignee": account})
	return err
}

func (g generic) comment(ctx context.Context, c *webhook.Conversation, t Ticket, text string) error {
	_, err := change(ctx, c, http.MethodPost, g.ticketURL(t, "comments"), map[string]string{"text": text})
	return err
}

func (g generic) comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error) {
	target := g.ticketURL(t, "comments")
	target.RawQuery = url.Values{"skip": {strconv.Itoa(skip)}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return nil, err
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusGone {
		return nil, errLost
	}
	var reply struct {
		Comments []struct {
			ID           json.RawMessage
			Author, Text string
			Time         time.Time
		}
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return nil, err
	}
	var all []Comment
	for _, o := range reply.Comments {
		id := transform.Text(o.ID)
		if id == "" || o.Time.IsZero() {
			return nil, failure.Errorf(failure.Halted, "a comment has no id or no time: %s", a.QuoteBody())
		}
		all = append(all, Comment{ID: id, Author: o.Author, Text: o.Text, Time: o.Time})
	}
	return all, nil
}
