package ticketopener

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// ServiceNowOptions configure the records.
type ServiceNowOptions struct {
	// URL is the instance's URL, such as https://example.service-now.com.
	URL string
	// Table holds the records: incident, or another that extends task.
	Table string
	// Priorities are the values of urgency and impact by severity in lower case. For a
	// severity without one, neither is set.
	Priorities map[string]string
	// Fields are the values of other columns.
	Fields map[string]string
}

// serviceNow inserts records.
type serviceNow struct {
	ServiceNowOptions
	site, table *url.URL
}

// NewServiceNow returns a System that inserts records by the Table API
// (https://www.servicenow.com/docs/r/api-reference/rest-apis/c_TableAPI.html). The error
// names the faulty option.
func NewServiceNow(o ServiceNowOptions) (System, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("servicenow: %w", err)
	}
	return serviceNow{o, site, site.JoinPath("api/now/table", o.Table)}, nil
}

func (serviceNow) secrets() []string { return nil }

// ticketColumns are the columns of a record that are read.
const ticketColumns = "number,sys_id,correlation_id,state"

func (serviceNow) searchable() bool { return true }

func (s serviceNow) find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error) {
	target := *s.table
	target.RawQuery = url.Values{
		"sysparm_query":  {"correlation_id=" + label(e) + "^ORDERBYsys_created_on"},
		"sysparm_fields": {ticketColumns}, "sysparm_limit": {"1"},
	}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: &target})
	if err != nil {
		return Ticket{}, err
	}
	return s.found(e, a)
}

// record is a record of the Table API.
type record struct {
	Number        string `json:"number"`
	SysID         string `json:"sys_id"`
	CorrelationID string `json:"correlation_id"`
	State         string `json:"state"`
}

// found parses the answer to find.
func (s serviceNow) found(e transform.Event, a webhook.Answer) (Ticket, error) {
	if a.Status == http.StatusBadRequest { // the query is the same for all events
		return Ticket{}, a.Error(failure.Halted)
	}
	var reply struct{ Result []record }
	if err := decode(a, failure.Halted, &reply); err != nil {
		return Ticket{}, err
	}
	switch {
	case reply.Result == nil:
		return Ticket{}, failure.Errorf(failure.Halted, "the answer to a query has no result; check url")
	case len(reply.Result) == 0:
		return Ticket{}, nil
	// An instance ignores an unknown term of a query and returns all records.
	case reply.Result[0].CorrelationID != label(e), reply.Result[0].Number == "":
		return Ticket{}, failure.Errorf(failure.Halted, "table %s cannot be queried by correlation_id; check type, and the account's read permissions", s.Table)
	}
	return s.ticket(reply.Result[0]), nil
}

func (s serviceNow) ticket(r record) Ticket {
	page := s.site.JoinPath("nav_to.do")
	page.RawQuery = url.Values{"uri": {s.Table + ".do?sys_id=" + r.SysID}}.Encode()
	return Ticket{ID: r.Number, Key: r.SysID, URL: page.String(), status: r.State}
}

func (s serviceNow) open(e transform.Event) (webhook.Request, error) {
	const maxShort, maxDescription = 160, 4000
	c := card.Of(e)
	columns := map[string]string{
		"short_description":   card.Fit(c.Headline(), maxShort, card.Plain),
		"description":         card.Fit(plainText(c), maxDescription, card.Plain),
		"correlation_id":      label(e),
		"correlation_display": "ndrbridge",
	}
	if priority := s.Priorities[c.Level.String()]; priority != "" {
		columns["urgency"], columns["impact"] = priority, priority
	}
	maps.Copy(columns, marked(s.Fields, "comments", "work_notes"))
	body, err := json.Marshal(columns)
	if err != nil {
		return webhook.Request{}, failure.Unsendable("encode a record: %w", err)
	}
	target := *s.table
	target.RawQuery = url.Values{"sysparm_fields": {ticketColumns}}.Encode()
	return webhook.Request{URL: &target, Body: body}, nil
}

// plainText formats a card as lines of text.
func plainText(c card.Card) string {
	var b strings.Builder
	b.WriteString(c.Note + "\n")
	for _, f := range c.Facts {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	if c.Link != "" {
		b.WriteString(c.Link + "\n")
	}
	return strings.TrimSpace(b.String())
}

func (s serviceNow) opened(a webhook.Answer) (Ticket, error) {
	var reply struct{ Result record }
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Ticket{}, err
	}
	if reply.Result.Number == "" {
		return Ticket{}, failure.Errorf(failure.Transient, "%w", errNoTicket)
	}
	return s.ticket(reply.Result), nil
}
