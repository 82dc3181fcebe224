package configs

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticketopener"
)

// Values of TicketOpener.System.
const (
	systemJira       = "jira"
	systemServiceNow = "servicenow"
	systemRT         = "rt"
	systemRedmine    = "redmine"
	systemGeneric    = "generic"
)

// TicketOpener opens a ticket for each detection that matches the sink's match and has no
// ticket yet, and links the detection to it. Later versions of the detection change the ticket
// only with [TicketOpener.Follow]. The account in auth needs the permissions to search and to
// create, and to comment, move and assign what follows. The webhook's url is https://example.atlassian.net, https://example.service-now.com,
// that of the web interface of Request Tracker or Redmine, or the URL that the rendered template is
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
type TicketOpener struct {
	// System is the ticket system: rt is Request Tracker 5, redmine Redmine 5. With generic, [Webhook.Template] renders the requests.
	System string `yaml:"system" required:"true" oneof:"jira,servicenow,rt,redmine,generic"`
	// Link writes the ticket's id to the detection, which requires [Tickets.Enabled].
	Link bool `yaml:"link" default:"true"`
	// SearchDelay is how long it may take until a search finds a new ticket. If the bridge
	// crashes while it opens a ticket, it searches for that ticket for this long before it
	// opens another.
	SearchDelay Duration `yaml:"search_delay" default:"1m" min:"0"`
	// Project is the project's key with jira, its identifier with redmine, and the queue with
	// rt; required with them.
	Project string `yaml:"project" with:"system=jira,rt,redmine" required:"with"`
	// Type is the issue type with jira (absent: Task), the table with servicenow (absent:
	// incident), or the id of the tracker with redmine (absent: the project's first).
	Type string `yaml:"type" with:"system=jira,servicenow,redmine"`
	// Labels are additional labels without blanks, besides the one by which an issue is
	// found again; jira only.
	Labels []string `yaml:"labels" with:"system=jira"`
	// Priorities maps severities (critical, high, medium, low, unknown) to priorities. With
	// jira they are names, and a severity that is left out gets the project's default. With
	// servicenow they are urgency and impact, 1 to 3, by default 1, 1, 2, 3, 3. With rt they are
	// priorities, and with redmine ids of priorities.
	Priorities map[string]string `yaml:"priorities" with:"system=jira,servicenow,rt,redmine"`
	// Fields are additional values: of columns with servicenow, of fields with rt (CF.Site is the
	// custom field Site), of attributes with redmine (cf_3 is the custom field with the id 3).
	Fields map[string]string `yaml:"fields" with:"system=servicenow,rt,redmine"`
	// ID is the path of the ticket's id in the response: names and list indexes joined by
	// dots; required with generic, generic only.
	ID string `yaml:"id" with:"system=generic" required:"with" form:"path"`
	// Page is the path of the ticket's URL in the response; generic only.
	Page string `yaml:"page" with:"system=generic" form:"path"`
	// Lookup finds the ticket of a detection; generic only. Without it, a crash at the
	// wrong moment may open a second ticket.
	Lookup *TicketLookup `yaml:"lookup" with:"system=generic"`
	// Group opens one ticket for many detections.
	Group *TicketGroup `yaml:"group"`
	// Follow lets a ticket follow its detection. With generic, the system must serve the requests
	// that the page about tickets describes, as with [TicketOpener.Group].
	Follow *TicketFollow `yaml:"follow"`
}

// TicketLookup configures the request that asks a generic ticket system for the ticket of
// a detection.
type TicketLookup struct {
	// URL is a template of the URL to get, with the scheme and host of [Webhook.URL].
	URL URL `yaml:"url" required:"true"`
	// ID is the path of the ticket's id in the response.
	ID string `yaml:"id" required:"true" form:"path"`
	// Page is the path of the ticket's URL in the response.
	Page string `yaml:"page" form:"path"`
}

// urgencies are the default values of urgency and impact in ServiceNow, by severity.
var urgencies = map[string]string{"critical": "1", "high": "1", "medium": "2", "low": "3", "unknown": "3"}

// TicketSystem returns the client of the webhook's ticket system. It returns an error if
// the configuration of tickets is invalid. w.Ticket must not be nil.
func (w Webhook) TicketSystem() (ticketopener.System, error) {
	t := w.Ticket
	switch t.System {
	case systemJira:
		return ticketopener.NewJira(ticketopener.JiraOptions{
			URL: w.URL.Value(), Project: t.Project, Type: cmp.Or(t.Type, "Task"), Labels: t.Labels, Priorities: t.Priorities,
		})
	case systemServiceNow:
		priorities := maps.Clone(urgencies)
		maps.Copy(priorities, t.Priorities)
		return ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{
			URL: w.URL.Value(), Table: cmp.Or(t.Type, "incident"), Priorities: priorities, Fields: t.Fields,
		})
	case systemRT:
		return ticketopener.NewRT(ticketopener.RTOptions{URL: w.URL.Value(), Queue: t.Project, Priorities: t.Priorities, Fields: t.Fields})
	case systemRedmine:
		return ticketopener.NewRedmine(ticketopener.RedmineOptions{
			URL: w.URL.Value(), Project: t.Project, Tracker: t.Type, Priorities: t.Priorities, Fields: t.Fields,
		})
	}
	return w.genericTickets()
}

