package kafka

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkawire"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Send produces the events and waits until the brokers have acknowledged them.
// Events with one partition key go to one partition of their topic in their
// order, and no record batch of a partition is sent before the one in front of
// it was acknowledged. A partition whose batch failed in a way that may have
// stored it gets nothing more in this Send; the others go on. Where the topic
// changes between two events with one partition key, those from there on are not
// tried in this Send.
//
// A batch that a broker refuses for what is in it is sent again in halves until
// the event at fault is found. A lost acknowledgement stores a batch twice.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	b := &produceBatch{sink: s, began: time.Now(), events: events, errs: make(sinks.EventErrors, len(events))}
	topics := make([]string, len(events))
	distinct := map[string]bool{}
	for i, e := range events {
		topics[i] = s.topic.Expand(e)
		distinct[topics[i]] = true
	}
	if err := s.know(ctx, distinct); err != nil {
		s.cluster.doubt()
		return err
	}
	routes := b.route(topics)
	if err := s.equip(len(routes)); err != nil {
		return err
	}
	var brokers sync.WaitGroup
	free := make(chan *encoder, len(s.encoders))
	for _, e := range s.encoders {
		free <- e
	}
	for l, queues := range routes {
		brokers.Go(func() {
			e := <-free
			b.produce(ctx, l, e, queues)
			free <- e
		})
	}
	brokers.Wait()

	failed := false
	for _, err := range b.errs {
		if err == nil {
			continue
		}
		failed = true
		if class, _ := sinks.ClassOf(err); class != sinks.Rejected {
			s.cluster.doubt() // the leader may have moved, the topic may have gone
			break
		}
	}
	if failed {
		return b.errs
	}
	return nil
}

// maxAtOnce is how many brokers are produced to at once. Each takes the memory of an
// encoder, and it is the cluster that says how many leaders there are.
const maxAtOnce = 32

// equip makes sure that there is an encoder for each of so many brokers, up to
// maxAtOnce.
func (s *Sink) equip(brokers int) error {
	for len(s.encoders) < min(brokers, maxAtOnce) {
		codec, err := newCodec(s.compression)
		if err != nil {
			return err
		}
		s.encoders = append(s.encoders, &encoder{mode: s.mode, compression: s.compression, codec: codec, maxBytes: s.maxBytes})
	}
	return nil
}

