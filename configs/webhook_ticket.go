package configs

import (
	"maps"

	"ndrbridge/sinks/webhook/ticket"
	"ndrbridge/transform/render"
)

// The ticket systems that a webhook opens tickets in.
const (
	TicketJira       = "jira"
	TicketServiceNow = "servicenow"
	TicketGeneric    = "generic"
)

// WebhookTicket has a webhook open a ticket for each detection that has none, and
// link the detection with it.
type WebhookTicket struct {
	// System is whose words are spoken; generic: those of Webhook.Template.
	System string `yaml:"system" env:"SYSTEM" oneof:"jira,servicenow,generic"`
	// Link has the detection linked with the ticket, which needs Tickets.Enabled.
	Link bool `yaml:"link" env:"LINK" default:"true"`
	// SearchDelay is how long a ticket that was opened may not be found by a search; at
	// least 0.
	SearchDelay Duration `yaml:"search_delay" env:"SEARCH_DELAY" default:"1m"`
	// Project is the key of the project, of jira.
	Project string `yaml:"project" env:"PROJECT"`
	// Type is the type, of jira; empty: Task. Of servicenow it is the table;
	// empty: incident.
	Type string `yaml:"type" env:"TYPE"`
	// Labels are those of jira beside ours; without blanks.
	Labels []string `yaml:"labels" env:"LABELS"`
	// Priorities are priorities of jira, or the urgency and impact of servicenow, by
	// severity: critical, high, medium, low, info. Those that are absent are the
	// project's own default, and built in.
	Priorities Table `yaml:"priorities" env:"PRIORITIES"`
	// Fields are the values of other columns, of servicenow.
	Fields Table `yaml:"fields" env:"FIELDS"`
	// ID and Page say where the answer has the ticket's id and its URL, of generic.
	ID   string `yaml:"id" env:"ID"`
	Page string `yaml:"page" env:"PAGE"`
	// Lookup is nil where a system of generic cannot be asked for a ticket.
	Lookup *TicketLookup `yaml:"lookup" envPrefix:"LOOKUP_"`
}

// TicketLookup asks a system of generic for a detection's ticket.
type TicketLookup struct {
	// URL is a template of an address with the scheme and host of Webhook.URL.
	URL string `yaml:"url" env:"URL"`
	// ID and Page say where the answer has the ticket's id and its URL.
	ID   string `yaml:"id" env:"ID"`
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
		URL: w.URL.Value(), Body: body, MaxBodyBytes: int(w.MaxBodyBytes), Place: ticket.Place{ID: w.Ticket.ID, Page: w.Ticket.Page},
	}
	if l := w.Ticket.Lookup; l != nil {
		address, err := render.Compile(l.URL, false)
		if err != nil {
			return nil, err
		}
		o.Lookup = &ticket.Lookup{URL: address, Place: ticket.Place{ID: l.ID, Page: l.Page}}
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
