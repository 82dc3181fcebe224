package configs

import "regexp"

// Tickets configures how ticket changes are written back to the appliances.
//
//	tickets: {enabled: true}
type Tickets struct {
	// Enabled lets the bridge write to appliances. If false, no ticket command is accepted.
	Enabled  bool           `yaml:"enabled" env:"ENABLED"`
	NATS     NATSIntake     `yaml:"nats" envPrefix:"NATS_"`
	Kafka    KafkaIntake    `yaml:"kafka" envPrefix:"KAFKA_"`
	Webhooks WebhookIntakes `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
}

// NATSIntake configures a JetStream stream from which ticket commands are received as
// JSON. A message is acknowledged when its commands are stored. At most one form of
// authentication may be set, as for the sink.
//
//	tickets:
//	  enabled: true
//	  nats: {url: "nats://bus.example:4222", stream: TICKETS, subject: ndr.tickets}
type NATSIntake struct {
	// URL is the URL of a server, or of several, separated by commas: nats, tls, ws or wss.
	// Absent: no commands are received, and the other keys have no effect.
	URL URL `yaml:"url" env:"URL"`
	// Stream is the stream, which must exist; required with [NATSIntake.URL].
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject is a subject of the stream; it may contain wildcards.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.tickets"`
	// Durable is the name of the durable consumer, which is created if it is missing.
	Durable string `yaml:"durable" env:"DURABLE" default:"ndrbridge"`
	// CredsFile is the path of a credentials file, which holds a JWT and its seed.
	CredsFile string `yaml:"creds_file" env:"CREDS_FILE"`
	// NKeyFile is the path of a file with the seed of an NKey.
	NKeyFile string `yaml:"nkey_file" env:"NKEY_FILE"`
	// Token is the authentication token.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	// Username is the user name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS enables TLS. Absent: the scheme of [NATSIntake.URL] decides.
	TLS *TLS `yaml:"tls" envPrefix:"TLS_"`
}

// Connection returns the configuration of a sink that connects to the same servers.
func (n NATSIntake) Connection() NATS {
	return NATS{
		URL: n.URL, CredsFile: n.CredsFile, NKeyFile: n.NKeyFile, Token: n.Token,
		Username: n.Username, Password: n.Password, TLS: n.TLS,
	}
}

// Files returns the paths of the files that n names; see Sink.Files.
func (n NATSIntake) Files() []string { return filesIn(n) }

// KafkaIntake configures a topic from which ticket commands are received as JSON. An
// offset is committed when its commands are stored.
//
//	tickets:
//	  enabled: true
//	  kafka: {brokers: ["broker.example:9092"], topic: ndr.tickets}
type KafkaIntake struct {
	// Brokers are the addresses, host:port, of one or more brokers. Absent: no commands are
	// received, and the other keys have no effect.
	Brokers []string `yaml:"brokers" env:"BROKERS"`
	// Topic is the topic, which must exist. Commands of one ticket stay in order if their
	// messages have the same key.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.tickets"`
	// Group is the consumer group.
	Group string `yaml:"group" env:"GROUP" default:"ndrbridge"`
	// TLS enables TLS. Absent: connections are not encrypted.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
}

// Connection returns the configuration of a sink that connects to the same brokers.
func (k KafkaIntake) Connection() Kafka {
	return Kafka{Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL}
}

// Files returns the paths of the files that k names; see Sink.Files.
func (k KafkaIntake) Files() []string { return filesIn(k) }

// subjectFilter matches a subject that may contain wildcards.
var subjectFilter = regexp.MustCompile(`^([^\s.*>{}]+|\*)(\.([^\s.*>{}]+|\*))*(\.>)?$`)

func (c checks) tickets(t Tickets, admin Admin) {
	c.natsIntake("tickets.nats", t.NATS)
	c.kafkaIntake("tickets.kafka", t.Kafka)
	before := map[string]string{"jira": "tickets.webhooks.jira", "servicenow": "tickets.webhooks.servicenow"}
	for i, g := range t.Webhooks.Generic {
		c.name(item("tickets.webhooks.generic", i)+".name", g.Name, before)
	}
	for _, s := range t.Webhooks.each() {
		c.webhookIntake("tickets.webhooks."+s.path, s, admin)
	}
}

func (c checks) natsIntake(path string, n NATSIntake) {
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

func (c checks) kafkaIntake(path string, k KafkaIntake) {
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
