package intake

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/internal/kafkawire"
)

// KafkaOptions configure a Kafka intake.
type KafkaOptions struct {
	Options
	Brokers []string // host:port
	Topic   string   // must exist
	Group   string   // the consumer group
	// Connect returns the TLS configuration and the authentication, each nil for none.
	// It is called for each session, so that files are read again.
	Connect func() (*tls.Config, *kafkawire.SASL, error)
}

// Headers that identify a record, so that a record sent twice is recognized. The second
// one is the id of CloudEvents.
const (
	keyHeader = "idempotency-key"
	idHeader  = "ce_id"
)

// Kafka receives commands as a member of a consumer group. Commands for one ticket keep
// their order if they are produced to one partition, as records with the same key are.
// An offset is committed only after its record was stored or refused.
type Kafka struct {
	connection
	o KafkaOptions
}

// NewKafka returns an intake. It does not contact any broker.
func NewKafka(o KafkaOptions) *Kafka { return &Kafka{connection: connection{o: o.Options}, o: o} }

// Run receives until ctx is done.
func (k *Kafka) Run(ctx context.Context) { k.run(ctx, k.session) }

// session receives as one member of the group, until its coordinator no longer knows
// it.
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
	m := &member{
		k: k, dialer: dialer, control: kafkawire.NewLink(dialer, ""),
		asking: map[string]*kafkawire.Link{}, failures: failures{k: k, of: map[string]bool{}},
	}
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

// receive takes a record and retries until it is stored, because later records of the
// partition must not overtake it. It returns an error only if ctx is done.
func (k *Kafka) receive(ctx context.Context, partition int32, r kafkawire.Record) (refused bool, err error) {
	at := fmt.Sprintf("%s/%d/%d", k.o.Topic, partition, r.Offset)
	// A record without an id is identified by its position. The offsets of a recreated
	// topic start at 0 again; the record's time distinguishes it from an earlier one.
	// Keys made from ids begin with another prefix.
	key := fmt.Sprintf("kafka-position/%s/%d", at, r.Time.UnixMilli())
	if id := cmp.Or(r.Header(keyHeader), r.Header(idHeader)); id != "" {
		key = "kafka/" + k.o.Topic + "/" + id
	}
	err = k.untilDone(ctx, "store the record "+at, func() (err error) {
		refused, err = k.take(ctx, key, r.Value, Refusal{Message: "record " + at, Sent: r.Time})
		return err
	})
	return refused, err
}

// refuseBatch refuses a record batch that is too large to be read.
func (k *Kafka) refuseBatch(ctx context.Context, partition int32, b kafkawire.Batch) (refused bool, err error) {
	at := fmt.Sprintf("records %s/%d/%d to %d", k.o.Topic, partition, b.First, b.Last)
	return true, k.untilDone(ctx, "refuse the "+at, func() error {
		return k.refuse(ctx, Refusal{Message: at, Reason: kafkawire.ErrRecordsTooLarge.Error(), Sent: b.Time()})
	})
}

func (k *Kafka) untilDone(ctx context.Context, what string, try func() error) error {
	for wait := k.o.RetryInitial; ; wait = min(2*wait, k.o.RetryMax) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		k.failed(true, fmt.Errorf("%s: %w", what, err))
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// failures tracks the failing parts of a session while others work. It is safe for
// concurrent use.
type failures struct {
	k  *Kafka
	mu sync.Mutex
	of map[string]bool
}

func (f *failures) begin(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[what] = true
	f.k.failed(true, err)
}

// clear removes all failures.
func (f *failures) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.of)
	f.k.opened()
}

// end removes a failure. The intake is open without an error once there is none.
func (f *failures) end(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, what)
	if len(f.of) == 0 {
		f.k.opened()
	}
}
