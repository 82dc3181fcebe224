package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkawire"
)

// maxAge is how long metadata is used unless an error invalidates it. Added
// partitions are used after that time.
const maxAge = 5 * time.Minute

// cluster holds the metadata of brokers and topics, and the connections. It is not
// safe for concurrent use, but different links may be used by different goroutines.
type cluster struct {
	seeds  []string
	dialer *kafkawire.Dialer
	links  map[string]*kafkawire.Link // by address

	fetched    time.Time         // when the fields below were fetched; zero: they are invalid
	brokers    map[int32]string  // addresses by node id
	controller int32             // node id
	topics     map[string]layout // by name: every topic that was requested
}

// layout is the metadata of a topic.
type layout struct {
	leaders  []int32 // node ids by partition, -1: none
	maxBytes int     // of a record batch, by the topic's max.message.bytes; 0: not known
	err      *failure.Error
	missing  bool // the topic does not exist; err is set
}

func newCluster(d *kafkawire.Dialer) *cluster {
	return &cluster{seeds: d.Brokers, dialer: d, links: map[string]*kafkawire.Link{}, topics: map[string]layout{}}
}

// invalidate makes the next ensureLayouts fetch the metadata again.
func (c *cluster) invalidate() { c.fetched = time.Time{} }

// ensureLayouts makes sure that the layouts of the topics are known and fresh. It
// returns an error if no broker answers; an error of a single topic is in its
// layout.
func (c *cluster) ensureLayouts(ctx context.Context, topics map[string]bool) error {
	fresh := time.Since(c.fetched) < maxAge
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
	return c.fetch(ctx, names)
}

// fetch fetches the metadata from the first broker that answers.
func (c *cluster) fetch(ctx context.Context, names []string) error {
	var failed error
	for _, address := range c.addresses() {
		answer, err := c.link(address).Exchange(ctx, metadataRequest(names))
		if err == nil {
			c.applyMetadata(answer.(*kmsg.MetadataResponse), names)
			c.fetchLimits(ctx, address)
			return nil
		}
		// Prefer the error of a broker that refuses over that of one that is down.
		if class, _ := failure.ClassOf(err); failed == nil || class == failure.Halted {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// metadataRequest returns a request for the metadata of topics, which does not
// create them.
func metadataRequest(topics []string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // nil: all
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// addresses returns the addresses of the known brokers, connected ones first.
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

// maxHost is the largest length of a host name, the limit of DNS.
const maxHost = 253

// applyMetadata stores the metadata of the brokers and of the topics with these
// names. The response may lack some of these topics, and other topics are ignored.
func (c *cluster) applyMetadata(response *kmsg.MetadataResponse, names []string) {
	c.fetched, c.controller = time.Now(), response.ControllerID
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
		c.topics[name] = layout{err: failure.Unavailable(failure.ScopePart, "topic %s: missing from the broker's answer", name)}
	}
	for _, t := range response.Topics {
		if _, requested := c.topics[brokerMessage(t.Topic)]; requested {
			c.topics[*t.Topic] = layoutOf(*t.Topic, t)
		}
	}
}

// fetchLimits fetches the largest record batch of each topic, so that no larger one
// is sent only to be rejected. It ignores errors: a user may lack the right to
// describe topics.
func (c *cluster) fetchLimits(ctx context.Context, address string) {
	var names []string
	for name, layout := range c.topics {
		if layout.err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	for topic, settings := range c.settings(ctx, address, names, maxMessage) {
		if layout, known := c.topics[topic]; known {
			layout.maxBytes = settings[maxMessage]
			c.topics[topic] = layout
		}
	}
}

// maxMessage is the topic setting that bounds a record batch.
const maxMessage = "max.message.bytes"

// settings requests numeric settings of topics from the broker at address and returns
// them by topic and name. It returns none if the broker does not answer, or the user
// lacks the right to describe topics.
func (c *cluster) settings(ctx context.Context, address string, topics []string, names ...string) map[string]map[string]int {
	request := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, names
		request.Resources = append(request.Resources, resource)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkawire.DialTimeout)
	defer cancel()
	answer, err := c.link(address).Exchange(ctx, request)
	if err != nil {
		return nil
	}
	all := map[string]map[string]int{}
	for _, topic := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		all[topic.ResourceName] = map[string]int{}
		for _, entry := range topic.Configs {
			if n, err := strconv.Atoi(brokerMessage(entry.Value)); err == nil {
				all[topic.ResourceName][entry.Name] = n
			}
		}
	}
	return all
}

// layoutOf returns the layout of a topic from its metadata.
func layoutOf(name string, t kmsg.MetadataResponseTopic) layout {
	switch t.ErrorCode {
	case 0:
	case kerr.UnknownTopicOrPartition.Code:
		return layout{missing: true, err: failure.Advise(failure.Halted, "create it, set create_topic, or correct topic",
			fmt.Errorf("topic %s does not exist, or the user may not describe it", name))}
	default:
		return layout{err: kafkawire.ErrorOfCode(t.ErrorCode, "", "topic "+name)}
	}
	if len(t.Partitions) == 0 {
		return layout{err: failure.Unavailable(failure.ScopePart, "topic %s: it has no partitions yet", name)}
	}
	leaders := slices.Repeat([]int32{-1}, len(t.Partitions))
	for _, p := range t.Partitions {
		// The number of partitions decides the partition of a key: an incomplete list
		// would select a wrong one.
		if int(p.Partition) >= len(leaders) || p.Partition < 0 {
			return layout{err: failure.Unavailable(failure.ScopePart, "topic %s: the broker lists only some of its partitions", name)}
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
		return nil, failure.Unavailable(failure.ScopePart, "topic %s, partition %d: it has no leader at the moment", topic, partition)
	}
	return c.link(address), nil
}

// link returns the link to address, and creates it if necessary.
func (c *cluster) link(address string) *kafkawire.Link {
	l := c.links[address]
	if l == nil {
		l = kafkawire.NewLink(c.dialer, address)
		c.links[address] = l
	}
	return l
}

// create creates topics and returns the errors of those that the cluster refuses.
// The layouts of the others must be fetched again, and it may take a moment until
// all brokers know them. If dry is set, the request is only validated.
func (c *cluster) create(ctx context.Context, shape CreateTopic, topics []string, dry bool) (refused map[string]*failure.Error, err error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis, request.ValidateOnly = int32(kafkawire.DialTimeout.Milliseconds()), dry
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = name
		// -1 is the broker's default (KIP-464).
		topic.NumPartitions, topic.ReplicationFactor = cmp.Or(int32(shape.Partitions), -1), cmp.Or(int16(shape.Replication), -1)
		request.Topics = append(request.Topics, topic)
	}
	address, ok := c.brokers[c.controller]
	if !ok {
		return nil, failure.Unavailable(failure.ScopeTarget, "create topics %v: the cluster has no controller at the moment", topics)
	}
	answer, err := c.link(address).Exchange(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("create topics %v: %w", topics, err)
	}
	refused = map[string]*failure.Error{}
	for _, t := range answer.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 && t.ErrorCode != kerr.TopicAlreadyExists.Code {
			refused[t.Topic] = kafkawire.ErrorOfCode(t.ErrorCode, brokerMessage(t.ErrorMessage), "create topic "+t.Topic)
		}
	}
	return refused, nil
}

func (c *cluster) close() {
	for _, l := range c.links {
		l.Close()
	}
	clear(c.links)
}

// brokerMessage returns an optional text of a broker's answer, "" if it is absent.
func brokerMessage(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}
