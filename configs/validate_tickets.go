package configs

import (
	"regexp"

	"ndrbridge/tickets/webhookintake"
)

// subjectFilter matches a subject that may contain wildcards.
var subjectFilter = regexp.MustCompile(`^([^\s.*>{}]+|\*)(\.([^\s.*>{}]+|\*))*(\.>)?$`)

func (c checks) tickets(t Tickets, admin Admin) {
	c.ticketNATS("tickets.nats", t.NATS)
	c.ticketKafka("tickets.kafka", t.Kafka)
	before := map[string]string{"jira": "tickets.webhooks.jira", "servicenow": "tickets.webhooks.servicenow"}
	for i, g := range t.Webhooks.Generic {
		c.name(item("tickets.webhooks.generic", i)+".name", g.Name, before)
	}
	for _, s := range t.Webhooks.each() {
		c.ticketWebhook("tickets.webhooks."+s.path, s, admin)
	}
}

func (c checks) ticketNATS(path string, n TicketNATS) {
	if n.URL.Value() == "" {
		if n.Stream != "" || n.Connection() != (NATS{}) {
			c.missing(path + ".url")
		}
		return
	}
	c.natsConnection(path, n.Connection())
	switch {
	case n.Stream == "":
		c.missing(path + ".stream")
	case !streamName.MatchString(n.Stream):
		c.wrong(path+".stream", "%q is not a stream name; leave out blanks and . * > / \\", n.Stream)
	}
	if !subjectFilter.MatchString(n.Subject) {
		c.wrong(path+".subject", "%q is not a valid subject; write words separated by dots, * for any one word, > for all that follow", n.Subject)
	}
	if !streamName.MatchString(n.Durable) {
		c.wrong(path+".durable", "%q is not a consumer name; leave out blanks and . * > / \\", n.Durable)
	}
}

func (c checks) ticketKafka(path string, k TicketKafka) {
	if len(k.Brokers) == 0 {
		if k.TLS != nil || k.SASL != (SASL{}) {
			c.missing(path + ".brokers")
		}
		return
	}
	c.kafkaConnection(path, k.Connection())
	if !topicPattern.MatchString(k.Topic) || k.Topic == "." || k.Topic == ".." {
		c.wrong(path+".topic", "%q is not a topic name; write letters, digits, dots, - and _", k.Topic)
	}
	c.present(path+".group", k.Group)
}

func (c checks) ticketWebhook(path string, s ticketSystem, admin Admin) {
	basic := s.method() == webhookintake.MethodBasic
	switch {
	case !s.Secret.IsSet() && !c.failedSecret(path+".secret") && !admin.Token.IsSet():
		c.wrong(path+".secret_file", "is missing, and so is admin.token_file; set one of them, otherwise anyone could close detections")
	case !s.Secret.IsSet() && (s.Verify != "" || s.Header != "" || s.Username != ""):
		c.wrong(path+".secret_file", "is missing; without it, requests cannot be verified")
	case basic && s.Username == "":
		c.missing(path + ".username")
	case !basic && s.Username != "":
		c.wrong(path+".username", "requires verify: basic; remove it, or set verify")
	}
	if s.Header != "" {
		switch {
		case basic:
			c.wrong(path+".header", "cannot be combined with verify: basic, which uses Authorization; remove it")
		case !headerName.MatchString(s.Header):
			c.wrong(path+".header", "%q is not the name of a header", s.Header)
		}
	}
	if _, err := s.receiver(); err != nil {
		c.wrong(path+".map", "%v", err)
	}
}
