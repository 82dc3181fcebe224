package configs

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/tickets/webhookintake"
)

// Tickets configures how ticket changes are written back to the appliances.
//
//	tickets: {enabled: true}
type Tickets struct {
	// Enabled lets the bridge write to appliances. If false, no ticket command is accepted.
	Enabled  bool           `yaml:"enabled" env:"ENABLED"`
	NATS     TicketNATS     `yaml:"nats" envPrefix:"NATS_"`
	Kafka    TicketKafka    `yaml:"kafka" envPrefix:"KAFKA_"`
	Webhooks TicketWebhooks `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
}

// TicketWebhooks configures the ticket systems that may post their webhooks to the admin
// API: to /api/v1/tickets/jira, /api/v1/tickets/servicenow, and /api/v1/tickets/ followed
// by a name under [TicketWebhooks.Generic]. Webhooks of systems that are absent are not
// accepted.
//
//	tickets:
//	  enabled: true
//	  webhooks:
//	    jira:
//	      secret_file: /run/secrets/jira-webhook
//	      accounts: [5b10ac8d82e05b22cc7d4ef5]
//	      map: {statuses: {"Waiting for customer": acknowledged}}
type TicketWebhooks struct {
	// Jira accepts the webhooks of Jira for created and updated issues. A webhook in Jira's
	// system settings signs its requests with the secret that is set there.
	Jira *TicketWebhook `yaml:"jira" envPrefix:"JIRA_"`
	// ServiceNow accepts a REST message whose body has the columns operation (insert or
	// update), number, state, close_code, sys_id, sys_mod_count and sys_updated_by.
	ServiceNow *TicketWebhook `yaml:"servicenow" envPrefix:"SERVICENOW_"`
	// Generic lists other ticket systems. Without a map, the body of their requests is a
	// ticket command.
	Generic []NamedTicketWebhook `yaml:"generic" envPrefix:"GENERIC_"`
}

// TicketWebhook configures the webhook of a ticket system.
type TicketWebhook struct {
	// Secret is the secret that authenticates a request, which then needs no bearer token.
	// Absent: requests must carry the bearer token of the admin API, which must be set.
	Secret Secret `yaml:"secret" env:"SECRET" envPrefix:"SECRET_"`
	// Verify is how requests prove the secret: signature (HMAC-SHA256 of the body:
	// sha256=…), header (the secret itself), or basic (a user name, and the secret as
	// password). Absent: signature, or header for servicenow, which does not sign.
	Verify string `yaml:"verify" env:"VERIFY" oneof:"signature,header,basic"`
	// Header is the header with the signature or the secret. Absent: X-Hub-Signature for
	// signature, X-Webhook-Secret for header.
	Header string `yaml:"header" env:"HEADER"`
	// Username is the user name; required with basic, basic only.
	Username string `yaml:"username" env:"USERNAME"`
	// Accounts are the accounts of the bridge in the ticket system. Their changes are
	// ignored.
	Accounts []string  `yaml:"accounts" env:"ACCOUNTS"`
	Map      TicketMap `yaml:"map" envPrefix:"MAP_"`
}

// NamedTicketWebhook configures the webhook of any other ticket system.
type NamedTicketWebhook struct {
	// Name is the last part of the path: 1 to 63 of a-z, 0-9 and -, neither jira nor
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

// TicketMap maps the body of a webhook to a ticket command. A path consists of names and
// list indexes joined by dots. The default of each key depends on the system and is shown
// in the example configuration. Tables are merged with the defaults.
type TicketMap struct {
	// Event is the path of the kind of the webhook, such as "issue updated".
	Event string `yaml:"event" env:"EVENT"`
	// Events are the kinds that are accepted; others are ignored.
	Events []string `yaml:"events" env:"EVENTS"`
	// Actor lists the paths of the account that made the change, which is compared with
	// the bridge's own accounts.
	Actor []string `yaml:"actor" env:"ACTOR"`
	// Changes is the path of the list of changes, objects with the key field. Fields that
	// are not in the list are left as they are.
	Changes string `yaml:"changes" env:"CHANGES"`
	// KeyHeader is the header that identifies a request, so that a repeated request is
	// accepted once.
	KeyHeader string `yaml:"key_header" env:"KEY_HEADER"`
	// Key lists the paths of fields that together identify a request, if no header does.
	Key []string `yaml:"key" env:"KEY"`
	// TicketID is the path of the ticket's id.
	TicketID string `yaml:"ticket_id" env:"TICKET_ID"`
	// Appliance is the path of the appliance's name. Without it, and with several
	// appliances, the bridge finds the one that knows the ticket.
	Appliance string `yaml:"appliance" env:"APPLIANCE"`
	// DetectionID is the path of the id of a detection to link to the ticket.
	DetectionID string `yaml:"detection_id" env:"DETECTION_ID"`
	// Assignee is the path of the assignee, who must be a user of the appliance.
	Assignee string `yaml:"assignee" env:"ASSIGNEE"`
	// Status lists paths of the status. The first whose value is in [TicketMap.Statuses]
	// is used.
	Status []string `yaml:"status" env:"STATUS"`
	// Statuses maps statuses to new, in_progress, closed, acknowledged or ignore; * stands
	// for any other status. A status that is not mapped is rejected.
	Statuses Table `yaml:"statuses" env:"STATUSES"`
	// Resolution is the path of the resolution, which is read only if the status is mapped
	// to closed.
	Resolution string `yaml:"resolution" env:"RESOLUTION"`
	// Resolutions maps resolutions to action_taken, no_action_taken or ignore; * stands for
	// any other resolution.
	Resolutions Table `yaml:"resolutions" env:"RESOLUTIONS"`
}

// Receivers returns the receivers of the webhooks by the last part of their paths. It
// returns an error if a mapping is invalid.
func (w TicketWebhooks) Receivers() (map[string]*webhookintake.Receiver, error) {
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

// ticketSystem is a configured webhook together with the defaults of its system.
type ticketSystem struct {
	path    string // of the key, below tickets.webhooks
	name    string
	verify  webhookintake.Method  // the default
	mapping webhookintake.Mapping // the default
	TicketWebhook
}

func (w TicketWebhooks) each() []ticketSystem {
	var all []ticketSystem
	if w.Jira != nil {
		all = append(all, ticketSystem{"jira", "jira", webhookintake.MethodSignature, webhookintake.Jira(), *w.Jira})
	}
	if w.ServiceNow != nil {
		all = append(all, ticketSystem{"servicenow", "servicenow", webhookintake.MethodHeader, webhookintake.ServiceNow(), *w.ServiceNow})
	}
	for i, g := range w.Generic {
		all = append(all, ticketSystem{item("generic", i), g.Name, webhookintake.MethodSignature, webhookintake.Generic(), TicketWebhook{
			g.Secret, g.Verify, g.Header, g.Username, g.Accounts, g.Map,
		}})
	}
	return all
}

func (s ticketSystem) receiver() (*webhookintake.Receiver, error) {
	o := webhookintake.Options{Accounts: s.Accounts, Mapping: s.mapping.Over(s.Map.mapping())}
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

func (s ticketSystem) method() webhookintake.Method {
	if s.Verify != "" {
		return webhookintake.Method(s.Verify)
	}
	return s.verify
}

func (m TicketMap) mapping() webhookintake.Mapping {
	return webhookintake.Mapping{
		Event: m.Event, Events: m.Events, Actor: m.Actor, Changes: m.Changes, KeyHeader: m.KeyHeader, Key: m.Key,
		TicketID: m.TicketID, Appliance: m.Appliance, DetectionID: m.DetectionID, Assignee: m.Assignee,
		Status: m.Status, Statuses: m.Statuses, Resolution: m.Resolution, Resolutions: m.Resolutions,
	}
}

// Table maps values of another system to values of the bridge, or the other way round.
type Table map[string]string

// UnmarshalText parses pairs "theirs: ours" that are separated by commas, which is the
// form of tables in environment variables. A value with a comma can be set only in the
// file.
func (t *Table) UnmarshalText(text []byte) error {
	table := make(Table)
	for _, part := range splitList(string(text)) {
		theirs, ours, ok := strings.Cut(part, ":")
		if !ok {
			return errors.New("expected key: value pairs separated by commas; set a value that contains a comma in the file")
		}
		table[strings.TrimSpace(theirs)] = strings.TrimSpace(ours)
	}
	*t = table
	return nil
}
