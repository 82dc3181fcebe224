package configs

// TicketNATS is a JetStream stream that ticket commands are received from, as JSON. A
// message is acknowledged when its commands are stored. At most one way of signing in
// is set, as with the sink.
//
//	tickets:
//	  enabled: true
//	  nats: {url: "nats://bus.example:4222", stream: TICKETS, subject: ndr.tickets}
type TicketNATS struct {
	// URL is one server, or several by comma: nats, tls, ws or wss. Absent: no commands
	// are received, and the rest has no meaning.
	URL URL `yaml:"url" env:"URL"`
	// Stream is the stream, which must exist; required with [TicketNATS.URL].
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject is one of the stream's; it may have wildcards.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.tickets"`
	// Durable is the consumer's name. It is made where it is missing.
	Durable string `yaml:"durable" env:"DURABLE" default:"ndrbridge"`
	// CredsFile is the path of a credentials file, a JWT with its seed.
	CredsFile string `yaml:"creds_file" env:"CREDS_FILE"`
	// NKeyFile is the path of a file that holds an NKey's seed.
	NKeyFile string `yaml:"nkey_file" env:"NKEY_FILE"`
	// Token is a token that the servers take.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	// Username is the user's name.
	Username string `yaml:"username" env:"USERNAME"`
	// Password is the user's password.
	Password Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS has connections secured; without it the scheme of [TicketNATS.URL] decides.
	TLS *TLS `yaml:"tls" envPrefix:"TLS_"`
}

// Connection is how a sink connects to the same servers.
func (n TicketNATS) Connection() NATS {
	return NATS{
		URL: n.URL, CredsFile: n.CredsFile, NKeyFile: n.NKeyFile, Token: n.Token,
		Username: n.Username, Password: n.Password, TLS: n.TLS,
	}
}

// Files is Sink.Files.
func (n TicketNATS) Files() []string { return filesIn(n) }

// TicketKafka is a topic that ticket commands are received from, as JSON. An offset is
// committed when the commands are stored.
//
//	tickets:
//	  enabled: true
//	  kafka: {brokers: ["broker.example:9092"], topic: ndr.tickets}
type TicketKafka struct {
	// Brokers are addresses, host:port. Absent: no commands are received, and the rest
	// has no meaning.
	Brokers []string `yaml:"brokers" env:"BROKERS"`
	// Topic is the topic, which must exist. Commands of one ticket keep their order where
	// they have one key.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.tickets"`
	// Group is the consumer group.
	Group string `yaml:"group" env:"GROUP" default:"ndrbridge"`
	// TLS has connections secured; without it they are in the clear.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
}

// Connection is how a sink connects to the same brokers.
func (k TicketKafka) Connection() Kafka {
	return Kafka{Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL}
}

// Files is Sink.Files.
func (k TicketKafka) Files() []string { return filesIn(k) }
