package kafka

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"ndrbridge/sinks"
)

// maxAge is how long a layout is believed without an error that casts doubt on
// it: partitions that somebody adds are used after that time.
const maxAge = 5 * time.Minute

// cluster is what the sink knows of the brokers and topics, and its connections.
// It is not safe for concurrent use, but each of its links may be used by a
// goroutine of its own.
type cluster struct {
	seeds  []string
	dialer *dialer
	links  map[string]*link // by address

	asked   time.Time         // zero: what follows is not to be believed
	brokers map[int32]string  // addresses by node id
	control int32             // node id of the controller
	topics  map[string]layout // by name: every topic that was asked for
}

// layout is what is known of a topic.
type layout struct {
	leaders  []int32 // node ids by partition, -1: none
	maxBytes int     // of a record batch, by the topic's max.message.bytes; 0: not known
	err      *sinks.Error
	unknown  bool // err says that there is no such topic
}

func newCluster(seeds []string, d *dialer) *cluster {
	return &cluster{seeds: seeds, dialer: d, links: map[string]*link{}, topics: map[string]layout{}}
}

// doubt makes the next know ask again.
func (c *cluster) doubt() { c.asked = time.Time{} }

// know makes sure that the layouts of the topics are known and fresh. A topic
// with a fault of its own has it in its layout; the error is that no broker
// answers.
func (c *cluster) know(ctx context.Context, topics map[string]bool) error {
	fresh := time.Since(c.asked) < maxAge
	for topic := range topics {
		_, known := c.topics[topic]
		fresh = fresh && known
	}
	if fresh {
		return nil
	}
	names := slices.Sorted(maps.Keys(topics))
	for topic := range c.topics {
		if !topics[topic] {
			names = append(names, topic)
		}
	}
	return c.ask(ctx, names)
}

