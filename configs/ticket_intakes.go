package configs

import (
	"cmp"
	"fmt"
	"slices"

	"ndrbridge/internal/commands/webhookintake"
)

// Tickets configures how ticket changes are written back to the appliances.
//
//	tickets: {enabled: true}
type Tickets struct {
	// Enabled lets the bridge write to appliances. If false, no ticket command is accepted.
	Enabled  bool           `yaml:"enabled"`
	Notes    TicketNotes    `yaml:"notes"`
	NATS     NATSIntake     `yaml:"nats"`
	Kafka    KafkaIntake    `yaml:"kafka"`
	Webhooks WebhookIntakes `yaml:"webhooks"`
}

// TicketNotes configures what becomes a note of the detections of tickets.
//
//	tickets: {enabled: true, notes: {out: true}}
type TicketNotes struct {
	// Out adds the comments on tickets that follow ([TicketOpener.Follow]) to the notes of their
	// detections. It implies [Notes.Out] at every appliance.
	Out bool `yaml:"out"`
	// Interval is the wait between two rounds over the tickets. A round takes a hundredth of it for
	// each ticket.
	Interval Duration `yaml:"interval" default:"1m" above:"0"`
}

func (n *TicketNotes) check(c checks, path string) {
	switch {
	case n.Out && !c.config.Tickets.Enabled:
		c.wrong(path+".out", "is true, but tickets.enabled is false, so nothing can be written to appliances; set tickets.enabled to true")
	case n.Out && !slices.ContainsFunc(c.config.Sinks, Sink.Follows):
		c.wrong(path+".out", "is true, but no sink has webhook.ticket.follow, so no comment is read; add it to the sink that opens tickets")
	}
}

// Follows reports whether the sink opens tickets that follow their detections.
func (s Sink) Follows() bool {
	return s.Webhook != nil && s.Webhook.Ticket != nil && s.Webhook.Ticket.Follow != nil
}

// WritesNotes reports whether the bridge writes notes at an appliance.
func (c *Config) WritesNotes(a Appliance) bool {
	return c.Tickets.Enabled && (a.Notes.Out || c.Tickets.Notes.Out)
}

// NATSIntake configures a JetStream stream from which ticket commands are received as
// JSON. A message is acknowledged when its commands are stored. At most one form of
// authentication may be set, as for the sink.
//
//	tickets:
//	  enabled: true
//	  nats: {url: "nats://bus.example:4222", stream: TICKETS, subject: ndr.tickets}
type NATSIntake struct {
	// URL is the URL of a server, or of several, separated by commas: nats or tls.
	// Absent: no commands are received, and the other keys have no effect.
	URL URL `yaml:"url" schemes:"nats,tls" several:"true"`
	// Stream is the stream, which must exist; required with [NATSIntake.URL].
	Stream string `yaml:"stream" form:"stream"`
	// Subject is a subject of the stream; it may contain wildcards.
	Subject string `yaml:"subject" default:"ndr.tickets" required:"true" form:"subject_filter"`
	// Durable is the name of the durable consumer, which is created if it is missing.
	Durable string `yaml:"durable" default:"ndrbridge" required:"true" form:"consumer"`
	NATSLogin
}

// Connection returns the configuration of a sink that connects to the same servers.
func (n NATSIntake) Connection() NATS {
	return NATS{URL: n.URL, NATSLogin: n.NATSLogin}
}

// KafkaIntake configures a topic from which ticket commands are received as JSON. An
// offset is committed when its commands are stored.
//
//	tickets:
//	  enabled: true
//	  kafka: {brokers: ["broker.example:9092"], topic: ndr.tickets}
type KafkaIntake struct {
	// Brokers are the addresses, host:port, of one or more brokers. Absent: no commands are
	// received, and the other keys have no effect.
	Brokers []string `yaml:"brokers" form:"broker"`
	// Topic is the topic, which must exist. Commands of one ticket stay in order if their
	// messages have the same key.
	Topic string `yaml:"topic" default:"ndr.tickets" required:"true" form:"topic"`
	// Group is the consumer group.
	Group string `yaml:"group" default:"ndrbridge" required:"true"`
	// TLS enables TLS. Absent: connections are not encrypted.
	TLS  *TLS `yaml:"tls"`
	SASL SASL `yaml:"sasl"`
}

// Connection returns the configuration of a sink that connects to the same brokers.
func (k KafkaIntake) Connection() Kafka {
	return Kafka{Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL}
}

func (n *NATSIntake) check(c checks, path string) {
	switch {
	case n.URL.Value() != "":
		n.NATSLogin.check(c, path)
		c.present(path+".stream", n.Stream)
	case n.Stream != "" || n.NATSLogin != (NATSLogin{}):
		c.missing(path + ".url")
	}
}

func (k *KafkaIntake) check(c checks, path string) {
	if len(k.Brokers) == 0 && (k.TLS != nil || k.SASL != (SASL{})) {
		c.missing(path + ".brokers")
	}
}

func (w *WebhookIntakes) check(c checks, path string) {
	for i, g := range w.Generic {
		if g.Name == "jira" || g.Name == "servicenow" {
			c.wrong(item(path+".generic", i)+".name", "%q is also the name of %s; names must be unique", g.Name, join(path, g.Name))
		}
	}
	for _, s := range w.each() {
		c.webhookIntake(join(path, s.path), s, c.config.Admin)
	}
}

