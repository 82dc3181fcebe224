package kafka

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkawire"
	"ndrbridge/transform"
)

// Send produces the events and waits until the brokers have acknowledged them.
// Events with the same partition key go to one partition of their topic, in their
// order. A record batch of a partition is sent only after the previous one was
// acknowledged. If a batch failed but may have been stored, its partition gets
// nothing more in this Send; other partitions go on. If events with the same
// partition key go to different topics, the events after the first change of topic
// are not tried in this Send.
//
// If a broker rejects a batch because of its contents, the batch is halved until
// the event at fault is found. If an acknowledgement is lost, the batch is stored
// twice.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	b := &produceBatch{sink: s, began: time.Now(), events: events, errs: make(failure.EventErrors, len(events))}
	topics := make([]string, len(events))
	distinct := map[string]bool{}
	for i, e := range events {
		topics[i] = s.topic.Expand(e)
		distinct[topics[i]] = true
	}
	if err := s.ensureTopics(ctx, distinct); err != nil {
		s.cluster.invalidate()
		return err
	}
	routes := b.route(topics)
	if err := s.ensureEncoders(len(routes)); err != nil {
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

	if slices.ContainsFunc(b.errs, func(err error) bool {
		class, _ := failure.ClassOf(err)
		return err != nil && class != failure.Rejected
	}) {
		s.cluster.invalidate() // the leader may have moved, or the topic been deleted
	}
	return b.errs.OrNil()
}

// maxEncoders bounds the number of brokers to which a Send produces concurrently.
// Each needs the memory of an encoder, and the cluster decides how many leaders
// there are.
const maxEncoders = 32

// ensureEncoders makes sure that there is an encoder for each of the given number of
// brokers, up to maxEncoders.
func (s *Sink) ensureEncoders(brokers int) error {
	for len(s.encoders) < min(brokers, maxEncoders) {
		codec, err := newCodec(s.compression)
		if err != nil {
			return err
		}
		s.encoders = append(s.encoders, &encoder{mode: s.mode, compression: s.compression, codec: codec, maxBytes: s.maxBytes})
	}
	return nil
}

// ensureTopics makes sure that the layouts of the topics are known. If the sink may
// create topics, it creates the missing ones.
func (s *Sink) ensureTopics(ctx context.Context, topics map[string]bool) error {
	if err := s.cluster.ensureLayouts(ctx, topics); err != nil || s.create == nil {
		return err
	}
	var missing []string
	for topic := range topics {
		if s.cluster.topics[topic].missing {
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
	s.cluster.invalidate()
	if err := s.cluster.ensureLayouts(ctx, topics); err != nil {
		return err
	}
	for _, topic := range missing {
		if layout := s.cluster.topics[topic]; layout.missing {
			if layout.err = refused[topic]; layout.err == nil {
				layout.err = failure.Unavailable(failure.ScopePart, "topic %s: it was just created, and the brokers do not know it yet", topic)
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

// produceBatch is the state of one Send. Goroutines share it: each event belongs to
// one partitionQueue, and each queue to one goroutine, which alone writes the errors
// of its events.
type produceBatch struct {
	sink   *Sink
	began  time.Time // the timestamp of events without a time
	events []transform.Event
	errs   failure.EventErrors // nil: acknowledged, or still in a queue
}

// partitionQueue holds the events of one partition that are not acknowledged.
type partitionQueue struct {
	topicPartition
	waiting  []int // indices of events, in order
	limit    int   // of events in the next record batch
	maxBytes int   // of a record batch, by the topic's limit; 0: unknown
	sent     int   // events in the record batch in flight
}

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int
}

// route sorts the events into queues by partition and returns the queues by the
// partitions' leaders. It sets the errors of events that cannot be sent.
func (b *produceBatch) route(topics []string) map[*kafkawire.Link][]*partitionQueue {
	queues := map[topicPartition]*partitionQueue{}
	brokers := map[*kafkawire.Link][]*partitionQueue{}
	unreachable := map[topicPartition]error{}
	several := slices.ContainsFunc(topics, func(topic string) bool { return topic != topics[0] })
	keyTopics := map[string]string{} // with several topics: by partition key, "" once it has changed
	for i, e := range b.events {
		if topic, ok := keyTopics[e.PartitionKey]; !several {
			// All events of a key go to one partition, which keeps their order.
		} else if !ok {
			keyTopics[e.PartitionKey] = topics[i]
		} else if topic != topics[i] {
			keyTopics[e.PartitionKey] = ""
			b.errs[i] = failure.ErrNotTried
			continue
		}
		layout := b.sink.cluster.topics[topics[i]]
		if layout.err != nil {
			b.errs[i] = layout.err
			continue
		}
		at := topicPartition{topics[i], partitionOf([]byte(e.PartitionKey), len(layout.leaders))}
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
			q = &partitionQueue{topicPartition: at, limit: len(b.events), maxBytes: layout.maxBytes}
			queues[at] = q
			brokers[l] = append(brokers[l], q)
		}
		q.waiting = append(q.waiting, i)
	}
	return brokers
}

// produce sends the queues of one broker until they are empty, with one record batch
// of each queue per request.
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
				b.fail(q, ofPart(err)) // other brokers may be reached
			}
			return
		}
		response := answer.(*kmsg.ProduceResponse)
		for _, q := range queues {
			b.applyResponse(q, response)
		}
	}
}

