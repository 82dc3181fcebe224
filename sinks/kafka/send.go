package kafka

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Send produces the events and waits until the brokers have acknowledged them. Events with the
// same partition key go to one partition of their topic, in their order: a record batch is sent
// only after the previous one of its partition was acknowledged. If it failed but may have been
// stored, its partition gets nothing more in this Send; other partitions go on. If the topic of a
// partition key changes, the events from there on are not tried in this Send.
//
// If a broker rejects a batch because of its contents, the batch is halved until the event at
// fault is found. If an acknowledgement is lost, the batch is stored twice.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	b := &produceBatch{sink: s, events: events, errs: make(failure.EventErrors, len(events))}
	topics := make([]string, len(events))
	distinct := map[string]bool{}
	for i, e := range events {
		topics[i] = s.topic.Expand(e)
		distinct[topics[i]] = true
	}
	if err := s.load(ctx, distinct); err != nil {
		s.reset()
		return err
	}
	var brokers sync.WaitGroup
	slots := make(chan struct{}, maxBrokers)
	for _, queues := range b.route(topics) {
		brokers.Go(func() {
			slots <- struct{}{}
			b.produce(ctx, queues)
			<-slots
		})
	}
	brokers.Wait()

	if slices.ContainsFunc(b.errs, func(err error) bool {
		class, _ := failure.ClassOf(err)
		return err != nil && class != failure.Rejected
	}) {
		s.reset() // the leader may have moved, or a request still be in flight
	}
	return b.errs.OrNil()
}

// maxBrokers bounds the number of brokers to which a Send produces concurrently.
// Each needs the memory of an encoder, and the cluster decides how many leaders
// there are.
const maxBrokers = 32

// reset closes the connections and makes the next Send load the topics again.
func (s *Sink) reset() {
	s.loaded = time.Time{}
	s.client.Close()
}

// Close closes the connections. A second call does nothing.
func (s *Sink) Close() error {
	s.client.Close()
	return nil
}

// produceBatch is the state of one Send. Goroutines share it: each event belongs to
// one partitionQueue, and each queue to one goroutine, which alone writes the errors
// of its events.
type produceBatch struct {
	sink   *Sink
	events []transform.Event
	errs   failure.EventErrors // nil: acknowledged, or still in a queue
}

// partitionQueue holds the events of one partition that are not acknowledged.
type partitionQueue struct {
	topicPartition
	waiting []int // indices of events, in order
	limit   int   // of events in the next record batch
	sent    int   // events in the record batch in flight
}

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int
}

// route sorts the events into queues by partition and returns the queues by the
// partitions' leaders. It sets the errors of events that cannot be sent.
func (b *produceBatch) route(topics []string) map[int32][]*partitionQueue {
	queues := map[topicPartition]*partitionQueue{}
	leaders := map[int32][]*partitionQueue{}
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
		topic := b.sink.topics[topics[i]]
		if topic.err != nil {
			b.errs[i] = topic.err
			continue
		}
		at := topicPartition{topics[i], topic.partition(e.PartitionKey)}
		leader := topic.leaders[at.partition]
		if leader < 0 {
			b.errs[i] = failure.Unavailable(failure.ScopePart, "topic %s, partition %d: it has no leader at the moment", at.topic, at.partition)
			continue
		}
		q := queues[at]
		if q == nil {
			q = &partitionQueue{topicPartition: at, limit: len(b.events)}
			queues[at] = q
			leaders[leader] = append(leaders[leader], q)
		}
		q.waiting = append(q.waiting, i)
	}
	return leaders
}

// produce sends the queues of one broker until they are empty, with one record batch
// of each queue per request.
func (b *produceBatch) produce(ctx context.Context, queues []*partitionQueue) {
	client, encoder := b.sink.client, b.sink.encoders.Get().(*encoder)
	for {
		request := b.request(encoder, queues)
		queues = slices.DeleteFunc(queues, func(q *partitionQueue) bool { return len(q.waiting) == 0 })
		if len(queues) == 0 {
			b.sink.encoders.Put(encoder)
			return
		}
		answer, err := client.Transport.RoundTrip(ctx, client.Addr, request)
		if err != nil {
			for _, q := range queues {
				failed := client.Dialer.Error(ctx, err, "topic "+q.topic)
				if failed.Class == failure.Transient {
					failed.Scope = failure.ScopePart // other brokers may be reached
				}
				b.fail(q, failed)
			}
			return // without the encoder: kafka.Transport may still read the request
		}
		for _, q := range queues {
			b.applyResponse(ctx, q, answer.(*produce.Response))
		}
	}
}

