package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
)

// maxAge is how long topics and connections are used unless an error ends that. Added
// partitions are used after that time.
const maxAge = 5 * time.Minute

// topic is a topic as the brokers describe it.
type topic struct {
	leaders    []int32 // node ids by partition, -1: none
	partitions []int   // their numbers
	err        *failure.Error
	missing    bool // the topic does not exist; err is set
}

// partition returns the partition of a key, as the default partitioner of Kafka's Java
// client does, so that records of other producers with the same key go to the same
// partition.
func (t topic) partition(key string) int {
	return kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: []byte(key)}, t.partitions...)
}

// load makes sure that the topics are known and fresh. If the sink may create topics, it creates
// the missing ones. It returns an error if no broker answers; that of a single topic is in it.
func (s *Sink) load(ctx context.Context, names map[string]bool) error {
	fresh := time.Since(s.loaded) < maxAge
	for name := range names {
		_, known := s.topics[name]
		fresh = fresh && known
	}
	if fresh {
		return nil
	}
	both := maps.Clone(names)
	for name := range s.topics {
		both[name] = true
	}
	all := slices.Sorted(maps.Keys(both))
	topics, err := s.request(ctx, all)
	if err != nil {
		return err
	}
	var missing []string
	for name := range names {
		if s.create != nil && topics[name].missing {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		refused, err := s.createTopics(ctx, s.client, missing, false)
		if err != nil {
			return err
		}
		if topics, err = s.request(ctx, all); err != nil {
			return err
		}
		for _, name := range missing {
			if t := topics[name]; t.missing {
				if t.err = refused[name]; t.err == nil {
					t.err = failure.Unavailable(failure.ScopePart, "topic %s: it was just created, and the brokers do not know it yet", name)
				}
				topics[name] = t
			}
		}
	}
	s.topics, s.loaded = topics, time.Now()
	return nil
}

// request requests the topics by new connections.
func (s *Sink) request(ctx context.Context, names []string) (map[string]topic, error) {
	answer, err := s.client.Connect(ctx, context.Background(), names...)
	if err != nil {
		return nil, s.client.Dialer.Error(ctx, err, "request the topics")
	}
	topics := map[string]topic{}
	for _, name := range names {
		topics[name] = topic{err: failure.Unavailable(failure.ScopePart, "topic %s: missing from the broker's answer", name)}
	}
	for _, t := range answer.Topics {
		if _, requested := topics[t.Name]; requested {
			topics[t.Name] = s.topicOf(t)
		}
	}
	return topics, nil
}

// topicOf returns a topic by its metadata.
func (s *Sink) topicOf(t metadata.ResponseTopic) topic {
	switch {
	case kafka.Error(t.ErrorCode) == kafka.UnknownTopicOrPartition:
		return topic{missing: true, err: failure.Advise(failure.Halted, "create it, set create_topic, or correct topic",
			fmt.Errorf("topic %s does not exist, or the user may not describe it", t.Name))}
	case t.ErrorCode != 0:
		return topic{err: s.client.Dialer.Error(context.Background(), kafka.Error(t.ErrorCode), "topic "+t.Name)}
	case len(t.Partitions) == 0:
		return topic{err: failure.Unavailable(failure.ScopePart, "topic %s: it has no partitions yet", t.Name)}
	}
	var made topic
	for i, p := range t.Partitions { // by number
		// The number of partitions decides the partition of a key: an incomplete list
		// would select a wrong one.
		if int(p.PartitionIndex) != i {
			return topic{err: failure.Unavailable(failure.ScopePart, "topic %s: the broker lists only some of its partitions", t.Name)}
		}
		made.leaders, made.partitions = append(made.leaders, p.LeaderID), append(made.partitions, i)
	}
	return made
}

// createTopics creates topics and returns the errors of the refused ones. It may
// take a moment until all brokers know the others. If dry is set, the request is only validated.
func (s *Sink) createTopics(ctx context.Context, c *kafkaconn.Client, names []string, dry bool) (refused map[string]*failure.Error, err error) {
	request := &kafka.CreateTopicsRequest{ValidateOnly: dry}
	for _, name := range names {
		// -1 is the broker's default (KIP-464).
		request.Topics = append(request.Topics, kafka.TopicConfig{
			Topic: name, NumPartitions: cmp.Or(s.create.Partitions, -1), ReplicationFactor: cmp.Or(s.create.Replication, -1),
		})
	}
	answer, err := c.CreateTopics(ctx, request)
	if err != nil {
		return nil, c.Dialer.Error(ctx, err, fmt.Sprintf("create topics %v", names))
	}
	refused = map[string]*failure.Error{}
	for name, err := range answer.Errors {
		if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			refused[name] = c.Dialer.Error(ctx, err, "create topic "+name)
		}
	}
	return refused, nil
}
