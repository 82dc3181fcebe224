package configs

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/tickets/webhooks"
)

// Tickets is how the state of tickets comes back to the appliances.
type Tickets struct {
	// Enabled lets the bridge write to appliances; without it no command is taken.
	Enabled  bool           `yaml:"enabled" env:"ENABLED"`
	NATS     TicketNATS     `yaml:"nats" envPrefix:"NATS_"`
	Kafka    TicketKafka    `yaml:"kafka" envPrefix:"KAFKA_"`
	Webhooks TicketWebhooks `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
}

// TicketWebhooks are the ticket systems that may send their own webhooks to
// /api/v1/tickets/jira, /servicenow, and the names of Generic. One that is nil may
// not.
type TicketWebhooks struct {
	Jira       *TicketWebhook `yaml:"jira" envPrefix:"JIRA_"`
	ServiceNow *TicketWebhook `yaml:"servicenow" envPrefix:"SERVICENOW_"`
	// Generic are any others, each with a name of its own.
	Generic []NamedTicketWebhook `yaml:"generic" envPrefix:"GENERIC_"`
}

// TicketWebhook is one ticket system.
type TicketWebhook struct {
	// Secret is what shows that a request comes from the system. Unset: it must
	// carry the bearer token of the admin API, which is then set.
	Secret Secret `yaml:"secret" env:"SECRET" envPrefix:"SECRET_"`
	// Verify is how the secret is shown; empty: by a signature, but in a header by
	// ServiceNow, which signs nothing.
	Verify string `yaml:"verify" env:"VERIFY" oneof:"signature,header,basic"`
	// Header holds the signature or the secret; empty: X-Hub-Signature, and
	// X-Webhook-Secret.
	Header string `yaml:"header" env:"HEADER"`
	// Username goes with basic, whose password is the secret, alone.
	Username string `yaml:"username" env:"USERNAME"`
	// Accounts are the bridge's own accounts at the system: what they did is
	// ignored.
	Accounts []string  `yaml:"accounts" env:"ACCOUNTS"`
	Map      TicketMap `yaml:"map" envPrefix:"MAP_"`
}

// NamedTicketWebhook is a TicketWebhook of a system that is not known.
type NamedTicketWebhook struct {
	// Name is the last part of its path: [a-z0-9-], 1 to 63 characters.
	Name     string    `yaml:"name" env:"NAME"`
	Secret   Secret    `yaml:"secret" env:"SECRET" envPrefix:"SECRET_"`
	Verify   string    `yaml:"verify" env:"VERIFY" oneof:"signature,header,basic"`
	Header   string    `yaml:"header" env:"HEADER"`
	Username string    `yaml:"username" env:"USERNAME"`
	Accounts []string  `yaml:"accounts" env:"ACCOUNTS"`
	Map      TicketMap `yaml:"map" envPrefix:"MAP_"`
}

// TicketMap is webhooks.Mapping. What is empty is the system's default; tables are
// merged with its.
type TicketMap struct {
	Event       string   `yaml:"event" env:"EVENT"`
	Events      []string `yaml:"events" env:"EVENTS"`
	Actor       []string `yaml:"actor" env:"ACTOR"`
	Changes     string   `yaml:"changes" env:"CHANGES"`
	KeyHeader   string   `yaml:"key_header" env:"KEY_HEADER"`
	Key         []string `yaml:"key" env:"KEY"`
	TicketID    string   `yaml:"ticket_id" env:"TICKET_ID"`
	Appliance   string   `yaml:"appliance" env:"APPLIANCE"`
	DetectionID string   `yaml:"detection_id" env:"DETECTION_ID"`
	Assignee    string   `yaml:"assignee" env:"ASSIGNEE"`
	Status      []string `yaml:"status" env:"STATUS"`
	Statuses    Table    `yaml:"statuses" env:"STATUSES"`
	Resolution  string   `yaml:"resolution" env:"RESOLUTION"`
	Resolutions Table    `yaml:"resolutions" env:"RESOLUTIONS"`
}

// Receivers returns what reads the webhooks, by the last part of their paths. The
// error says which mapping cannot be followed.
func (w TicketWebhooks) Receivers() (map[string]*webhooks.Receiver, error) {
	receivers := make(map[string]*webhooks.Receiver)
	for _, s := range w.each() {
		receiver, err := s.receiver()
		if err != nil {
			return nil, fmt.Errorf("%s.map: %w", s.path, err)
		}
		receivers[s.name] = receiver
	}
	return receivers, nil
}

// ticketSystem is a webhook with what is known of its system.
type ticketSystem struct {
	path    string // behind tickets.webhooks
	name    string
	verify  webhooks.Method // where the configuration does not say
	mapping webhooks.Mapping
	TicketWebhook
}

func (w TicketWebhooks) each() []ticketSystem {
	var all []ticketSystem
	if w.Jira != nil {
		all = append(all, ticketSystem{"jira", "jira", webhooks.MethodSignature, webhooks.Jira(), *w.Jira})
	}
	if w.ServiceNow != nil {
		all = append(all, ticketSystem{"servicenow", "servicenow", webhooks.MethodHeader, webhooks.ServiceNow(), *w.ServiceNow})
	}
	for i, g := range w.Generic {
		all = append(all, ticketSystem{item("generic", i), g.Name, webhooks.MethodSignature, webhooks.Generic(), TicketWebhook{
			g.Secret, g.Verify, g.Header, g.Username, g.Accounts, g.Map,
		}})
	}
	return all
}

func (s ticketSystem) receiver() (*webhooks.Receiver, error) {
	o := webhooks.Options{Accounts: s.Accounts, Mapping: s.mapping.Over(s.Map.mapping())}
	if s.Secret.IsSet() {
		o.Verify = &webhooks.Verification{Method: s.method(), Header: s.Header, Username: s.Username, Secret: s.Secret.Read}
		if s.Header == "" {
			o.Verify.Header = map[webhooks.Method]string{
				webhooks.MethodSignature: "X-Hub-Signature", webhooks.MethodHeader: "X-Webhook-Secret",
			}[s.method()]
		}
	}
	return webhooks.New(o)
}

func (s ticketSystem) method() webhooks.Method {
	if s.Verify != "" {
		return webhooks.Method(s.Verify)
	}
	return s.verify
}

func (m TicketMap) mapping() webhooks.Mapping {
	return webhooks.Mapping{
		Event: m.Event, Events: m.Events, Actor: m.Actor, Changes: m.Changes, KeyHeader: m.KeyHeader, Key: m.Key,
		TicketID: m.TicketID, Appliance: m.Appliance, DetectionID: m.DetectionID, Assignee: m.Assignee,
		Status: m.Status, Statuses: m.Statuses, Resolution: m.Resolution, Resolutions: m.Resolutions,
	}
}

// Table maps values of somebody else's to ours.
type Table map[string]string

// UnmarshalText reads theirs: ours, with commas between several, which is how the
// environment holds tables. A value with a comma needs the file.
func (t *Table) UnmarshalText(text []byte) error {
	table := make(Table)
	for _, part := range splitList(string(text)) {
		theirs, ours, ok := strings.Cut(part, ":")
		if !ok {
			return errors.New("expected theirs: ours, with commas between several; a value with a comma needs the file")
		}
		table[strings.TrimSpace(theirs)] = strings.TrimSpace(ours)
	}
	*t = table
	return nil
}