// know makes sure that the layouts of the topics are known, and that the topics
// exist where the sink may make them.
func (s *Sink) know(ctx context.Context, topics map[string]bool) error {
	if err := s.cluster.know(ctx, topics); err != nil || s.create == nil {
		return err
	}
	var missing []string
	for topic := range topics {
		if s.cluster.topics[topic].unknown {
			missing = append(missing, topic)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	refused, err := s.cluster.create(ctx, *s.create, missing, false)
	if err != nil {
		return err
	}
	s.cluster.doubt()
	if err := s.cluster.know(ctx, topics); err != nil {
		return err
	}
	for _, topic := range missing {
		if layout := s.cluster.topics[topic]; layout.unknown {
			if layout.err = refused[topic]; layout.err == nil {
				layout.err = sinks.Errorf(sinks.Transient, "topic %s: it was made just now, and the brokers do not know it yet", topic)
			}
			s.cluster.topics[topic] = layout
		}
	}
	return nil
}

// Close closes the connections. A second call does nothing.
func (s *Sink) Close() error {
	s.cluster.close()
	return nil
}

// produceBatch is the events of one Send. Goroutines share it: each event belongs to
// one queue, and each queue to one goroutine, which alone writes its errors.
type produceBatch struct {
	sink   *Sink
	began  time.Time // the time of events that have none
	events []transform.Event
	errs   sinks.EventErrors // nil: acknowledged, or still in a queue
}

// partitionQueue is what one partition has yet to take.
type partitionQueue struct {
	topic     string
	partition int
	waiting   []int // indices of events, in order
	limit     int   // of events in the next record batch
	bytes     int   // that the topic takes in a record batch; 0: unknown
	sent      int   // events in the record batch under way
}

type eventRef struct {
	topic     string
	partition int
}

// route sorts the events into queues by partition, and those by their leaders.
// Events that cannot be sent get their errors.
func (b *produceBatch) route(topics []string) map[*kafkawire.Link][]*partitionQueue {
	queues := map[eventRef]*partitionQueue{}
	brokers := map[*kafkawire.Link][]*partitionQueue{}
	unreachable := map[eventRef]error{}
	several := slices.ContainsFunc(topics, func(topic string) bool { return topic != topics[0] })
	homes := map[string]string{} // where there are several topics: that of a partition key, "" once it has changed
	for i, e := range b.events {
		if home, ok := homes[e.PartitionKey]; !several {
			// Its one partition keeps the order of a key.
		} else if !ok {
			homes[e.PartitionKey] = topics[i]
		} else if home != topics[i] {
			homes[e.PartitionKey] = ""
			b.errs[i] = sinks.ErrNotTried
			continue
		}
		layout := b.sink.cluster.topics[topics[i]]
		if layout.err != nil {
			b.errs[i] = layout.err
			continue
		}
		at := eventRef{topics[i], partitionOf([]byte(e.PartitionKey), len(layout.leaders))}
		if err := unreachable[at]; err != nil {
			b.errs[i] = err
			continue
		}
		q := queues[at]
		if q == nil {
			l, err := b.sink.cluster.leader(at.topic, at.partition)
			if err != nil {
				b.errs[i], unreachable[at] = err, err
				continue
			}
			q = &partitionQueue{topic: at.topic, partition: at.partition, limit: len(b.events), bytes: layout.maxBytes}
			queues[at] = q
			brokers[l] = append(brokers[l], q)
		}
		q.waiting = append(q.waiting, i)
	}
	return brokers
}

// produce empties the queues of one broker, a record batch of each with every
// request.
func (b *produceBatch) produce(ctx context.Context, l *kafkawire.Link, encoder *encoder, queues []*partitionQueue) {
	for {
		request := b.request(encoder, queues)
		queues = slices.DeleteFunc(queues, func(q *partitionQueue) bool { return len(q.waiting) == 0 })
		if len(queues) == 0 {
			return
		}
		answer, err := l.Exchange(ctx, request)
		if err != nil {
			for _, q := range queues {
				b.fail(q, err)
			}
			return
		}
		response := answer.(*kmsg.ProduceResponse)
		for _, q := range queues {
			b.takeAnswer(q, response)
		}
	}
}

// request takes as much from the front of each queue as a record batch may hold,
// and rejects what no batch may hold.
func (b *produceBatch) request(encoder *encoder, queues []*partitionQueue) *kmsg.ProduceRequest {
	encoder.reset()
	request := kmsg.NewPtrProduceRequest()
	request.Acks = b.sink.acks
	// Less than the sink's own, so that the broker's answer comes first.
	request.TimeoutMillis = int32(b.sink.timeout.Milliseconds() / 2)
	byTopic := map[string]int{}
	for _, q := range queues {
		records := b.take(encoder, q)
		if records == nil {
			continue
		}
		at, ok := byTopic[q.topic]
		if !ok {
			at = len(request.Topics)
			byTopic[q.topic] = at
			request.Topics = append(request.Topics, kmsg.ProduceRequestTopic{Topic: q.topic})
		}
		request.Topics[at].Partitions = append(request.Topics[at].Partitions, kmsg.ProduceRequestTopicPartition{
			Partition: int32(q.partition), Records: records,
		})
	}
	return request
}

// take makes the queue's next record batch, nil where the queue is empty.
func (b *produceBatch) take(encoder *encoder, q *partitionQueue) []byte {
	for len(q.waiting) > 0 {
		records, taken := encoder.encode(b.events, q.waiting[:min(q.limit, len(q.waiting))], q.bytes, b.began)
		if taken > 0 {
			q.sent = taken
			return records
		}
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		b.errs[first] = sinks.Unsendable("event %s: its record batch of %d bytes is larger than max_message_bytes, %d",
			b.events[first].ID, len(records), b.sink.maxBytes)
	}
	return nil
}

// takeAnswer takes from the queue what the broker's answer decides.
func (b *produceBatch) takeAnswer(q *partitionQueue, response *kmsg.ProduceResponse) {
	answer := answerTo(q, response)
	if answer == nil {
		b.fail(q, sinks.Errorf(sinks.Transient, "topic %s, partition %d: the broker's answer leaves it out", q.topic, q.partition))
		return
	}
	if answer.ErrorCode == 0 {
		q.waiting = q.waiting[q.sent:]
		q.limit = min(2*q.limit, len(b.events))
		return
	}
	err := kafkawire.ErrorOfCode(answer.ErrorCode, brokerMessage(answer.ErrorMessage), "topic "+q.topic)
	if answer.ErrorCode == kerr.ThrottlingQuotaExceeded.Code {
		err.RetryAfter = time.Duration(response.ThrottleMillis) * time.Millisecond
	}
	switch {
	case err.Class != sinks.Rejected:
		b.fail(q, err)
	case b.blame(q, answer):
	case q.sent == 1:
		b.errs[q.waiting[0]] = err
		q.waiting = q.waiting[1:]
	default:
		q.limit = q.sent / 2
	}
}

// blame takes out of the queue the events that the broker names as those for
// which it refused a record batch (KIP-467), none of which it stored. It reports
// whether there were any.
func (b *produceBatch) blame(q *partitionQueue, answer *kmsg.ProduceResponseTopicPartition) bool {
	for _, named := range answer.ErrorRecords {
		if i := int(named.RelativeOffset); i >= 0 && i < q.sent {
			message := cmp.Or(brokerMessage(named.ErrorMessage), brokerMessage(answer.ErrorMessage))
			b.errs[q.waiting[i]] = kafkawire.ErrorOfCode(answer.ErrorCode, message, "topic "+q.topic)
		}
	}
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(i int) bool { return b.errs[i] != nil })
	return len(q.waiting) < before
}

// fail ends the queue: the record batch under way has failed, and what waits
// behind it must not overtake it.
func (b *produceBatch) fail(q *partitionQueue, err error) {
	for n, i := range q.waiting {
		b.errs[i] = err
		if n >= q.sent {
			b.errs[i] = sinks.ErrNotTried
		}
	}
	q.waiting = nil
}

func answerTo(q *partitionQueue, response *kmsg.ProduceResponse) *kmsg.ProduceResponseTopicPartition {
	for _, topic := range response.Topics {
		if topic.Topic != q.topic {
			continue
		}
		for i := range topic.Partitions {
			if int(topic.Partitions[i].Partition) == q.partition {
				return &topic.Partitions[i]
			}
		}
	}
	return nil
}
