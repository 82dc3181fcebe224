package configs

import (
	"maps"
	"slices"
	"strings"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticketopener"
)

// ticketKeys lists the keys of each system in addition to those that all systems have.
var ticketKeys = map[string][]string{
	TicketJira:       {"project", "type", "labels", "priorities"},
	TicketServiceNow: {"type", "priorities", "fields"},
	TicketGeneric:    {"id", "page", "lookup"},
}

// ticket checks the ticket block of a webhook. writes is tickets.enabled.
func (c checks) ticket(path string, s Sink, writes bool) {
	w := *s.Webhook
	t := w.Ticket
	if t == nil {
		return
	}
	at := path + ".ticket"
	if t.Link && !writes {
		c.wrong(at+".link", "is true (the default), but tickets.enabled is false, so nothing can be written to appliances; set tickets.enabled to true, or link to false")
	}
	c.ticketConflicts(path, w)
	if s.Mode != "structured" {
		c.wrong(parent(path)+".mode", "%q is not supported with ticket, which uses the system's own protocol; leave it out", s.Mode)
	}
	for _, field := range s.Redact {
		if field == "detection" || field == "detection.ticket_id" {
			c.wrong(parent(path)+".redact", "removes %s, which the sink needs to recognize detections with a ticket; leave it out", field)
		}
	}
	allowed, known := ticketKeys[t.System]
	if !known {
		return // reported by the oneof tag
	}
	c.ticketOnly(at, *t, allowed)
	switch t.System {
	case TicketJira:
		c.present(at+".project", t.Project)
		for i, label := range t.Labels {
			if label == "" || len(label) > 255 || strings.ContainsAny(label, " \t\r\n") {
				c.wrong(item(at+".labels", i), "%q is not a label; write up to 255 characters without blanks", label)
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
			c.wrong(join(at+".priorities", printable(severity)), "is not a severity; write critical, high, medium, low or unknown")
		}
	}
}

// ticketConflicts reports keys of the webhook that are not supported with ticket.
func (c checks) ticketConflicts(path string, w Webhook) {
	const why = "is not supported with ticket; leave it out"
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
		c.wrong(path+".method", "%q is not supported with ticket, which supports POST", w.Method)
	}
	if !generic && w.HasTemplate() {
		c.wrong(path+".template", "sets the body, and so does ticket.system %s; leave it out, or write generic", w.Ticket.System)
	}
}

// ticketOnly reports keys that the system does not support.
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
			c.wrong(at+"."+key.name, "is not supported by system %s, which supports %s; leave it out", t.System, strings.Join(allowed, ", "))
		}
	}
}

func (c checks) genericTicket(path string, w Webhook) {
	if !w.HasTemplate() {
		c.wrong(path+".template", "is missing; ticket.system generic requires it, or template_file, to render the body")
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
		return // reported as missing
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
	if err := ticketopener.CheckPath(path); err != nil {
		c.wrong(at, "%v", err)
	}
}
