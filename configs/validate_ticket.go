package configs

import (
	"maps"
	"slices"
	"strings"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticket"
)

// ticketKeys are the keys of each system, beside those that all have.
var ticketKeys = map[string][]string{
	TicketJira:       {"project", "type", "labels", "priorities"},
	TicketServiceNow: {"type", "priorities", "fields"},
	TicketGeneric:    {"id", "page", "lookup"},
}

// ticket checks how a webhook opens tickets.
func (c checks) ticket(path string, s Sink, writes bool) {
	w := *s.Webhook
	t := w.Ticket
	if t == nil {
		return
	}
	at := path + ".ticket"
	if t.Link && !writes {
		c.wrong(at+".link", "is true, as it is by default, and tickets.enabled is not, without which nothing is written to appliances; set tickets.enabled to true, or this to false")
	}
	c.ticketConflicts(path, w)
	if s.Mode != "structured" {
		c.wrong(parent(path)+".mode", "%q does not fit ticket, which speaks the system's own protocol; leave it out", s.Mode)
	}
	for _, field := range s.Redact {
		if field == "detection" || field == "detection.ticket_id" {
			c.wrong(parent(path)+".redact", "takes %s away, by which the sink knows detections that have a ticket; leave it out", field)
		}
	}
	allowed, known := ticketKeys[t.System]
	if !known {
		return // which was told
	}
	c.ticketOnly(at, *t, allowed)
	switch t.System {
	case TicketJira:
		c.present(at+".project", t.Project)
		for i, label := range t.Labels {
			if label == "" || len(label) > 255 || strings.ContainsAny(label, " \t\r\n") {
				c.wrong(item(at+".labels", i), "%q is no label; write up to 255 characters without blanks", label)
			}
		}
	case TicketServiceNow:
		for _, severity := range slices.Sorted(maps.Keys(t.Priorities)) {
			if urgency := t.Priorities[severity]; !slices.Contains([]string{"1", "2", "3"}, urgency) {
				c.wrong(join(at+".priorities", printable(severity)), "is %q; write 1 (high), 2 or 3", urgency)
			}
		}
	case TicketGeneric:
		c.genericTicket(path, w)
	}
	for _, severity := range slices.Sorted(maps.Keys(t.Priorities)) {
		if _, known := urgencies[severity]; !known {
			c.wrong(join(at+".priorities", printable(severity)), "is no severity; write critical, high, medium, low or info")
		}
	}
}

// ticketConflicts refuses keys of the webhook that ticket leaves no choice about.
func (c checks) ticketConflicts(path string, w Webhook) {
	const why = "does not go with ticket; leave it out"
	generic := w.Ticket.System == TicketGeneric
	switch {
	case w.Preset != "":
		c.wrong(path+".preset", why)
	case w.Sign.IsSet():
		c.wrong(path+".sign", why)
	case w.Handshake != nil:
		c.wrong(path+".handshake", why)
	}
	if !generic && w.Method != "POST" {
		c.wrong(path+".method", "%q does not fit ticket, which takes POST", w.Method)
	}
	if !generic && w.HasTemplate() {
		c.wrong(path+".template", "makes the body, and so does ticket.system %s; leave it out, or write generic", w.Ticket.System)
	}
}

// ticketOnly refuses keys that the system has no use for.
func (c checks) ticketOnly(at string, t WebhookTicket, allowed []string) {
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"project", t.Project != ""},
		{"type", t.Type != ""},
		{"labels", len(t.Labels) > 0},
		{"priorities", len(t.Priorities) > 0},
		{"fields", len(t.Fields) > 0},
		{"id", t.ID != ""},
		{"page", t.Page != ""},
		{"lookup", t.Lookup != nil},
	} {
		if key.set && !slices.Contains(allowed, key.name) {
			c.wrong(at+"."+key.name, "does not fit system %s, which takes %s; leave it out", t.System, strings.Join(allowed, ", "))
		}
	}
}

func (c checks) genericTicket(path string, w Webhook) {
	if !w.HasTemplate() {
		c.wrong(path+".template", "is missing; ticket.system generic needs it, or template_file, to make the body")
	}
	at := path + ".ticket"
	c.ticketPath(at+".id", w.Ticket.ID, true)
	c.ticketPath(at+".page", w.Ticket.Page, false)
	l := w.Ticket.Lookup
	if l == nil {
		return
	}
	c.ticketPath(at+".lookup.id", l.ID, false)
	c.ticketPath(at+".lookup.page", l.Page, false)
	if l.URL.Value() == "" {
		return // which was told
	}
	if _, err := render.Compile(l.URL.Value(), false); err != nil {
		c.wrong(at+".lookup.url", "%v", err)
	}
}

func (c checks) ticketPath(at, path string, required bool) {
	if path == "" {
		if required {
			c.missing(at)
		}
		return
	}
	if err := ticket.CheckPath(path); err != nil {
		c.wrong(at, "%v", err)
	}
}