// request returns a request with the next record batch of each queue. It rejects
// events that are too large for any batch.
func (b *produceBatch) request(encoder *encoder, queues []*partitionQueue) *kmsg.ProduceRequest {
	encoder.reset()
	request := kmsg.NewPtrProduceRequest()
	request.Acks = b.sink.acks
	// Shorter than the sink's timeout, so that the broker's answer arrives before it.
	request.TimeoutMillis = int32(b.sink.timeout.Milliseconds() / 2)
	byTopic := map[string]int{}
	for _, q := range queues {
		records := b.nextRecords(encoder, q)
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

// nextRecords returns the queue's next record batch, nil if the queue is empty.
func (b *produceBatch) nextRecords(encoder *encoder, q *partitionQueue) []byte {
	for len(q.waiting) > 0 {
		records, count := encoder.encode(b.events, q.waiting[:min(q.limit, len(q.waiting))], q.maxBytes, b.began)
		if count > 0 {
			q.sent = count
			return records
		}
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		b.errs[first] = failure.Unsendable("event %s: its record batch of %d bytes is larger than max_message_bytes, %d",
			b.events[first].ID, len(records), b.sink.maxBytes)
	}
	return nil
}

// applyResponse applies the broker's answer to the queue's record batch.
func (b *produceBatch) applyResponse(q *partitionQueue, response *kmsg.ProduceResponse) {
	answer := answerTo(q, response)
	if answer == nil {
		b.fail(q, failure.Unavailable(failure.ScopePart, "topic %s, partition %d: missing from the broker's answer", q.topic, q.partition))
		return
	}
	if answer.ErrorCode == 0 {
		q.waiting = q.waiting[q.sent:]
		q.limit = min(2*q.limit, len(b.events))
		return
	}
	err := kafkawire.ErrorOfProduce(answer.ErrorCode, brokerMessage(answer.ErrorMessage), "topic "+q.topic)
	if answer.ErrorCode == kerr.ThrottlingQuotaExceeded.Code {
		err.RetryAfter = time.Duration(response.ThrottleMillis) * time.Millisecond
	}
	switch {
	case err.Class != failure.Rejected:
		b.fail(q, err)
	case b.rejectNamed(q, answer):
	case q.sent == 1:
		b.errs[q.waiting[0]] = err
		q.waiting = q.waiting[1:]
	default:
		q.limit = q.sent / 2
	}
}

// rejectNamed removes from the queue the events that the broker names as the reason
// for rejecting a record batch (KIP-467), and sets their errors. It reports whether
// there were any. None of the batch was stored.
func (b *produceBatch) rejectNamed(q *partitionQueue, answer *kmsg.ProduceResponseTopicPartition) bool {
	for _, named := range answer.ErrorRecords {
		if i := int(named.RelativeOffset); i >= 0 && i < q.sent {
			message := cmp.Or(brokerMessage(named.ErrorMessage), brokerMessage(answer.ErrorMessage))
			b.errs[q.waiting[i]] = kafkawire.ErrorOfProduce(answer.ErrorCode, message, "topic "+q.topic)
		}
	}
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(i int) bool { return b.errs[i] != nil })
	return len(q.waiting) < before
}

// fail empties the queue because the record batch in flight failed. The events
// after it must not overtake it: they are not tried.
func (b *produceBatch) fail(q *partitionQueue, err error) {
	if class, _ := failure.ClassOf(err); q.sent > 1 && class == failure.Transient && failure.ScopeOf(err) == failure.ScopeEvent {
		err = &failure.Error{Class: class, Scope: failure.ScopeRequest, Err: err}
	}
	for n, i := range q.waiting {
		b.errs[i] = err
		if n >= q.sent {
			b.errs[i] = failure.ErrNotTried
		}
	}
	q.waiting = nil
}

// ofPart returns a Transient err as that of some partitions.
func ofPart(err error) error {
	if class, wait := failure.ClassOf(err); class == failure.Transient {
		return &failure.Error{Class: class, Scope: failure.ScopePart, RetryAfter: wait, Err: err}
	}
	return err
}

// Part implements sinks.Parted: a part of the target is a partition.
func (s *Sink) Part(e transform.Event) string {
	topic := s.topic.Expand(e)
	leaders := s.cluster.topics[topic].leaders
	if len(leaders) == 0 {
		return ""
	}
	return topic + "/" + strconv.Itoa(partitionOf([]byte(e.PartitionKey), len(leaders)))
}

// answerTo returns the answer for the queue's partition, nil if there is none.
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
