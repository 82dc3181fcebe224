package configs

import (
	"maps"
	"net/url"
	"regexp"
	"strings"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticket"
)

// The ticket systems that a webhook opens tickets in.
const (
	TicketJira       = "jira"
	TicketServiceNow = "servicenow"
	TicketGeneric    = "generic"
)

// WebhookTicket has the webhook open a ticket for each detection that the sink's match
// wants and that has none, and link the detection with it. Later versions do nothing.
// The account of auth needs no more than to search and to create. The URL is
// https://example.atlassian.net, https://example.service-now.com, or what a template is
// posted to.
//
//	sinks:
//	  - name: tickets
//	    webhook:
//	      url: https://corp.atlassian.net
//	      auth: {username: bridge@corp.example, password_file: /run/secrets/jira-token}
//	      ticket: {system: jira, project: SEC, priorities: {critical: Highest, high: High}}
//	    match: detection.risk_score >= 80
//	tickets: {enabled: true}
type WebhookTicket struct {
	// System is the ticket system whose words are spoken; generic: those of
	// [Webhook.Template].
	System string `yaml:"system" env:"SYSTEM" required:"true" oneof:"jira,servicenow,generic"`
	// Link has the detection linked with the ticket, which needs [Tickets.Enabled].
	Link bool `yaml:"link" env:"LINK" default:"true"`
	// SearchDelay is how long a ticket that was opened may not be found by a search. After
	// a crash at the wrong moment it is looked for so long before another is opened.
	SearchDelay Duration `yaml:"search_delay" env:"SEARCH_DELAY" default:"1m" min:"0"`
	// Project is the key of the project; required with jira, which alone has it.
	Project string `yaml:"project" env:"PROJECT"`
	// Type is the type with jira (Task where it is absent), the table with
	// servicenow (incident).
	Type string `yaml:"type" env:"TYPE"`
	// Labels are labels beside the one by which an issue is found again, without blanks;
	// with jira alone.
	Labels []string `yaml:"labels" env:"LABELS"`
	// Priorities are the names of priorities by severity (critical, high, medium, low,
	// info) with jira, where those left out are the project's own default; with servicenow
	// urgency and impact, 1 to 3, where they are 1, 1, 2, 3, 3.
	Priorities Table `yaml:"priorities" env:"PRIORITIES"`
	// Fields are the values of other columns; with servicenow alone.
	Fields Table `yaml:"fields" env:"FIELDS"`
	// ID says where the answer has the ticket's id: names, and indexes of lists, joined by
	// dots; required with generic, which alone has it.
	ID string `yaml:"id" env:"ID"`
	// Page says where the answer has the ticket's URL; with generic alone.
	Page string `yaml:"page" env:"PAGE"`
	// Lookup finds the ticket of a detection; with generic alone, where without it a crash
	// at the wrong moment may open a second one.
	Lookup *TicketLookup `yaml:"lookup" envPrefix:"LOOKUP_"`
}

// TicketLookup asks a system of generic for a detection's ticket.
type TicketLookup struct {
	// URL is a template of the address that is asked by GET, with the scheme and host of
	// [Webhook.URL].
	URL URL `yaml:"url" env:"URL" required:"true"`
	// ID says where the answer has the ticket's id.
	ID string `yaml:"id" env:"ID" required:"true"`
	// Page says where the answer has the ticket's URL.
	Page string `yaml:"page" env:"PAGE"`
}

// urgencies are ServiceNow's, by severity.
var urgencies = map[string]string{"critical": "1", "high": "1", "medium": "2", "low": "3", "info": "3"}

// TicketSystem returns what speaks to the webhook's ticket system. The error says
// what is wrong; w.Ticket is not nil.
func (w Webhook) TicketSystem() (ticket.System, error) {
	t := w.Ticket
	switch t.System {
	case TicketJira:
		return systemOr(ticket.NewJira(ticket.JiraOptions{
			URL: w.URL.Value(), Project: t.Project, Type: orElse(t.Type, "Task"), Labels: t.Labels, Priorities: t.Priorities,
		}))
	case TicketServiceNow:
		priorities := maps.Clone(urgencies)
		maps.Copy(priorities, t.Priorities)
		return systemOr(ticket.NewServiceNow(ticket.ServiceNowOptions{
			URL: w.URL.Value(), Table: orElse(t.Type, "incident"), Priorities: priorities, Fields: t.Fields,
		}))
	}
	return w.genericTickets()
}

func (w Webhook) genericTickets() (ticket.System, error) {
	text, err := w.ReadTemplate()
	if err != nil {
		return nil, err
	}
	body, err := render.Compile(text, w.JSON())
	if err != nil {
		return nil, err
	}
	o := ticket.GenericOptions{
		URL: w.URL.Value(), Body: body, MaxBodyBytes: int(w.MaxBodyBytes), Location: ticket.Location{ID: w.Ticket.ID, Page: w.Ticket.Page},
	}
	if l := w.Ticket.Lookup; l != nil {
		address, err := render.Compile(l.URL.Value(), false)
		if err != nil {
			return nil, err
		}
		o.Lookup = &ticket.Lookup{URL: address, Secrets: secretsOfTemplate(l.URL.Value()), Location: ticket.Location{ID: l.ID, Page: l.Page}}
	}
	return systemOr(ticket.NewGeneric(o))
}

// systemOr is a system, or nil beside an error, which a nil pointer would not be.
func systemOr[S ticket.System](system S, err error) (ticket.System, error) {
	if err != nil {
		return nil, err
	}
	return system, nil
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// templateAction is what a template puts in.
var templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// secretsOfTemplate are the parts of the path and the values of the query of a URL's
// template, as far as they are the same for all events, each as it is written and as it
// is: keys are written there.
func secretsOfTemplate(text string) []string {
	text = templateAction.ReplaceAllString(strings.TrimSpace(text), "\x00")
	_, text, _ = strings.Cut(text, "://")
	_, text, _ = strings.Cut(text, "/")
	path, query, _ := strings.Cut(text, "?")
	parts := strings.Split(path, "/")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == '#' || r == ';' }) {
		_, value, _ := strings.Cut(pair, "=")
		parts = append(parts, value)
	}
	// What is shorter is no secret, and would tear holes into texts.
	const shortest = 6
	var secrets []string
	for _, part := range parts {
		for fixed := range strings.SplitSeq(part, "\x00") {
			plain, err := url.QueryUnescape(fixed)
			if len(fixed) >= shortest {
				secrets = append(secrets, fixed)
			}
			if err == nil && plain != fixed && len(plain) >= shortest {
				secrets = append(secrets, plain)
			}
		}
	}
	return secrets
}