func (w Webhook) genericTickets() (ticketopener.System, error) {
	text, err := w.ReadTemplate()
	if err != nil {
		return nil, err
	}
	body, err := render.Compile(text, w.JSON())
	if err != nil {
		return nil, err
	}
	o := ticketopener.GenericOptions{
		URL: w.URL.Value(), Body: body, MaxBodyBytes: int(w.MaxBodyBytes), Location: ticketopener.Location{ID: w.Ticket.ID, Page: w.Ticket.Page},
	}
	if l := w.Ticket.Lookup; l != nil {
		address, err := render.Compile(l.URL.Value(), false)
		if err != nil {
			return nil, err
		}
		o.Lookup = &ticketopener.Lookup{URL: address, Secrets: secretsOfTemplate(l.URL.Value()), Location: ticketopener.Location{ID: l.ID, Page: l.Page}}
	}
	return ticketopener.NewGeneric(o)
}

// templateAction matches the actions of a template.
var templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// secretsOfTemplate returns the constant parts of the path and of the query values of a
// URL template, each both escaped and unescaped: they may contain keys.
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
	// Shorter parts are unlikely to be secrets, and redacting them would garble messages.
	const shortest = 6
	var secrets []string
	for _, part := range parts {
		for fixed := range strings.SplitSeq(part, "\x00") {
			secrets = append(secrets, fixed)
			if plain, err := url.QueryUnescape(fixed); err == nil && plain != fixed {
				secrets = append(secrets, plain)
			}
		}
	}
	return slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < shortest })
}

// ticketOpener checks the ticket block of a webhook.
func (c checks) ticketOpener(path string, s Sink) {
	w := *s.Webhook
	t := w.Ticket
	at := path + ".ticket"
	if t.Link && !c.config.Tickets.Enabled {
		c.wrong(at+".link", "is true (the default), but tickets.enabled is false, so nothing can be written to appliances; set tickets.enabled to true, or link to false")
	}
	c.openerConflicts(path, w)
	c.ticketFollow(at+".follow", t)
	if s.Mode != "structured" {
		c.wrong(parent(path)+".mode", "%q is not supported with ticket, which uses the system's own protocol; leave it out", s.Mode)
	}
	for _, field := range s.Redact {
		switch {
		case field == "detection" || field == "detection.ticket_id":
			c.wrong(parent(path)+".redact", "removes %s, which the sink needs to recognize detections with a ticket; leave it out", field)
		case t.Group.needs(field):
			c.wrong(parent(path)+".redact", "removes %s, by which ticket.group groups detections; leave it out, or group by something else", field)
		}
	}
	switch t.System {
	case systemJira:
		for i, label := range t.Labels {
			if label == "" || len(label) > 255 || strings.ContainsAny(label, " \t\r\n") {
				c.wrong(item(at+".labels", i), "%q is not a label; write up to 255 characters without blanks", label)
			}
		}
	case systemServiceNow:
		for _, severity := range slices.Sorted(maps.Keys(t.Priorities)) {
			if urgency := t.Priorities[severity]; !slices.Contains([]string{"1", "2", "3"}, urgency) {
				c.wrong(join(at+".priorities", printable(severity)), "is %q; write 1 (high), 2 or 3", urgency)
			}
		}
	case systemRedmine:
		c.redmineID(at+".type", t.Type)
		for _, severity := range slices.Sorted(maps.Keys(t.Priorities)) {
			c.redmineID(join(at+".priorities", printable(severity)), t.Priorities[severity])
		}
	case systemGeneric:
		c.genericOpener(path, w)
	}
	for _, severity := range slices.Sorted(maps.Keys(t.Priorities)) {
		if _, known := urgencies[severity]; !known {
			c.wrong(join(at+".priorities", printable(severity)), "is not a severity; write critical, high, medium, low or unknown")
		}
	}
}

// redmineID reports a value that is not an id, unless it is absent.
func (c checks) redmineID(path, value string) {
	if strings.Trim(value, "0123456789") != "" {
		c.wrong(path, "%q is not an id; write the number that Redmine shows in the address of its page", value)
	}
}

// openerConflicts reports keys of the webhook that are not supported with ticket.
func (c checks) openerConflicts(path string, w Webhook) {
	const why = "is not supported with ticket; leave it out"
	generic := w.Ticket.System == systemGeneric
	switch {
	case w.Preset != "":
		c.wrong(path+".preset", why)
	case w.Sign.IsSet():
		c.wrong(path+".sign", why)
	case w.Expect != nil:
		c.wrong(path+".expect", why)
	}
	if !generic && w.Method != "POST" {
		c.wrong(path+".method", "%q is not supported with ticket, which supports POST", w.Method)
	}
	if !generic && w.HasTemplate() {
		c.wrong(path+".template", "sets the body, and so does ticket.system %s; leave it out, or write generic", w.Ticket.System)
	}
}

func (c checks) genericOpener(path string, w Webhook) {
	if !w.HasTemplate() {
		c.wrong(path+".template", "is missing; ticket.system generic requires it, or template_file, to render the body")
	}
	l := w.Ticket.Lookup
	if l == nil || l.URL.Value() == "" {
		return // reported as missing
	}
	if _, err := render.Compile(l.URL.Value(), false); err != nil {
		c.wrong(path+".ticket.lookup.url", "%v", err)
	}
}