// request returns a request with the next record batch of each queue. It rejects
// events that are too large for any batch.
func (b *produceBatch) request(encoder *encoder, queues []*partitionQueue) *rawproduce.Request {
	encoder.reset()
	// The timeout is shorter than the sink's, so that the broker's answer arrives before it.
	request := &rawproduce.Request{Acks: int16(b.sink.acks), Timeout: int32(b.sink.timeout.Milliseconds() / 2)}
	byTopic := map[string]int{}
	for _, q := range queues {
		batch := b.nextBatch(encoder, q)
		if batch == nil {
			continue
		}
		at, ok := byTopic[q.topic]
		if !ok {
			at = len(request.Topics)
			byTopic[q.topic] = at
			request.Topics = append(request.Topics, rawproduce.RequestTopic{Topic: q.topic})
		}
		request.Topics[at].Partitions = append(request.Topics[at].Partitions, rawproduce.RequestPartition{
			Partition: int32(q.partition), RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(batch)},
		})
	}
	return request
}

// nextBatch returns the queue's next record batch behind its size, nil if the queue is empty.
func (b *produceBatch) nextBatch(encoder *encoder, q *partitionQueue) []byte {
	for len(q.waiting) > 0 {
		batch, count := encoder.encode(b.events, q.waiting[:min(q.limit, len(q.waiting))])
		if count > 0 {
			q.sent = count
			return batch
		}
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		b.errs[first] = failure.Unsendable("event %s: its record batch of %d bytes is larger than max_message_bytes, %d",
			b.events[first].ID, len(batch)-sizeSize, b.sink.maxBytes)
	}
	return nil
}

// applyResponse applies the broker's answer to the queue's record batch.
func (b *produceBatch) applyResponse(ctx context.Context, q *partitionQueue, response *produce.Response) {
	answer := answerTo(q, response)
	if answer == nil {
		b.fail(q, failure.Unavailable(failure.ScopePart, "topic %s, partition %d: missing from the broker's answer", q.topic, q.partition))
		return
	}
	if answer.ErrorCode == 0 {
		if report := sinks.Receipts(ctx); report != nil {
			report(fmt.Sprintf("topic %s, partition %d, offset %d", q.topic, q.partition, answer.BaseOffset))
		}
		q.waiting = q.waiting[q.sent:]
		q.limit = min(2*q.limit, len(b.events))
		return
	}
	dialer := b.sink.client.Dialer
	err := dialer.ErrorOfProduce(answer.ErrorCode, answer.ErrorMessage, "topic "+q.topic)
	if kafka.Error(answer.ErrorCode) == kafka.ThrottlingQuotaExceeded {
		err.RetryAfter = time.Duration(response.ThrottleTimeMs) * time.Millisecond
	}
	if err.Class != failure.Rejected {
		b.fail(q, err)
		return
	}
	// The broker may name the events at fault (KIP-467). None of the batch was stored.
	left := len(q.waiting)
	for _, named := range answer.RecordErrors {
		if i := int(named.BatchIndex); i >= 0 && i < q.sent {
			message := cmp.Or(named.BatchIndexErrorMessage, answer.ErrorMessage)
			b.errs[q.waiting[i]] = dialer.ErrorOfProduce(answer.ErrorCode, message, "topic "+q.topic)
		}
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(i int) bool { return b.errs[i] != nil })
	switch {
	case len(q.waiting) < left:
	case q.sent == 1:
		b.errs[q.waiting[0]] = err
		q.waiting = q.waiting[1:]
	default:
		q.limit = q.sent / 2
	}
}

// answerTo returns the answer for the queue's partition, nil if there is none.
func answerTo(q *partitionQueue, response *produce.Response) *produce.ResponsePartition {
	for _, topic := range response.Topics {
		for i, p := range topic.Partitions {
			if topic.Topic == q.topic && int(p.Partition) == q.partition {
				return &topic.Partitions[i]
			}
		}
	}
	return nil
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

// Part implements sinks.Parted: a part of the target is a partition.
func (s *Sink) Part(e transform.Event) string {
	name := s.topic.Expand(e)
	topic := s.topics[name]
	if len(topic.partitions) == 0 {
		return ""
	}
	return name + "/" + strconv.Itoa(topic.partition(e.PartitionKey))
}
