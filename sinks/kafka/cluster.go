package kafka

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkawire"
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
	dialer *kafkawire.Dialer
	links  map[string]*kafkawire.Link // by address

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

func newCluster(d *kafkawire.Dialer) *cluster {
	return &cluster{seeds: d.Brokers, dialer: d, links: map[string]*kafkawire.Link{}, topics: map[string]layout{}}
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
		answer, err := c.link(address).Exchange(ctx, askFor(names))
		if err == nil {
			c.learn(answer.(*kmsg.MetadataResponse), names)
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

// askFor asks for the layout of topics. None is made by asking.
func askFor(topics []string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // nil: all
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// addresses are the brokers that are worth asking: those with a connection, then
// the others.
func (c *cluster) addresses() []string {
	var connected, others []string
	seen := map[string]bool{}
	for _, address := range slices.Concat(slices.Sorted(maps.Values(c.brokers)), c.seeds) {
		if seen[address] {
			continue
		}
		seen[address] = true
		if l := c.links[address]; l != nil && l.Connected() {
			connected = append(connected, address)
		} else {
			others = append(others, address)
		}
	}
	return append(connected, others...)
}

// maxHost is how long a broker's name may be, which is what DNS allows.
const maxHost = 253

// learn takes from an answer what was asked for: a broker may leave topics out, or add
// others.
func (c *cluster) learn(response *kmsg.MetadataResponse, names []string) {
	c.asked, c.control = time.Now(), response.ControllerID
	c.brokers = make(map[int32]string, len(response.Brokers))
	for _, b := range response.Brokers {
		if len(b.Host) <= maxHost {
			c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
	}
	known := map[string]bool{}
	for _, address := range c.addresses() {
		known[address] = true
	}
	for address, l := range c.links {
		if !known[address] {
			l.Close()
			delete(c.links, address)
		}
	}
	for _, name := range names {
		c.topics[name] = layout{err: sinks.Errorf(sinks.Transient, "topic %s: the broker's answer leaves it out", name)}
	}
	for _, t := range response.Topics {
		if _, wanted := c.topics[brokerMessage(t.Topic)]; wanted {
			c.topics[*t.Topic] = layoutOf(*t.Topic, t)
		}
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
		for _, entry := range topic.Configs {
			bytes, ok := number(entry)
			if layout, known := c.topics[topic.ResourceName]; known && ok && entry.Name == maxMessage {
				layout.maxBytes = bytes
				c.topics[topic.ResourceName] = layout
			}
		}
	}
}

// maxMessage is the setting of a topic that bounds a record batch.
const maxMessage = "max.message.bytes"

// number is a setting's value, if it is a number.
func number(setting kmsg.DescribeConfigsResponseResourceConfig) (n int, ok bool) {
	if setting.Value == nil {
		return 0, false
	}
	n, err := strconv.Atoi(*setting.Value)
	return n, err == nil
}

// describe asks for settings of topics.
func (c *cluster) describe(ctx context.Context, address string, topics []string, settings ...string) (*kmsg.DescribeConfigsResponse, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, name, settings
		request.Resources = append(request.Resources, resource)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkawire.DialTimeout)
	defer cancel()
	answer, err := c.link(address).Exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.(*kmsg.DescribeConfigsResponse), nil
}

func layoutOf(name string, t kmsg.MetadataResponseTopic) layout {
	switch t.ErrorCode {
	case 0:
	case kerr.UnknownTopicOrPartition.Code:
		return layout{err: errUnknownTopic(name), unknown: true}
	default:
		return layout{err: kafkawire.ErrorOfCode(t.ErrorCode, "", "topic "+name)}
	}
	if len(t.Partitions) == 0 {
		return layout{err: sinks.Errorf(sinks.Transient, "topic %s: it has no partitions yet", name)}
	}
	leaders := make([]int32, len(t.Partitions))
	for i := range leaders {
		leaders[i] = -1
	}
	for _, p := range t.Partitions {
		// The number of partitions decides where a key goes: a list with holes
		// would send it astray.
		if int(p.Partition) >= len(leaders) || p.Partition < 0 {
			return layout{err: sinks.Errorf(sinks.Transient, "topic %s: the broker lists only some of its partitions", name)}
		}
		leaders[p.Partition] = p.Leader
	}
	return layout{leaders: leaders}
}

// leader returns the link to a partition's leader.
func (c *cluster) leader(topic string, partition int) (*kafkawire.Link, error) {
	id := c.topics[topic].leaders[partition]
	address, ok := c.brokers[id]
	if !ok {
		return nil, sinks.Errorf(sinks.Transient, "topic %s, partition %d: it has no leader now", topic, partition)
	}
	return c.link(address), nil
}

func (c *cluster) link(address string) *kafkawire.Link {
	l := c.links[address]
	if l == nil {
		l = kafkawire.NewLink(c.dialer, address)
		c.links[address] = l
	}
	return l
}

// create makes the topics, and returns the errors of those that the cluster
// refuses. The layouts of the others have to be asked for again: it may take a
// moment until brokers know of them. With dry none is made.
func (c *cluster) create(ctx context.Context, shape CreateTopic, topics []string, dry bool) (refused map[string]*sinks.Error, err error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis, request.ValidateOnly = int32(kafkawire.DialTimeout.Milliseconds()), dry
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, orDefault(shape.Partitions), int16(orDefault(shape.Replication))
		request.Topics = append(request.Topics, topic)
	}
	address, ok := c.brokers[c.control]
	if !ok {
		return nil, sinks.Errorf(sinks.Transient, "making topics %v: the cluster has no controller now", topics)
	}
	answer, err := c.link(address).Exchange(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("making topics %v: %w", topics, err)
	}
	refused = map[string]*sinks.Error{}
	for _, t := range answer.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 && t.ErrorCode != kerr.TopicAlreadyExists.Code {
			refused[t.Topic] = kafkawire.ErrorOfCode(t.ErrorCode, brokerMessage(t.ErrorMessage), "making topic "+t.Topic)
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
		l.Close()
	}
	clear(c.links)
}

// brokerMessage is a broker's message, which may be absent.
func brokerMessage(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}

// errUnknownTopic is the error of a topic that the cluster does not know.
func errUnknownTopic(topic string) *sinks.Error {
	return &sinks.Error{Class: sinks.Halted, Err: &sinks.Advised{
		Err: fmt.Errorf("topic %s does not exist, or the user must not see it", topic),
		To:  "make it, set create_topic, or correct topic",
	}}
}
