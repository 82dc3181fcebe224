package configs

import (
	"fmt"
	"strings"
)

// Kafka configures delivery to Kafka, to one topic or to several chosen by a template.
//
//	sinks:
//	  - name: lake
//	    kafka:
//	      brokers: ["kafka-1.example:9093", "kafka-2.example:9093"]
//	      topic: ndr.{stream}
//	      tls: {}
//	      sasl: {mechanism: scram-sha-512, username: ndrbridge, password_file: /run/secrets/kafka}
type Kafka struct {
	// Brokers are the addresses, host:port, of one or more brokers of the cluster.
	Brokers []string `yaml:"brokers" required:"true" form:"broker"`
	// Topic is the topic; it may contain {stream}, {appliance} and {action}.
	Topic string `yaml:"topic" default:"ndr.{stream}" required:"true" form:"topics"`
	// Acks is which brokers must have stored an event before it counts as delivered: all
	// in-sync replicas, or one, the leader.
	Acks string `yaml:"acks" default:"all" oneof:"all,one"`
	// Compression is the compression of batches.
	Compression string `yaml:"compression" default:"zstd" oneof:"none,gzip,snappy,lz4,zstd"`
	// TLS enables TLS. Absent: connections are not encrypted.
	TLS  *TLS `yaml:"tls"`
	SASL SASL `yaml:"sasl"`
	// MaxMessageBytes is the maximum compressed size of a batch, and so of an event.
	MaxMessageBytes Size `yaml:"max_message_bytes" default:"1MiB" above:"0"`
	// ClientID is the client id that the brokers use in logs and quotas.
	ClientID string `yaml:"client_id" default:"ndrbridge"`
	// CreateTopic creates a missing topic. Absent: topics must exist.
	CreateTopic *NewTopic `yaml:"create_topic"`
}

// NewTopic configures the topics that the bridge creates.
type NewTopic struct {
	// Partitions is the number of partitions. 0: the brokers' default.
	Partitions int `yaml:"partitions" default:"0" min:"0" max:"2147483647"`
	// Replication is the replication factor. 0: the brokers' default.
	Replication int `yaml:"replication" default:"0" min:"0" max:"32767"`
}

// SASL configures authentication to the brokers.
type SASL struct {
	// Mechanism is the SASL mechanism. Absent: the bridge does not authenticate. oauthbearer
	// requires [SASL.OAuth], aws_msk_iam [SASL.Region], the others [SASL.Username] and
	// [SASL.Password].
	Mechanism string `yaml:"mechanism" oneof:"plain,scram-sha-256,scram-sha-512,oauthbearer,aws_msk_iam"`
	// Username is the user name.
	Username string `yaml:"username" with:"mechanism=plain,scram-sha-256,scram-sha-512" required:"with"`
	// Password is the password.
	Password Secret             `yaml:"password" with:"mechanism=plain,scram-sha-256,scram-sha-512" required:"with"`
	OAuth    *ClientCredentials `yaml:"oauth" with:"mechanism=oauthbearer" required:"with"`
	// Region is the AWS region of the cluster. The credentials are those that AWS's SDK finds:
	// in the environment, in its files, or as the role of the machine or pod.
	Region string `yaml:"region" with:"mechanism=aws_msk_iam" required:"with"`
}

// ClientCredentials configures OAuth 2.0 client credentials: the bridge obtains a token, and
// another one shortly before it expires.
type ClientCredentials struct {
	// TokenURL is the URL of the token endpoint: http or https.
	TokenURL URL `yaml:"token_url" required:"true" schemes:"https,http"`
	// ClientID is the client id.
	ClientID string `yaml:"client_id" required:"true"`
	// ClientSecret is the client secret.
	ClientSecret Secret `yaml:"client_secret" required:"true"`
	// Scope is the scope to ask for: one or more words, separated by blanks. Absent: the
	// token endpoint's default.
	Scope string `yaml:"scope"`
	// Audience is the audience to ask for, which some token endpoints require.
	Audience string `yaml:"audience"`
}

// NATS configures delivery to a JetStream stream, or to core NATS. At most one form of
// authentication may be set: [NATS.CredsFile], [NATS.NKeyFile], [NATS.Token], or
// [NATS.Username] with [NATS.Password].
//
//	sinks:
//	  - name: bus
//	    nats: {url: "nats://127.0.0.1:4222", stream: NDR, create_stream: true}
type NATS struct {
	// URL is the URL of a server, or of several, separated by commas: nats or tls.
	URL URL `yaml:"url" required:"true" schemes:"nats,tls" several:"true"`
	// Stream is the JetStream stream. Absent: core NATS, which acknowledges nothing.
	Stream string `yaml:"stream" form:"stream"`
	// Subject is the subject; it may contain {stream}, {appliance} and {action}.
	Subject string `yaml:"subject" default:"ndr.{appliance}.{stream}.{action}" required:"true" form:"subject"`
	// CreateStream creates the stream if it is missing.
	CreateStream bool `yaml:"create_stream" with:"stream"`
	NATSLogin
	// MaxPending is the maximum number of unacknowledged messages.
	MaxPending int `yaml:"max_pending" default:"4000" min:"1"`
}

// NATSLogin configures how to sign in to NATS servers. At most one form of authentication may be
// set.
type NATSLogin struct {
	// CredsFile is the path of a credentials file, which holds a JWT and its seed.
	CredsFile string `yaml:"creds_file"`
	// NKeyFile is the path of a file with the seed of an NKey.
	NKeyFile string `yaml:"nkey_file"`
	// Token is the authentication token.
	Token Secret `yaml:"token"`
	// Username is the user name.
	Username string `yaml:"username" with:"password"`
	// Password is the password.
	Password Secret `yaml:"password" with:"username"`
	// TLS enables TLS. Absent: the scheme of `url` decides.
	TLS *TLS `yaml:"tls"`
}

func (k *Kafka) modes() []string { return []string{"structured", "binary"} }

func (k *Kafka) place() string { return strings.Join(k.Brokers, ", ") }

func (k *Kafka) summary() string { return fmt.Sprintf("kafka %v, topic %s", k.Brokers, k.Topic) }

func (k *Kafka) check(c checks, path string) {
	if k.Topic == "." || k.Topic == ".." {
		c.wrong(path+".topic", "%q is not a topic name; write another one", k.Topic)
	}
}

func (n *NATS) modes() []string { return []string{"structured", "binary"} }

func (n *NATS) place() string { return n.URL.hosts() }

func (n *NATS) summary() string {
	if n.Stream == "" {
		return fmt.Sprintf("nats %s, subject %s, without JetStream: nothing is acknowledged", n.URL, n.Subject)
	}
	return fmt.Sprintf("nats %s, stream %s, subject %s", n.URL, n.Stream, n.Subject)
}

func (n *NATSLogin) check(c checks, path string) {
	var credentials []string
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"creds_file", n.CredsFile != ""},
		{"nkey_file", n.NKeyFile != ""},
		{"token", n.Token.IsSet()},
		{"username", n.Username != "" || n.Password.IsSet()},
	} {
		if one.set {
			credentials = append(credentials, one.name)
		}
	}
	if len(credentials) > 1 {
		c.wrong(path, "has several forms of authentication: %s; keep one of them", strings.Join(credentials, " and "))
	}
}
