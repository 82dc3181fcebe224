// Package kafka is the sink that produces to Kafka topics, as CloudEvents'
// Kafka protocol binding 1.0.2 says.
package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"ndrbridge/internal/kafkawire"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Options say where and how a sink produces.
type Options struct {
	// Brokers are the addresses, host:port, that the cluster's layout is asked
	// of. One that answers is enough.
	Brokers []string
	// Topic is a sinks.Template.
	Topic string
	// CreateTopic makes a topic that does not exist; nil: it is a halt.
	CreateTopic *CreateTopic
	// Mode is structured (also when empty) or binary.
	Mode transform.Mode
	// Acks is "all" (also when empty), or "one": the leader's alone, which a
	// failing leader takes along.
	Acks string
	// Compression is none, gzip, snappy, lz4, or zstd (also when empty).
	Compression string
	// TLS is nil for connections without TLS. Its ServerName, where empty, is
	// the broker's host.
	TLS  *tls.Config
	SASL *kafkawire.SASL // nil: no authentication
	// MaxMessageBytes bounds a record batch as it is sent, compressed, which is
	// what a broker's message.max.bytes counts. An event that is larger even in a
	// batch of its own is rejected. 0: 1 MiB, what brokers take by default.
	MaxMessageBytes int
	// ClientID is told to the brokers, for their logs and quotas. Empty:
	// ndrbridge.
	ClientID string
	// Timeout bounds a Send. 0: 30 s.
	Timeout time.Duration
}

// CreateTopic is the shape of topics to be made.
type CreateTopic struct {
	Partitions  int // 0: the broker's default
	Replication int // 0: the broker's default
}

// Sink produces events. It connects at the first Send.
type Sink struct {
	topic       sinks.Template
	create      *CreateTopic
	mode        transform.Mode
	acks        int16
	compression compression
	maxBytes    int
	timeout     time.Duration
	cluster     *cluster
	encoders    []*encoder // for the brokers that a Send goes to at once
}

// topicText is what may stand in a topic's name beside placeholders.
var topicText = regexp.MustCompile(`^[a-zA-Z0-9._-]*$`)

// New checks the options and returns a sink that has not contacted any broker.
// The error tells all that is wrong.
func New(o Options) (*Sink, error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(o.Brokers) == 0 {
		wrong("brokers: there must be at least one, as host:port")
	}
	for _, broker := range o.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			wrong("brokers: %q is not host:port", broker)
		}
	}
	topic, err := sinks.ParseTemplate(o.Topic)
	if err != nil {
		wrong("topic: %w", err)
	} else if !topicText.MatchString(topic.Fill("")) {
		wrong("topic: %q has other characters than letters, digits, dot, underscore and hyphen", o.Topic)
	}
	if c := o.CreateTopic; c != nil && (c.Partitions < 0 || c.Replication < 0) {
		wrong("create_topic: partitions and replication must not be negative")
	}
	mode := o.Mode
	switch mode {
	case "":
		mode = transform.Structured
	case transform.Structured, transform.Binary:
	default:
		wrong("mode: %q is neither structured nor binary", o.Mode)
	}
	acks := int16(-1)
	switch o.Acks {
	case "", "all":
	case "one":
		acks = 1
	default:
		wrong("acks: %q is neither all nor one", o.Acks)
	}
	compression, err := compressionOf(o.Compression)
	if err != nil {
		errs = append(errs, err)
	}
	var login *kafkawire.Login
	if s := o.SASL; s != nil {
		if login, err = kafkawire.NewLogin(*s); err != nil {
			errs = append(errs, err)
		}
		if s.Username == "" || s.Password == "" {
			wrong("sasl: username and password must not be empty")
		}
	}
	if o.MaxMessageBytes < 0 || o.Timeout < 0 {
		wrong("max_message_bytes and timeout must not be negative")
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Sink{
		topic:       topic,
		create:      o.CreateTopic,
		mode:        mode,
		acks:        acks,
		compression: compression,
		maxBytes:    cmp.Or(o.MaxMessageBytes, 1<<20),
		timeout:     cmp.Or(o.Timeout, 30*time.Second),
		cluster: newCluster(&kafkawire.Dialer{
			Brokers: o.Brokers, TLS: o.TLS, Login: login, ClientID: cmp.Or(o.ClientID, "ndrbridge"),
		}),
	}, nil
}
