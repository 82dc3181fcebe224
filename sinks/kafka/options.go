// Package kafka is the sink that produces to Kafka topics, according to the
// CloudEvents Kafka protocol binding 1.0.2.
package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Options configure a Sink. They are valid if their configuration is.
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
	SASL *kafkaconn.SASL // nil: no authentication
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
	topic    sinks.Template
	create   *CreateTopic
	acks     kafka.RequiredAcks
	maxBytes int
	timeout  time.Duration
	client   *kafkaconn.Client
	encoders sync.Pool        // of *encoder
	topics   map[string]topic // by name: every topic that was used
	loaded   time.Time        // when topics was loaded; zero: it is invalid
}

// New returns a Sink. It contacts no broker. An error joins the errors of all invalid
// options.
func New(o Options) (*Sink, error) {
	var errs []error
	topic, err := sinks.ParseTemplate(o.Topic)
	if err != nil {
		errs = append(errs, fmt.Errorf("topic: %w", err))
	}
	acks := kafka.RequireAll
	if o.Acks == "one" {
		acks = kafka.RequireOne
	}
	var compression kafka.Compression
	if err := compression.UnmarshalText([]byte(cmp.Or(o.Compression, "zstd"))); err != nil {
		errs = append(errs, fmt.Errorf("compression: %w", err))
	}
	var login *kafkaconn.Login
	if s := o.SASL; s != nil {
		if login, err = kafkaconn.NewLogin(*s); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	maxBytes, timeout := cmp.Or(o.MaxMessageBytes, 1<<20), cmp.Or(o.Timeout, 30*time.Second)
	dialer := &kafkaconn.Dialer{Brokers: o.Brokers, TLS: o.TLS, Login: login, Lease: o.Lease, ClientID: cmp.Or(o.ClientID, "ndrbridge")}
	return &Sink{
		topic: topic, create: o.CreateTopic, acks: acks, maxBytes: maxBytes, timeout: timeout,
		client: kafkaconn.NewClient(dialer, timeout, o.Brokers...),
		encoders: sync.Pool{New: func() any {
			return &encoder{mode: o.Mode, codec: protocol.Attributes(compression), maxBytes: maxBytes}
		}},
	}, nil
}
