package intake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
)

// KafkaOptions configure a Kafka intake.
type KafkaOptions struct {
	Options
	Brokers []string // host:port
	Topic   string   // must exist
	Group   string   // the consumer group
	// Connect returns the TLS configuration and the authentication, each nil for none.
	// It is called for each session, so that files are read again.
	Connect func() (*tls.Config, *kafkaconn.SASL, error)
}

// Headers that identify a record, so that a record sent twice is recognized. The second
// one is the id of CloudEvents.
const (
	keyHeader = "idempotency-key"
	idHeader  = "ce_id"
)

// Parameters of the group membership. The partitions of a crashed member stay unread
// until its session times out.
const (
	heartbeatInterval = time.Second
	rebalanceTimeout  = 5 * time.Second
	sessionTimeout    = 10 * time.Second
	// watchInterval is how often new partitions are looked for.
	watchInterval = 10 * time.Second
	// leaveTimeout limits the time in which requests of the group may end at a stop, and then
	// the time to leave the group.
	leaveTimeout = time.Second

	// fetchBytes is the maximum size of a fetch, unless a record batch is larger.
	fetchBytes = 1 << 20
	// maxWait is how long a broker may wait for records before it answers, and minWait how long
	// if other partitions wait for their turn.
	maxWait, minWait = time.Second, 100 * time.Millisecond
	// maxFetches bounds the answers in memory.
	maxFetches = 4
	// maxPartitions bounds the goroutines that a broker can start by an assignment.
	maxPartitions = 1000
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

// session is a membership of the consumer group, of one generation after another.
type session struct {
	*Kafka
	client  *kafkaconn.Client
	end     context.CancelCauseFunc
	fetches chan struct{} // has an element for each answer in memory
	one     sync.Mutex    // held while a record is processed, so that none overtakes another

	mu      sync.Mutex
	failing map[int]bool // partitions
}

// session receives as one member of the group until something concerns all of it. Files
// and the committed offsets are read again by the next one.
func (k *Kafka) session(parent context.Context) error {
	config, sasl, err := k.o.Connect()
	if err != nil {
		return err
	}
	dialer := &kafkaconn.Dialer{Brokers: k.o.Brokers, TLS: config, ClientID: k.o.Group}
	if sasl != nil {
		if dialer.Login, err = kafkaconn.NewLogin(*sasl); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	s := &session{Kafka: k, client: kafkaconn.NewClient(dialer, kafkaconn.DialTimeout, k.o.Brokers...), end: end, fetches: make(chan struct{}, maxFetches)}
	defer s.client.Close()
	if _, err := s.client.Connect(ctx, ctx, k.o.Topic); err != nil {
		return dialer.Error(ctx, err, "ask for the topic "+k.o.Topic)
	}
	if err := s.findTopic(ctx); err != nil {
		return err
	}
	// Requests of the group outlive ctx for a moment, so that an offset is committed, and because
	// kafka-go forgets the member's id if joining fails, and could not leave
	// (segmentio/kafka-go#1215). It leaves by a new connection.
	life, cut := context.WithCancel(context.WithoutCancel(parent))
	receiving, quit := context.WithCancel(life)
	defer cut()
	defer context.AfterFunc(parent, func() {
		time.AfterFunc(leaveTimeout, quit)
		time.AfterFunc(2*leaveTimeout, cut)
	})()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		if receiving.Err() != nil {
			return dialer.Dial(ctx, life, address)
		}
		return dialer.Dial(ctx, receiving, address)
	}
	group, err := kafka.NewConsumerGroup(s.groupConfig(dial))
	if err != nil {
		return err
	}
	defer group.Close()
	for {
		generation, err := group.Next(ctx)
		if errors.Is(err, kafka.RebalanceInProgress) {
			continue
		}
		if err == nil {
			err = s.findTopic(ctx) // to kafka-go, a missing one has no partitions
		} else if ctx.Err() == nil {
			err = dialer.Error(ctx, err, "join the group "+k.o.Group)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := s.receive(generation); err != nil {
			return err
		}
	}
}

// groupConfig returns the configuration of a group whose connections dial makes.
func (s *session) groupConfig(dial func(ctx context.Context, network, address string) (net.Conn, error)) kafka.ConsumerGroupConfig {
	brokers := slices.Clone(s.o.Brokers) // the group asks the first one that answers
	rand.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
	dialer := &kafka.Dialer{ClientID: s.o.Group, Timeout: kafkaconn.DialTimeout, DialFunc: dial}
	if login := s.client.Dialer.Login; login != nil {
		dialer.SASLMechanism = login
	}
	return kafka.ConsumerGroupConfig{
		ID: s.o.Group, Brokers: brokers, Topics: []string{s.o.Topic}, Dialer: dialer, StartOffset: kafka.FirstOffset,
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: heartbeatInterval, RebalanceTimeout: rebalanceTimeout, SessionTimeout: sessionTimeout,
		JoinGroupBackoff: s.o.RetryInitial, WatchPartitionChanges: true, PartitionWatchInterval: watchInterval, Timeout: kafkaconn.DialTimeout,
	}
}

// findTopic returns an error if the topic does not exist.
func (s *session) findTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaconn.DialTimeout)
	defer cancel()
	answer, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{s.o.Topic}})
	if err == nil {
		err = answer.Topics[0].Error
	}
	if err != nil {
		return s.client.Dialer.Error(ctx, err, "ask for the topic "+s.o.Topic)
	}
	return nil
}

