package ticketopener

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/transform"
)

// Location is where an answer contains a ticket: names of members and indexes of lists,
// joined by dots, such as result.0.number.
type Location struct {
	ID   string
	Page string // the ticket's URL; empty if the answer has none
}

// Lookup queries a system for a detection's ticket.
type Lookup struct {
	// URL renders the address for a GET request; it must have the webhook's scheme and
	// host. An answer of 404 or without an id means that there is no ticket.
	URL *render.Template
	// Secrets are parts of URL that must be redacted.
	Secrets []string
	Location
}

// GenericOptions configure a Generic.
type GenericOptions struct {
	// URL is the webhook's URL.
	URL string
	// Body renders the request that opens a ticket.
	Body *render.Template
	// MaxBodyBytes limits the rendered body.
	MaxBodyBytes int
	Location     // of the ticket in the answer
	// Lookup is nil if the system cannot be queried. A ticket may then be opened twice
	// if an answer is lost.
	Lookup *Lookup
}

// generic is any system that opens a ticket by one request with a JSON answer.
type generic struct {
	GenericOptions
	site *url.URL
}

// NewGeneric returns a System that opens a ticket by one request with a JSON answer. The
// error names the faulty option.
func NewGeneric(o GenericOptions) (System, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("generic: %w", err)
	}
	return generic{o, site}, nil
}

func (g generic) secrets() []string {
	if g.Lookup == nil {
		return nil
	}
	return g.Lookup.Secrets
}

func (g generic) searchable() bool { return g.Lookup != nil }

func (g generic) find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error) {
	const maxURL = 8 << 10
	text, err := g.Lookup.URL.Render(e, maxURL)
	if err != nil {
		return Ticket{}, failure.Unsendable("lookup: %w", err)
	}
	target, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil { // not wrapped: it would quote the event's texts
		return Ticket{}, failure.Unsendable("lookup.url does not render to a URL for this event; write its texts with urlquery")
	}
	// The request has the webhook's credentials: allow no other host.
	if target.Scheme != g.site.Scheme || target.Host != g.site.Host {
		return Ticket{}, failure.Errorf(failure.Halted, "lookup.url does not render to a URL with the scheme and host of url")
	}
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return Ticket{}, err
	}
	return g.found(a)
}

// found parses the answer to find.
func (g generic) found(a webhook.Answer) (Ticket, error) {
	switch a.Status {
	case http.StatusNotFound:
		return Ticket{}, nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Ticket{}, a.Error(failure.Halted)
	}
	return g.Lookup.read(a, failure.Halted)
}

func (g generic) open(e transform.Event) (webhook.Request, error) {
	body, err := g.Body.Render(e, g.MaxBodyBytes)
	if err != nil {
		return webhook.Request{}, failure.Unsendable("template: %w", err)
	}
	return webhook.Request{Body: body}, nil
}

func (g generic) opened(a webhook.Answer) (Ticket, error) {
	t, err := g.Location.read(a, failure.Transient)
	if err == nil && t.ID == "" {
		err = failure.Errorf(failure.Transient, "%w at %s", errNoTicket, g.ID)
	}
	return t, err
}

// read extracts a ticket from an answer; its ID is empty if there is none.
func (p Location) read(a webhook.Answer, class failure.Class) (Ticket, error) {
	var body json.RawMessage
	if err := decode(a, class, &body); err != nil {
		return Ticket{}, err
	}
	return Ticket{ID: transform.Text(jsonscan.At(body, p.ID)), URL: transform.Text(jsonscan.At(body, p.Page))}, nil
}
