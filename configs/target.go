package configs

import (
	"net/url"
	"strings"
)

// Preset returns what the sink is, if that is more than its Kind: the preset of its webhook
// or the ticket system in which it opens tickets. Otherwise it returns "".
func (s Sink) Preset() string {
	switch {
	case s.Webhook == nil:
		return ""
	case s.Webhook.Ticket != nil:
		return s.Webhook.Ticket.System
	}
	return s.Webhook.Preset
}

// Target returns where the sink delivers, for people: the hosts of its servers, each with its
// port if it has one, or the path of its file. It contains no secrets: of a URL, it has
// neither the user nor the path and the query.
func (s Sink) Target() string {
	switch {
	case s.Kafka != nil:
		return strings.Join(s.Kafka.Brokers, ", ")
	case s.NATS != nil:
		return s.NATS.URL.hosts()
	case s.Webhook != nil:
		return s.Webhook.URL.hosts()
	case s.Syslog != nil:
		return s.Syslog.Address
	case s.File != nil && s.File.Path == "-":
		return "standard output"
	case s.File != nil:
		return s.File.Path
	}
	return ""
}

// hosts returns the hosts of u and their ports. It leaves out what is not a URL.
func (u URL) hosts() string {
	var hosts []string
	for text := range strings.SplitSeq(u.Value(), ",") {
		if parsed, err := url.Parse(strings.TrimSpace(text)); err == nil && parsed.Host != "" {
			hosts = append(hosts, parsed.Host)
		}
	}
	return strings.Join(hosts, ", ")
}