// ask learns the layout from the first broker that answers.
func (c *cluster) ask(ctx context.Context, names []string) error {
	var failed error
	for _, address := range c.addresses() {
		answer, err := c.link(address).exchange(ctx, &metadata.Request{TopicNames: names})
		if err == nil {
			c.learn(answer.(*metadata.Response))
			c.learnLimits(ctx, address)
			return nil
		}
		// A refusal tells more than a broker that is down beside it.
		if class, _ := sinks.ClassOf(err); failed == nil || class == sinks.Halted {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// addresses are the brokers that are worth asking: those with a connection, then
// the others.
func (c *cluster) addresses() []string {
	var connected, others []string
	for _, address := range slices.Concat(slices.Sorted(maps.Values(c.brokers)), c.seeds) {
		switch l := c.links[address]; {
		case slices.Contains(connected, address) || slices.Contains(others, address):
		case l != nil && l.conn != nil:
			connected = append(connected, address)
		default:
			others = append(others, address)
		}
	}
	return append(connected, others...)
}

func (c *cluster) learn(response *metadata.Response) {
	c.asked, c.control = time.Now(), response.ControllerID
	c.brokers = make(map[int32]string, len(response.Brokers))
	for _, b := range response.Brokers {
		c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for address, l := range c.links {
		if !slices.Contains(c.addresses(), address) {
			l.close()
			delete(c.links, address)
		}
	}
	for _, t := range response.Topics {
		c.topics[t.Name] = layoutOf(t)
	}
}

// learnLimits asks how large a record batch each topic takes, so that no larger
// one is sent in vain. A user who may not know finds out by being refused.
func (c *cluster) learnLimits(ctx context.Context, address string) {
	var names []string
	for name, layout := range c.topics {
		if layout.err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	answer, err := c.describe(ctx, address, names, maxMessage)
	if err != nil {
		return
	}
	for _, topic := range answer.Resources {
		for _, entry := range topic.ConfigEntries {
			bytes, err := strconv.Atoi(entry.ConfigValue)
			if layout, ok := c.topics[topic.ResourceName]; ok && err == nil && entry.ConfigName == maxMessage {
				layout.maxBytes = bytes
				c.topics[topic.ResourceName] = layout
			}
		}
	}
}

// maxMessage is the setting of a topic that bounds a record batch.
const maxMessage = "max.message.bytes"

// describe asks for settings of topics.
func (c *cluster) describe(ctx context.Context, address string, topics []string, settings ...string) (*describeconfigs.Response, error) {
	const topicResource = 2
	request := &describeconfigs.Request{}
	for _, name := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{
			ResourceType: topicResource, ResourceName: name, ConfigNames: settings,
		})
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	answer, err := c.link(address).exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.(*describeconfigs.Response), nil
}

func layoutOf(t metadata.ResponseTopic) layout {
	switch kafkago.Error(t.ErrorCode) {
	case 0:
	case kafkago.UnknownTopicOrPartition:
		return layout{err: errUnknownTopic(t.Name), unknown: true}
	default:
		return layout{err: errorOfCode(t.ErrorCode, "", "topic "+t.Name)}
	}
	if len(t.Partitions) == 0 {
		return layout{err: sinks.Errorf(sinks.Transient, "topic %s: it has no partitions yet", t.Name)}
	}
	leaders := make([]int32, len(t.Partitions))
	for i := range leaders {
		leaders[i] = -1
	}
	for _, p := range t.Partitions {
		// The number of partitions decides where a key goes: a list with holes
		// would send it astray.
		if int(p.PartitionIndex) >= len(leaders) || p.PartitionIndex < 0 {
			return layout{err: sinks.Errorf(sinks.Transient, "topic %s: the broker lists only some of its partitions", t.Name)}
		}
		leaders[p.PartitionIndex] = p.LeaderID
	}
	return layout{leaders: leaders}
}

// leader returns the link to a partition's leader.
func (c *cluster) leader(topic string, partition int) (*link, error) {
	id := c.topics[topic].leaders[partition]
	address, ok := c.brokers[id]
	if !ok {
		return nil, sinks.Errorf(sinks.Transient, "topic %s, partition %d: it has no leader now", topic, partition)
	}
	return c.link(address), nil
}

func (c *cluster) link(address string) *link {
	l := c.links[address]
	if l == nil {
		l = &link{dialer: c.dialer, address: address}
		c.links[address] = l
	}
	return l
}

// create makes the topics, and returns the errors of those that the cluster
// refuses. The layouts of the others have to be asked for again: it may take a
// moment until brokers know of them. With dry none is made.
func (c *cluster) create(ctx context.Context, shape CreateTopic, topics []string, dry bool) (refused map[string]*sinks.Error, err error) {
	request := &createtopics.Request{TimeoutMs: int32(dialTimeout.Milliseconds()), ValidateOnly: dry}
	for _, topic := range topics {
		request.Topics = append(request.Topics, createtopics.RequestTopic{
			Name:              topic,
			NumPartitions:     orDefault(shape.Partitions),
			ReplicationFactor: int16(orDefault(shape.Replication)),
		})
	}
	address, ok := c.brokers[c.control]
	if !ok {
		return nil, sinks.Errorf(sinks.Transient, "making topics %v: the cluster has no controller now", topics)
	}
	answer, err := c.link(address).exchange(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("making topics %v: %w", topics, err)
	}
	refused = map[string]*sinks.Error{}
	for _, t := range answer.(*createtopics.Response).Topics {
		if code := kafkago.Error(t.ErrorCode); code != 0 && code != kafkago.TopicAlreadyExists {
			refused[t.Name] = errorOfCode(t.ErrorCode, t.ErrorMessage, "making topic "+t.Name)
		}
	}
	return refused, nil
}

// orDefault is how the protocol asks for the broker's default (KIP-464).
func orDefault(n int) int32 {
	if n == 0 {
		return -1
	}
	return int32(n)
}

func (c *cluster) close() {
	for _, l := range c.links {
		l.close()
	}
	clear(c.links)
}
