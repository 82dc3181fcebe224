package configs

import (
	"regexp"

	"ndrbridge/tickets/webhooks"
)

// subjectFilter is a subject that may have wildcards.
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
		c.wrong(path+".stream", "%q is no stream; leave out blanks and . * > / \\", n.Stream)
	}
	if !subjectFilter.MatchString(n.Subject) {
		c.wrong(path+".subject", "%q is no subject; write words with dots between them, * for one that is any, > for all that follow", n.Subject)
	}
	if !streamName.MatchString(n.Durable) {
		c.wrong(path+".durable", "%q is no consumer's name; leave out blanks and . * > / \\", n.Durable)
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
		c.wrong(path+".topic", "%q is no topic; write letters, digits, dots, - and _", k.Topic)
	}
	c.present(path+".group", k.Group)
}

func (c checks) ticketWebhook(path string, s ticketSystem, admin Admin) {
	basic := s.method() == webhooks.MethodBasic
	switch {
	case !s.Secret.IsSet() && !c.failedSecret(path+".secret") && !admin.Token.IsSet():
		c.wrong(path+".secret_file", "is missing, and so is admin.token_file: set one of them, or anybody could close detections")
	case !s.Secret.IsSet() && (s.Verify != "" || s.Header != "" || s.Username != ""):
		c.wrong(path+".secret_file", "is missing, without which nothing can be verified")
	case basic && s.Username == "":
		c.missing(path + ".username")
	case !basic && s.Username != "":
		c.wrong(path+".username", "goes with verify: basic alone; take it out, or set verify")
	}
	if s.Header != "" {
		switch {
		case basic:
			c.wrong(path+".header", "does not go with verify: basic, which uses Authorization; take it out")
		case !headerName.MatchString(s.Header):
			c.wrong(path+".header", "%q is no name of a header", s.Header)
		}
	}
	if _, err := s.receiver(); err != nil {
		c.wrong(path+".map", "%v", err)
	}
}
