package intake

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/internal/kafkawire"
)

// KafkaOptions say where commands are produced.
type KafkaOptions struct {
	Options
	Brokers []string // host:port
	Topic   string   // must exist
	Group   string   // the consumer group
	// Connect returns TLS and authentication, nil where there is none. It is called
	// for each session, so that files are read again.
	Connect func() (*tls.Config, *kafkawire.SASL, error)
}

// Headers of a record that name it, so that a producer that sends it twice is
// understood. The second is CloudEvents' id.
const (
	keyHeader = "idempotency-key"
	idHeader  = "ce_id"
)

// Kafka receives commands as a member of a consumer group. Commands of one ticket
// keep their order if they are produced to one partition, as those with one key are.
// An offset is committed once its record is stored or refused, never before.
type Kafka struct {
	connection
	o KafkaOptions
}

// NewKafka returns an intake that has not contacted any broker.
func NewKafka(o KafkaOptions) *Kafka { return &Kafka{connection: connection{o: o.Options}, o: o} }

// Run receives until ctx ends.
func (k *Kafka) Run(ctx context.Context) { k.run(ctx, k.session) }

// session receives as one member of the group, for as long as its coordinator knows it.
func (k *Kafka) session(ctx context.Context) error {
	config, sasl, err := k.o.Connect()
	if err != nil {
		return err
	}
	dialer := &kafkawire.Dialer{Brokers: k.o.Brokers, TLS: config, ClientID: k.o.Group}
	if sasl != nil {
		if dialer.Login, err = kafkawire.NewLogin(*sasl); err != nil {
			return err
		}
	}
	m := newMember(k, dialer)
	defer m.close(ctx)
	for wait := k.o.RetryInitial; ; {
		begun := time.Now()
		err := m.participate(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errRebalance) {
			wait = k.o.RetryInitial
			continue
		}
		if !m.rejoins(err) {
			return err
		}
		if !errors.Is(err, kerr.RebalanceInProgress) {
			k.failed(false, err)
		}
		if time.Since(begun) > k.o.RetryMax {
			wait = k.o.RetryInitial
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, k.o.RetryMax)
	}
}

// receive takes a record, and tries until it is stored: what lies behind it in its
// partition must not overtake it. The error is that of ctx.
func (k *Kafka) receive(ctx context.Context, partition int32, r kafkawire.Record) (verdict, error) {
	at := fmt.Sprintf("%s/%d/%d", k.o.Topic, partition, r.Offset)
	// Without an id, the position is the key. A topic that was made again counts from 0
	// again: the record's time tells it from that of the first one. No id gives a key of
	// this form, which begins otherwise.
	key := fmt.Sprintf("kafka-position/%s/%d", at, r.Time.UnixMilli())
	if id := cmp.Or(r.Header(keyHeader), r.Header(idHeader)); id != "" {
		key = "kafka/" + k.o.Topic + "/" + id
	}
	return k.untilDone(ctx, "store the record "+at, func() (verdict, error) {
		return k.take(ctx, message{key: key, at: "record " + at, sent: r.Time, data: r.Value})
	})
}

// refuseBatch takes a record batch that is too large to be read.
func (k *Kafka) refuseBatch(ctx context.Context, partition int32, b kafkawire.Batch) (verdict, error) {
	at := fmt.Sprintf("records %s/%d/%d to %d", k.o.Topic, partition, b.First, b.Last)
	return k.untilDone(ctx, "refuse the "+at, func() (verdict, error) {
		return k.refuse(ctx, Refusal{Message: at, Reason: kafkawire.ErrRecordsTooLarge.Error(), Sent: b.Time()})
	})
}

func (k *Kafka) untilDone(ctx context.Context, what string, try func() (verdict, error)) (verdict, error) {
	for wait := k.o.RetryInitial; ; wait = min(2*wait, k.o.RetryMax) {
		v, err := try()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err == nil {
			return v, nil
		}
		k.failed(true, fmt.Errorf("%s: %w", what, err))
		if !sleep(ctx, wait) {
			return 0, ctx.Err()
		}
	}
}
