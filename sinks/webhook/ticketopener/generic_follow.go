package ticketopener

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
)

// A ticket of another system follows by three requests below the webhook's URL: GET /ID?comment=KEY,
// PATCH /ID, and POST /ID/comments.

// ticketURL returns the address of a ticket, or of a resource of it.
func (g generic) ticketURL(t Ticket, resource ...string) *url.URL {
	return g.site.JoinPath(url.PathEscape(t.ID)).JoinPath(resource...)
}

func (g generic) read(ctx context.Context, c *webhook.Conversation, t Ticket, key string) (Standing, error) {
	target := g.ticketURL(t)
	target.RawQuery = url.Values{"comment": {key}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return Standing{}, err
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusGone {
		return Standing{}, errLost
	}
	var reply struct {
		Status    string
		Closed    bool
		Assignee  string
		Moved     time.Time
		Commented bool
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return Standing{}, err
	}
	if reply.Status == "" {
		return Standing{}, failure.Errorf(failure.Halted, "the ticket has no status: %s", a.QuoteBody())
	}
	return Standing{Status: reply.Status, Closed: reply.Closed, Assignee: reply.Assignee, Moved: reply.Moved, Commented: reply.Commented}, nil
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
	_, err := change(ctx, c, http.MethodPost, g.ticketURL(t, "comments"), map[string]string{"key": keyOf(text), "text": text})
	return err
}
