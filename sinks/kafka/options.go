// Package kafka is the sink that produces to Kafka topics, according to the
// CloudEvents Kafka protocol binding 1.0.2.
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
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Options configure a Sink.
type Options struct {
	// Brokers are the bootstrap addresses, as host:port. One that answers is enough.
	Brokers []string
	// Topic is the text of a sinks.Template.
	Topic string
	// CreateTopic creates missing topics; nil: a missing topic halts the sink.
	CreateTopic *CreateTopic
	// Mode is structured (the default) or binary.
	Mode transform.Mode
	// Acks is "all" (the default), or "one": only the leader acknowledges, and
	// acknowledged events are lost if it fails.
	Acks string
	// Compression is none, gzip, snappy, lz4, or zstd (the default).
	Compression string
	// TLS is nil for connections without TLS. An empty ServerName means the broker's
	// host.
	TLS  *tls.Config
	SASL *kafkawire.SASL // nil: no authentication
	// MaxMessageBytes bounds the compressed size of a record batch, like a broker's
	// message.max.bytes. An event that exceeds it in a batch of its own is rejected.
	// 0: 1 MiB, the brokers' default.
	MaxMessageBytes int
	// ClientID is sent to the brokers for their logs and quotas. Empty: ndrbridge.
	ClientID string
	// Timeout bounds a Send. 0: 30 s.
	Timeout time.Duration
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
}

// CreateTopic holds the settings of topics to be created.
type CreateTopic struct {
	Partitions  int // 0: the broker's default
	Replication int // 0: the broker's default
}

// Sink produces events. The first Send connects.
type Sink struct {
	topic       sinks.Template
	create      *CreateTopic
	mode        transform.Mode
	acks        int16
	compression compression
	maxBytes    int
	timeout     time.Duration
	cluster     *cluster
	encoders    []*encoder // one for each broker that a Send produces to concurrently
}

// topicText matches the text of a topic's name without the placeholders.
var topicText = regexp.MustCompile(`^[a-zA-Z0-9._-]*$`)

// New validates the options and returns a Sink. It contacts no broker. The error
// joins all invalid options.
func New(o Options) (*Sink, error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(o.Brokers) == 0 {
		wrong("brokers: at least one is required, as host:port")
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
		wrong("topic: %q may contain only letters, digits, dot, underscore and hyphen", o.Topic)
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
			Brokers: o.Brokers, TLS: o.TLS, Login: login, Lease: o.Lease, ClientID: cmp.Or(o.ClientID, "ndrbridge"),
		}),
	}, nil
}