// receive starts to receive from the partitions that are assigned in a generation.
func (s *session) receive(g *kafka.Generation) error {
	offsets := map[int]int64{} // by partition
	for _, p := range g.Assignments[s.o.Topic] {
		offsets[p.ID] = p.Offset
	}
	if len(offsets) > maxPartitions {
		return fmt.Errorf("join the group %s: it is assigned %d partitions; the limit is %d", s.o.Group, len(offsets), maxPartitions)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = map[int]bool{}
	s.opened()
	wait := max(minWait, maxWait*maxFetches/time.Duration(max(len(offsets), maxFetches)))
	for number, offset := range offsets {
		g.Start(func(ctx context.Context) {
			(&partition{session: s, generation: g, number: number, position: offset, wait: wait}).receive(ctx)
		})
	}
	return nil
}

// partition is one that is assigned in a generation.
type partition struct {
	*session
	generation *kafka.Generation
	number     int
	position   int64         // of the next record; negative: the first one available
	wait       time.Duration // for records
}

// receive processes records until ctx is done or an offset cannot be committed. The record of that
// offset is delivered again and recognized by its key. It ends the session if files may have to
// be read again, or if the topic is missing: it would go on at the old offset once the topic is
// created again.
func (p *partition) receive(ctx context.Context) {
	for wait := p.o.RetryInitial; ; {
		select {
		case p.fetches <- struct{}{}:
		case <-ctx.Done():
			return
		}
		lost, err := p.fetch(ctx)
		<-p.fetches
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			err = p.client.Dialer.Login.HideError(fmt.Errorf("partition %d: %w", p.number, err))
		}
		if p.report(err); err == nil {
			wait = p.o.RetryInitial
			continue
		}
		missing := errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
		if class, _ := failure.ClassOf(p.client.Dialer.Error(ctx, err, "")); missing || class == failure.Halted {
			p.end(err)
		}
		if lost || !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, p.o.RetryMax)
	}
}

// report notes the result of the last attempt. The intake is open without an error once all
// partitions work.
func (p *partition) report(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failing[p.number] = true
		p.failed(true, err)
		return
	}
	if delete(p.failing, p.number); len(p.failing) == 0 {
		p.opened()
	}
}

// fetch requests records once and processes them. lost reports that an offset could not be
// committed.
func (p *partition) fetch(ctx context.Context) (lost bool, err error) {
	within, cancel := context.WithTimeout(ctx, kafkaconn.DialTimeout+p.wait)
	defer cancel()
	if p.position < 0 {
		return false, p.seek(within)
	}
	set, err := p.client.Fetch(within, p.o.Topic, p.number, p.position, p.wait, fetchBytes)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return false, p.seek(within)
	}
	if err != nil {
		return false, err
	}
	began := p.position
	for rest := set; ; {
		b, behind, ok, err := nextBatch(rest)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		rest = behind
		for r, err := range b.all() {
			lost := false
			if err == nil && r.offset >= p.position {
				lost, err = p.process(ctx, r)
			}
			if err != nil {
				return lost, err
			}
		}
		p.position = max(p.position, b.last+1) // skips compacted records and control batches
	}
	if p.position == began && len(set) > 0 {
		return false, fmt.Errorf("the broker's answer of %d bytes holds no complete record batch from offset %d", len(set), began)
	}
	return false, nil
}

