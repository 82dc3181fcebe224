package inbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// KafkaOptions say where commands are produced.
type KafkaOptions struct {
	Options
	Brokers []string // host:port
	Topic   string   // must exist
	Group   string   // the consumer group
	// Connect returns TLS and authentication, nil where there is none. It is called
	// for each session, so that files are read anew.
	Connect func() (*tls.Config, sasl.Mechanism, error)
}

// Headers of a record that name it, so that a producer that sends it twice is
// understood. The second is CloudEvents' id.
const (
	keyHeader = "idempotency-key"
	idHeader  = "ce_id"
)

// Kafka receives commands as a member of a consumer group. Commands of one ticket
// keep their order if they are produced to one partition, as those with one key are.
type Kafka struct {
	door
	o KafkaOptions
}

// NewKafka returns a door that has not contacted any broker.
func NewKafka(o KafkaOptions) *Kafka { return &Kafka{door: door{o: o.Options}, o: o} }

// Run receives until ctx ends.
func (k *Kafka) Run(ctx context.Context) { k.run(ctx, k.session) }

// timeout bounds a request to a broker.
const timeout = 10 * time.Second

// maxWait is how long a broker may take to answer a fetch. It is asked to answer a
// second earlier where there are no records: that is left for the way.
const maxWait = 2 * time.Second

// session receives as one member of the group, until committing fails.
func (k *Kafka) session(ctx context.Context) error {
	config, mechanism, err := k.o.Connect()
	if err != nil {
		return err
	}
	dialer := &kafka.Dialer{ClientID: k.o.Group, Timeout: timeout, DualStack: true, TLS: config, SASLMechanism: mechanism}
	// The reader goes on by itself whatever fails, and says so only to a log: what is
	// wrong from the start is found out before.
	if err := k.probe(ctx, dialer); err != nil {
		return err
	}
	var troubled atomic.Bool
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: k.o.Brokers, GroupID: k.o.Group, Topic: k.o.Topic, Dialer: dialer,
		StartOffset: kafka.FirstOffset, WatchPartitionChanges: true,
		MaxWait: maxWait,
		// A member that crashed is waited for by its successor.
		HeartbeatInterval: time.Second, RebalanceTimeout: 5 * time.Second, SessionTimeout: 10 * time.Second,
		ErrorLogger: kafka.LoggerFunc(func(format string, arguments ...any) {
			troubled.Store(true)
			k.failed(true, fmt.Errorf(format, arguments...))
		}),
	})
	defer reader.Close()
	k.opened()
	for {
		m, err := k.fetch(ctx, reader, &troubled)
		if err != nil {
			return fmt.Errorf("receive from the topic %s: %w", k.o.Topic, err)
		}
		v, err := k.receive(ctx, m)
		if err != nil {
			return err
		}
		if err := reader.CommitMessages(ctx, m); err != nil {
			return fmt.Errorf("commit the offset %d of partition %d: %w", m.Offset, m.Partition, err)
		}
		k.acknowledged(v)
		k.opened()
	}
}

// fetch waits for a record. What failed meanwhile is over once a broker has answered
// that there is none, and nothing failed for a while: no record need come to show it.
func (k *Kafka) fetch(ctx context.Context, reader *kafka.Reader, troubled *atomic.Bool) (kafka.Message, error) {
	for {
		waiting, stop := context.WithTimeout(ctx, maxWait)
		m, err := reader.FetchMessage(waiting)
		nothing := err != nil && waiting.Err() != nil && ctx.Err() == nil
		stop()
		if !nothing {
			return m, err
		}
		// The reader counts such an answer as a timeout.
		answered := reader.Stats().Timeouts > 0
		if !troubled.Swap(false) && answered {
			k.opened()
		}
	}
}

// probe asks the brokers for the topic's partitions.
func (k *Kafka) probe(ctx context.Context, dialer *kafka.Dialer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, broker := range k.o.Brokers {
		var partitions []kafka.Partition
		if partitions, err = dialer.LookupPartitions(ctx, "tcp", broker, k.o.Topic); err == nil && len(partitions) > 0 {
			return nil
		}
	}
	if err == nil {
		err = kafka.UnknownTopicOrPartition
	}
	return fmt.Errorf("ask for the topic %s: %w", k.o.Topic, err)
}

// receive takes a record, and tries until it is stored: what lies behind it in its
// partition must not overtake it. The error is that of ctx.
func (k *Kafka) receive(ctx context.Context, m kafka.Message) (verdict, error) {
	at := fmt.Sprintf("%s/%d/%d", m.Topic, m.Partition, m.Offset)
	given := map[string]string{}
	for _, h := range m.Headers {
		given[h.Key] = string(h.Value)
	}
	// Without an id, the position is the key. A topic that was made again counts from 0
	// again: the record's time tells it from that of the first one. No id gives a key of
	// this form, which begins otherwise.
	key := fmt.Sprintf("kafka-position/%s/%d", at, m.Time.UnixMilli())
	if id := cmp.Or(given[keyHeader], given[idHeader]); id != "" {
		key = "kafka/" + m.Topic + "/" + id
	}
	for wait := k.o.RetryInitial; ; wait = min(2*wait, k.o.RetryMax) {
		v, err := k.take(ctx, message{key: key, at: "record " + at, sent: m.Time, data: m.Value})
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err == nil {
			return v, nil
		}
		k.failed(true, fmt.Errorf("store the record %s: %w", at, err))
		if !sleep(ctx, wait) {
			return 0, ctx.Err()
		}
	}
}
