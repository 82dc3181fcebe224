package ticket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/transform"
)

// Location is where an answer names a ticket: names of members and indexes of lists with
// dots between them, such as result.0.number.
type Location struct {
	ID   string
	Page string // its URL; empty: nowhere
}

// Lookup asks a system for a detection's ticket.
type Lookup struct {
	// URL makes the address that is read by GET, of the webhook's scheme and host. An
	// answer of 404, and one without an id, say that there is no ticket.
	URL *render.Template
	// Secrets are parts of URL that no text may show.
	Secrets []string
	Location
}

// GenericOptions say how a system is spoken to.
type GenericOptions struct {
	// URL is that of the webhook.
	URL string
	// Body makes the body of the request that opens a ticket.
	Body *render.Template
	// MaxBodyBytes is how large it may be.
	MaxBodyBytes int
	Location     // in the answer to it
	// Lookup is nil where the system cannot be asked. A ticket may be opened twice
	// then, where its answer is lost.
	Lookup *Lookup
}

// Generic is any system that opens a ticket by one request, whose answer is JSON.
type Generic struct {
	o    GenericOptions
	site *url.URL
}

var _ System = (*Generic)(nil)

// NewGeneric returns a Generic. The error tells the option that is wrong.
func NewGeneric(o GenericOptions) (*Generic, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("generic: %w", err)
	}
	return &Generic{o, site}, nil
}

// secrets implements withSecrets.
func (g *Generic) secrets() []string {
	if g.o.Lookup == nil {
		return nil
	}
	return g.o.Lookup.Secrets
}

func (g *Generic) find(e transform.Event) (*webhook.Request, error) {
	if g.o.Lookup == nil {
		return nil, nil
	}
	const maxURL = 8 << 10
	text, err := g.o.Lookup.URL.Render(e, maxURL)
	if err != nil {
		return nil, sinks.Unsendable("lookup: %w", err)
	}
	to, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil { // for this event's texts; the error would quote them
		return nil, sinks.Unsendable("lookup.url does not make a URL of this event; write its texts by urlquery")
	}
	// Credentials go with it: nowhere but where they go anyway.
	if to.Scheme != g.site.Scheme || to.Host != g.site.Host {
		return nil, sinks.Errorf(sinks.Halted, "lookup.url does not make a URL with the scheme and host of url")
	}
	return &webhook.Request{Method: http.MethodGet, URL: to}, nil
}

func (g *Generic) found(_ transform.Event, a webhook.Answer) (Ticket, bool, error) {
	switch a.Status {
	case http.StatusNotFound:
		return Ticket{}, false, nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Ticket{}, false, a.Error(sinks.Halted)
	}
	t, err := g.o.Lookup.read(a, sinks.Halted)
	return t, t.ID != "", err
}

func (g *Generic) open(e transform.Event) (webhook.Request, error) {
	body, err := g.o.Body.Render(e, g.o.MaxBodyBytes)
	if err != nil {
		return webhook.Request{}, sinks.Unsendable("template: %w", err)
	}
	return webhook.Request{Body: body}, nil
}

func (g *Generic) opened(a webhook.Answer) (Ticket, error) {
	t, err := g.o.read(a, sinks.Transient)
	if err == nil && t.ID == "" {
		err = sinks.Errorf(sinks.Transient, "%w at %s", errNoTicket, g.o.ID)
	}
	return t, err
}

// read reads a ticket; one without an id is none.
func (p Location) read(a webhook.Answer, class sinks.Class) (Ticket, error) {
	var body json.RawMessage
	if err := decode(a, class, &body); err != nil {
		return Ticket{}, err
	}
	return Ticket{ID: transform.Text(at(body, p.ID)), URL: transform.Text(at(body, p.Page))}, nil
}

// at returns what a path leads to in valid JSON; nil: nothing.
func at(value []byte, path string) []byte {
	if path == "" {
		return nil
	}
	for step := range strings.SplitSeq(path, ".") {
		value = below(bytes.TrimSpace(value), step)
	}
	return value
}

// below returns a member of an object, or an element of a list.
func below(value []byte, step string) []byte {
	if bytes.HasPrefix(value, []byte("[")) {
		index, err := strconv.Atoi(step)
		if err != nil {
			return nil
		}
		for element := range transform.Elements(value) {
			if index == 0 {
				return element
			}
			index--
		}
		return nil
	}
	for name, member := range transform.Fields(value) {
		if string(name) == step {
			return member
		}
	}
	return nil
}

// CheckPath says what is wrong with a path of Place.
func CheckPath(path string) error {
	for step := range strings.SplitSeq(path, ".") {
		if step == "" {
			return fmt.Errorf("%q is no path: write names and indexes with dots between them, such as result.0.number", path)
		}
	}
	return nil
}
