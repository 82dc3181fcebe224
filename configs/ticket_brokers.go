package configs

// TicketNATS is a JetStream stream that ticket commands are received from. At most
// one way of signing in is set, as for NATS.
type TicketNATS struct {
	// URL is as that of NATS; empty: none are received, and the rest has no meaning.
	URL URL `yaml:"url" env:"URL"`
	// Stream must exist.
	Stream string `yaml:"stream" env:"STREAM"`
	// Subject is one of the stream's; it may have wildcards.
	Subject string `yaml:"subject" env:"SUBJECT" default:"ndr.tickets"`
	// Durable is the consumer's name. It is made where it is missing.
	Durable   string `yaml:"durable" env:"DURABLE" default:"ndrbridge"`
	CredsFile string `yaml:"creds_file" env:"CREDS_FILE"`
	NKeyFile  string `yaml:"nkey_file" env:"NKEY_FILE"`
	Token     Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
	Username  string `yaml:"username" env:"USERNAME"`
	Password  Secret `yaml:"password" env:"PASSWORD" envPrefix:"PASSWORD_"`
	// TLS is nil where the scheme of URL alone says whether TLS is used.
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

// TicketKafka is a topic that ticket commands are received from.
type TicketKafka struct {
	// Brokers are host:port; empty: none are received, and the rest has no meaning.
	Brokers []string `yaml:"brokers" env:"BROKERS"`
	// Topic must exist. Commands of one ticket keep their order where they have one
	// key.
	Topic string `yaml:"topic" env:"TOPIC" default:"ndr.tickets"`
	// Group is the consumer group.
	Group string `yaml:"group" env:"GROUP" default:"ndrbridge"`
	// TLS is nil for connections in the clear.
	TLS  *TLS `yaml:"tls" envPrefix:"TLS_"`
	SASL SASL `yaml:"sasl" envPrefix:"SASL_"`
}

// Connection is how a sink connects to the same brokers.
func (k TicketKafka) Connection() Kafka {
	return Kafka{Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL}
}

// Files is Sink.Files.
func (k TicketKafka) Files() []string { return filesIn(k) }