// WebhookIntakes configures the ticket systems that may post their webhooks to the admin
// API: to /api/v1/tickets/jira, /api/v1/tickets/servicenow, and /api/v1/tickets/ followed
// by a name under [WebhookIntakes.Generic]. Webhooks of systems that are absent are not
// accepted.
//
//	tickets:
//	  enabled: true
//	  webhooks:
//	    jira:
//	      secret_file: /run/secrets/jira-webhook
//	      accounts: [5b10ac8d82e05b22cc7d4ef5]
//	      map: {statuses: {"Waiting for customer": acknowledged}}
type WebhookIntakes struct {
	// Jira accepts the webhooks of Jira for created and updated issues. A webhook in Jira's
	// system settings signs its requests with the secret that is set there.
	Jira *WebhookIntake `yaml:"jira"`
	// ServiceNow accepts a REST message whose body has the columns operation (insert or
	// update), number, state, close_code, sys_id, sys_mod_count and sys_updated_by.
	ServiceNow *WebhookIntake `yaml:"servicenow"`
	// Generic lists other ticket systems. Without a map, the body of their requests is a
	// ticket command.
	Generic []NamedWebhookIntake `yaml:"generic"`
}

// WebhookIntake configures the webhook of a ticket system.
type WebhookIntake struct {
	// Secret is the secret that authenticates a request, which then needs no bearer token.
	// Absent: requests must carry the bearer token of the admin API, which must be set.
	Secret Secret `yaml:"secret"`
	// Verify is how requests prove the secret: signature (HMAC-SHA256 of the body:
	// sha256=…), header (the secret itself), or basic (a user name, and the secret as
	// password). Absent: signature, or header for servicenow, which does not sign.
	Verify string `yaml:"verify" oneof:"signature,header,basic"`
	// Header is the header with the signature or the secret. Absent: X-Hub-Signature for
	// signature, X-Webhook-Secret for header.
	Header string `yaml:"header" form:"header"`
	// Username is the user name; required with basic, basic only.
	Username string `yaml:"username" with:"verify=basic" required:"with"`
	// Accounts are the accounts of the bridge in the ticket system. Their changes are
	// ignored.
	Accounts []string              `yaml:"accounts"`
	Map      webhookintake.Mapping `yaml:"map"`
}

// NamedWebhookIntake configures the webhook of any other ticket system.
type NamedWebhookIntake struct {
	// Name is the last part of the path: 1 to 63 of a-z, 0-9 and -, neither jira nor
	// servicenow.
	Name string `yaml:"name" required:"true" form:"name"`
	WebhookIntake
}

// Receivers returns the receivers of the webhooks by the last part of their paths. It
// returns an error if a mapping is invalid.
func (w WebhookIntakes) Receivers() (map[string]*webhookintake.Receiver, error) {
	receivers := make(map[string]*webhookintake.Receiver)
	for _, s := range w.each() {
		receiver, err := s.receiver()
		if err != nil {
			return nil, fmt.Errorf("%s.map: %w", s.path, err)
		}
		receivers[s.name] = receiver
	}
	return receivers, nil
}

// intakeSystem is a configured webhook together with the defaults of its system.
type intakeSystem struct {
	path    string // of the key, below tickets.webhooks
	name    string
	verify  webhookintake.Method  // the default
	mapping webhookintake.Mapping // the default
	WebhookIntake
}

func (w WebhookIntakes) each() []intakeSystem {
	var all []intakeSystem
	if w.Jira != nil {
		all = append(all, intakeSystem{"jira", "jira", webhookintake.MethodSignature, webhookintake.Jira(), *w.Jira})
	}
	if w.ServiceNow != nil {
		all = append(all, intakeSystem{"servicenow", "servicenow", webhookintake.MethodHeader, webhookintake.ServiceNow(), *w.ServiceNow})
	}
	for i, g := range w.Generic {
		all = append(all, intakeSystem{item("generic", i), g.Name, webhookintake.MethodSignature, webhookintake.Generic(), g.WebhookIntake})
	}
	return all
}

func (s intakeSystem) receiver() (*webhookintake.Receiver, error) {
	o := webhookintake.Options{Accounts: s.Accounts, Mapping: s.mapping.Over(s.Map)}
	if s.Secret.IsSet() {
		o.Verify = &webhookintake.Verification{Method: s.method(), Header: s.Header, Username: s.Username, Secret: s.Secret.Read}
		if s.Header == "" {
			o.Verify.Header = map[webhookintake.Method]string{
				webhookintake.MethodSignature: "X-Hub-Signature", webhookintake.MethodHeader: "X-Webhook-Secret",
			}[s.method()]
		}
	}
	return webhookintake.New(o)
}

func (s intakeSystem) method() webhookintake.Method {
	return cmp.Or(webhookintake.Method(s.Verify), s.verify)
}

func (c checks) webhookIntake(path string, s intakeSystem, admin Admin) {
	basic := s.method() == webhookintake.MethodBasic
	switch {
	case !s.Secret.IsSet() && !c.failedSecret(path+".secret") && !admin.protected():
		c.wrong(path+".secret_file", "is missing, and so is admin.token_file; set one of them, otherwise anyone could close detections")
	case !s.Secret.IsSet() && (s.Verify != "" || s.Header != "" || s.Username != ""):
		c.wrong(path+".secret_file", "is missing; without it, requests cannot be verified")
	}
	if basic && s.Header != "" {
		c.wrong(path+".header", "cannot be combined with verify: basic, which uses Authorization; remove it")
	}
	if _, err := s.receiver(); err != nil {
		c.wrong(path+".map", "%v", err)
	}
}