// process stores the commands of a record, or refuses it, and commits the offset after it. It
// retries until that is stored, because later records must not overtake it; only one is processed
// at a time across all partitions.
func (p *partition) process(ctx context.Context, r record) (lost bool, err error) {
	p.one.Lock()
	defer p.one.Unlock()
	at := fmt.Sprintf("%s/%d/%d", p.o.Topic, p.number, r.first)
	// A record without an id is identified by its position. The offsets of a recreated
	// topic start at 0 again; the record's time distinguishes it from an earlier one.
	// Keys made from ids begin with another prefix.
	key := fmt.Sprintf("kafka-position/%s/%d", at, r.time.UnixMilli())
	if r.id != "" {
		key = "kafka/" + p.o.Topic + "/" + r.id
	}
	about := Refusal{Message: "record " + at, Sent: r.time}
	if r.tooLarge {
		about.Message, about.Reason = fmt.Sprintf("records %s to %d", at, r.offset), errRecordsTooLarge.Error()
	}
	refused := r.tooLarge
	for wait := p.o.RetryInitial; ; wait = min(2*wait, p.o.RetryMax) {
		if r.tooLarge {
			err = p.refuse(ctx, about)
		} else {
			refused, err = p.store(ctx, key, r.value, about)
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err == nil {
			break
		}
		p.failed(true, fmt.Errorf("store the %s: %w", about.Message, err))
		if !sleep(ctx, wait) {
			return false, ctx.Err()
		}
	}
	if err := p.generation.CommitOffsets(map[string]map[int]int64{p.o.Topic: {p.number: r.offset + 1}}); err != nil {
		return true, fmt.Errorf("commit the offset %d: %w", r.offset+1, err)
	}
	p.position = r.offset + 1
	p.acknowledged(refused)
	p.report(nil) // earlier attempts may have failed
	return false, nil
}

// seek moves the position to the first record if there is none, or if earlier ones were
// deleted. It is an error if the position is after the end: going back would repeat commands
// that were carried out long ago.
func (p *partition) seek(ctx context.Context) error {
	var asked []listoffsets.RequestPartition
	for _, which := range []int64{kafka.FirstOffset, kafka.LastOffset} {
		asked = append(asked, listoffsets.RequestPartition{Partition: int32(p.number), CurrentLeaderEpoch: -1, Timestamp: which})
	}
	answer, err := p.client.Transport.RoundTrip(ctx, p.client.Addr, &listoffsets.Request{
		ReplicaID: -1, Topics: []listoffsets.RequestTopic{{Topic: p.o.Topic, Partitions: asked}},
	})
	if err != nil {
		return fmt.Errorf("ask for offsets: %w", err)
	}
	offsets := map[int64]int64{} // by which was asked for
	for _, topic := range answer.(*listoffsets.Response).Topics {
		for _, o := range topic.Partitions {
			if topic.Topic != p.o.Topic || int(o.Partition) != p.number {
				continue
			}
			if o.ErrorCode != 0 {
				return fmt.Errorf("ask for offsets: %w", kafka.Error(o.ErrorCode))
			}
			offsets[o.Timestamp] = o.Offset
		}
	}
	first, end := offsets[kafka.FirstOffset], offsets[kafka.LastOffset]
	switch {
	case len(offsets) < len(asked) || first < 0:
		return errors.New("ask for offsets: the broker's answer does not contain the partition")
	case p.position > end:
		return fmt.Errorf("the group's offset %d is after the end of the partition, %d: records were lost; reset the group's offset", p.position, end)
	case p.position >= 0 && first > p.position:
		p.o.Log.Warn("records of ticket commands were deleted from the topic before they were received",
			"topic", p.o.Topic, "partition", p.number, "from", p.position, "to", first-1)
	}
	p.position = max(p.position, first)
	return nil
}
