package intake

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkawire"
)

// ask sends a request to the configured brokers in turn until one answers. m.mu must be
// held.
func (m *member) ask(ctx context.Context, request kmsg.Request) (answer kmsg.Response, err error) {
	var first error
	for _, address := range m.dialer.Brokers {
		l := m.asking[address]
		if l == nil {
			l = kafkawire.NewLink(m.dialer, address)
			m.asking[address] = l
		}
		if answer, err = l.Exchange(ctx, request); err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// layout returns the number of the topic's partitions. It requests them unless they
// were requested after the given time.
func (m *member) layout(ctx context.Context, after time.Time) (partitions int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked.After(after) {
		return len(m.leaders), nil
	}
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &m.k.o.Topic
	request.Topics = []kmsg.MetadataRequestTopic{topic}
	now := time.Now()
	answer, err := m.ask(ctx, request)
	if err != nil {
		return 0, err
	}
	tried := "ask for the topic " + m.k.o.Topic
	response := answer.(*kmsg.MetadataResponse)
	addresses := map[int32]string{}
	for _, b := range response.Brokers {
		addresses[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range response.Topics {
		if t.Topic == nil || *t.Topic != m.k.o.Topic {
			continue
		}
		if err := brokerError(t.ErrorCode, tried); err != nil {
			return 0, err
		}
		m.leaders = make(map[int32]string, len(t.Partitions))
		for _, p := range t.Partitions {
			m.leaders[p.Partition] = addresses[p.Leader]
		}
		if m.asked = now; len(m.leaders) > 0 {
			return len(m.leaders), nil
		}
	}
	return 0, brokerError(kerr.UnknownTopicOrPartition.Code, tried)
}

// leader returns the address of a partition's leader, or "" if it has none now.
func (m *member) leader(partition int32) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaders[partition]
}

// locate returns the address of the group's coordinator.
func (m *member) locate(ctx context.Context) (address string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.CoordinatorKey = m.k.o.Group
	answer, err := m.ask(ctx, request)
	if err != nil {
		return "", err
	}
	response := answer.(*kmsg.FindCoordinatorResponse)
	if err := brokerError(response.ErrorCode, "find the coordinator"); err != nil {
		return "", err
	}
	return net.JoinHostPort(response.Host, strconv.Itoa(int(response.Port))), nil
}
