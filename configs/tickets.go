package configs

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/tickets/webhooks"
)

// Tickets is how the state of tickets is written back to the appliances.
//
//	tickets: {enabled: true}
type Tickets struct {
	// Enabled lets the bridge write to appliances; without it no command is taken.
	Enabled  bool           `yaml:"enabled" env:"ENABLED"`
	NATS     TicketNATS     `yaml:"nats" envPrefix:"NATS_"`
	Kafka    TicketKafka    `yaml:"kafka" envPrefix:"KAFKA_"`
	Webhooks TicketWebhooks `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
}

// TicketWebhooks are the ticket systems that may post their own webhooks to
// /api/v1/tickets/jira, /servicenow, and the names under [TicketWebhooks.Generic]. One
// that is absent may not.
//
//	tickets:
//	  enabled: true
//	  webhooks:
//	    jira:
//	      secret_file: /run/secrets/jira-webhook
//	      accounts: [5b10ac8d82e05b22cc7d4ef5]
//	      map: {statuses: {"Waiting for customer": acknowledged}}
type TicketWebhooks struct {
	// Jira takes what Jira posts: created and updated issues. A webhook of its system
	// settings signs with the secret that it has there.
	Jira *TicketWebhook `yaml:"jira" envPrefix:"JIRA_"`
	// ServiceNow takes a REST message whose body has the columns operation (insert or
	// update), number, state, close_code, sys_id, sys_mod_count and sys_updated_by.
	ServiceNow *TicketWebhook `yaml:"servicenow" envPrefix:"SERVICENOW_"`
	// Generic are any others. Where their map is left out, their fields are those of a
	// ticket command.
	Generic []NamedTicketWebhook `yaml:"generic" envPrefix:"GENERIC_"`
}

// TicketWebhook is one ticket system.
type TicketWebhook struct {
	// Secret is what shows that a request comes from the system, which then needs no token.
	// Absent: it must carry the bearer token of the admin API, which is then set.
	Secret Secret `yaml:"secret" env:"SECRET" envPrefix:"SECRET_"`
	// Verify is how the secret is shown: signature (HMAC-SHA256 of the body: sha256=…),
	// header (the secret itself), or basic (a user name, and the secret as password).
	// Absent: signature, but header for servicenow, which signs nothing.
	Verify string `yaml:"verify" env:"VERIFY" oneof:"signature,header,basic"`
	// Header is the header that holds the signature or the secret. Absent:
	// X-Hub-Signature, and X-Webhook-Secret.
	Header string `yaml:"header" env:"HEADER"`
	// Username is the user's name; with basic alone, which needs it.
	Username string `yaml:"username" env:"USERNAME"`
	// Accounts are the bridge's own accounts at the system: what they did is
	// ignored.
	Accounts []string  `yaml:"accounts" env:"ACCOUNTS"`
	Map      TicketMap `yaml:"map" envPrefix:"MAP_"`
}

// NamedTicketWebhook is a ticket system that is not known, under a name of its own.
type NamedTicketWebhook struct {
	// Name is the last part of its path: 1 to 63 of a-z, 0-9 and -, neither jira nor
	// servicenow.
	Name string `yaml:"name" env:"NAME" required:"true"`
	// Secret is as for jira.
	Secret Secret `yaml:"secret" env:"SECRET" envPrefix:"SECRET_"`
	// Verify is as for jira.
	Verify string `yaml:"verify" env:"VERIFY" oneof:"signature,header,basic"`
	// Header is as for jira.
	Header string `yaml:"header" env:"HEADER"`
	// Username is as for jira.
	Username string `yaml:"username" env:"USERNAME"`
	// Accounts are as for jira.
	Accounts []string  `yaml:"accounts" env:"ACCOUNTS"`
	Map      TicketMap `yaml:"map" envPrefix:"MAP_"`
}

// TicketMap says where a system's webhooks have what: names, and indexes of lists,
// joined by dots. What is absent is the system's default, which the example
// configuration shows; tables are merged with its.
type TicketMap struct {
	// Event is where the webhook says what happened.
	Event string `yaml:"event" env:"EVENT"`
	// Events are what of that is taken; the rest is ignored.
	Events []string `yaml:"events" env:"EVENTS"`
	// Actor is where it says who did it, which is compared with the bridge's own accounts.
	Actor []string `yaml:"actor" env:"ACTOR"`
	// Changes is where it lists what changed, objects with field: what is not among it is
	// left as it is.
	Changes string `yaml:"changes" env:"CHANGES"`
	// KeyHeader is the header that names a request, so that one that comes twice is taken
	// once.
	KeyHeader string `yaml:"key_header" env:"KEY_HEADER"`
	// Key are fields that together name a request, where no header does.
	Key []string `yaml:"key" env:"KEY"`
	// TicketID is where the ticket's id is.
	TicketID string `yaml:"ticket_id" env:"TICKET_ID"`
	// Appliance is where the appliance's name is. Without it, of several appliances the
	// one that knows the ticket is found.
	Appliance string `yaml:"appliance" env:"APPLIANCE"`
	// DetectionID is where the id of a detection is, which is linked with the ticket.
	DetectionID string `yaml:"detection_id" env:"DETECTION_ID"`
	// Assignee is where the assignee is, by the name that the appliance knows.
	Assignee string `yaml:"assignee" env:"ASSIGNEE"`
	// Status is where the status is: the first place whose value is among
	// [TicketMap.Statuses].
	Status []string `yaml:"status" env:"STATUS"`
	// Statuses maps statuses to new, in_progress, closed, acknowledged or ignore; * is any
	// other. One that is not there is refused.
	Statuses Table `yaml:"statuses" env:"STATUSES"`
	// Resolution is where the resolution is, which is read with closed alone.
	Resolution string `yaml:"resolution" env:"RESOLUTION"`
	// Resolutions maps resolutions to action_taken, no_action_taken or ignore; * is any
	// other.
	Resolutions Table `yaml:"resolutions" env:"RESOLUTIONS"`
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
