package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkawire"
	"ndrbridge/sinks"
)

// What members of the group agree on. A member that crashed is waited for by its
// successor.
const (
	heartbeatInterval = time.Second
	rebalanceTimeout  = 5 * time.Second
	sessionTimeout    = 10 * time.Second
	// assignor is how the leader of the group deals out partitions.
	assignor = "range"
	// watchInterval is how often the leader looks whether there are more partitions.
	watchInterval = 10 * time.Second
	// leaveTimeout bounds the farewell to the coordinator at a stop.
	leaveTimeout = time.Second
)

// errRebalance says that the group deals out the partitions again.
var errRebalance = errors.New("the group is rebalanced")

// member is a member of the consumer group:
//
//	joining ──join──▶ consuming ──errRebalance, or rejoins──▶ joining
//	   └────────────any other error: the session ends────────────┘
//
// The coordinator knows it by an id, and each deal of partitions by a generation, with
// which it refuses offsets of members that it does not count on any more.
type member struct {
	k      *Kafka
	dialer *kafkawire.Dialer

	coordinator string // address
	control     *kafkawire.Link
	id          string
	generation  int32
	leads       bool // it deals out the partitions
	dealt       int  // partitions of the topic, when it last did
	positions   map[int32]int64
	confirmed   time.Time // when the coordinator last confirmed the membership

	mu      sync.Mutex // guards what follows
	asking  map[string]*kafkawire.Link
	leaders map[int32]string // addresses by partition; empty: none
	asked   time.Time        // when leaders were true

	one      sync.Mutex // held while a record is taken
	troubles troubles
}

func newMember(k *Kafka, d *kafkawire.Dialer) *member {
	return &member{k: k, dialer: d, control: kafkawire.NewLink(d, ""), asking: map[string]*kafkawire.Link{}, troubles: troubles{k: k}}
}

// failure is an error code of a broker, nil for none.
func failure(code int16, tried string) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", tried, kerr.ErrorForCode(code))
}

// find connects control with the group's coordinator.
func (m *member) find(ctx context.Context) error {
	address, err := m.locate(ctx)
	if err != nil {
		return err
	}
	if address != m.coordinator {
		m.control.Close()
		m.coordinator, m.control = address, kafkawire.NewLink(m.dialer, address)
	}
	return nil
}

// participate joins the group and receives until it is to be joined again. The error
// is errRebalance, or why the membership is in doubt.
func (m *member) participate(ctx context.Context) error {
	if err := m.join(ctx); err != nil {
		return fmt.Errorf("join the group %s: %w", m.k.o.Group, err)
	}
	m.troubles.forget()
	if err := m.consume(ctx); !errors.Is(err, errRebalance) {
		return fmt.Errorf("receive from the topic %s: %w", m.k.o.Topic, err)
	}
	return errRebalance
}

// rejoins reports whether m should join again after err with the id that it has: a
// member that comes back under another id is waited for under the first one.
func (m *member) rejoins(err error) bool {
	if time.Since(m.confirmed) > sessionTimeout {
		return false // the coordinator has given it up
	}
	if errors.Is(err, kerr.UnknownMemberID) {
		m.id = ""
		return true
	}
	return unreachable(err) || errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration)
}

// unreachable reports whether the coordinator did not answer, or is another broker, or
// not ready, which says nothing about the membership.
func unreachable(err error) bool {
	if e, ok := errors.AsType[*sinks.Error](err); ok {
		return e.Class == sinks.Transient
	}
	return errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress)
}

// join becomes a member of the group, or stays one, and learns its partitions and where
// they were left.
func (m *member) join(ctx context.Context) error {
	if _, err := m.layout(ctx, time.Now()); err != nil {
		return err
	}
	if err := m.find(ctx); err != nil {
		return err
	}
	joined, err := m.enter(ctx)
	if err != nil {
		return err
	}
	partitions, err := m.synchronise(ctx, joined)
	if err != nil {
		return err
	}
	if m.positions, err = m.committed(ctx, partitions); err != nil {
		return fmt.Errorf("read the committed offsets: %w", err)
	}
	return nil
}

func (m *member) enter(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Version, subscription.Topics = 0, []string{m.k.o.Topic}
	request := kmsg.NewPtrJoinGroupRequest()
	request.Group, request.ProtocolType = m.k.o.Group, "consumer"
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = int32(sessionTimeout.Milliseconds()), int32(rebalanceTimeout.Milliseconds())
	request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: assignor, Metadata: subscription.AppendTo(nil)}}
	for range 2 {
		request.MemberID = m.id
		answer, err := m.control.Exchange(ctx, request)
		if err != nil {
			return nil, err
		}
		response := answer.(*kmsg.JoinGroupResponse)
		switch response.ErrorCode {
		case kerr.MemberIDRequired.Code: // it gives one, and expects it back (KIP-394)
			m.id = response.MemberID
			continue
		}
		if err := failure(response.ErrorCode, "join"); err != nil {
			return nil, err
		}
		m.id, m.generation, m.leads = response.MemberID, response.Generation, response.MemberID == response.LeaderID
		m.confirmed = time.Now()
		return response, nil
	}
	return nil, failure(kerr.MemberIDRequired.Code, "join")
}

// synchronise learns which partitions m is dealt. As the group's leader it deals them
// out.
func (m *member) synchronise(ctx context.Context, joined *kmsg.JoinGroupResponse) ([]int32, error) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.Group, request.Generation, request.MemberID = m.k.o.Group, m.generation, m.id
	if m.leads {
		var err error
		if request.GroupAssignment, err = m.deal(joined.Members); err != nil {
			return nil, err
		}
	}
	answer, err := m.control.Exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.SyncGroupResponse)
	if err := failure(response.ErrorCode, "synchronise"); err != nil {
		return nil, err
	}
	return kafkawire.Assignment(response.MemberAssignment, m.k.o.Topic)
}

// deal gives each member that is subscribed to the topic a range of its partitions.
func (m *member) deal(members []kmsg.JoinGroupResponseMember) (all []kmsg.SyncGroupRequestGroupAssignment, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dealt = len(m.leaders)
	var subscribed []string
	for _, other := range members {
		topics, err := kafkawire.Subscription(other.ProtocolMetadata)
		if err != nil {
			return nil, err
		}
		if slices.Contains(topics, m.k.o.Topic) {
			subscribed = append(subscribed, other.MemberID)
		}
	}
	slices.Sort(subscribed)
	for i, id := range subscribed {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic = m.k.o.Topic
		for p := i * m.dealt / len(subscribed); p < (i+1)*m.dealt/len(subscribed); p++ {
			topic.Partitions = append(topic.Partitions, int32(p))
		}
		dealt := kmsg.NewConsumerMemberAssignment()
		dealt.Topics = []kmsg.ConsumerMemberAssignmentTopic{topic}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: dealt.AppendTo(nil)})
	}
	return all, nil
}

// committed returns the offsets from which partitions go on; -1: from the beginning.
func (m *member) committed(ctx context.Context, partitions []int32) (map[int32]int64, error) {
	positions := map[int32]int64{}
	if len(partitions) == 0 {
		return positions, nil
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = m.k.o.Group
	request.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: m.k.o.Topic, Partitions: partitions}}
	answer, err := m.control.Exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.OffsetFetchResponse)
	if err := failure(response.ErrorCode, "fetch offsets"); err != nil {
		return nil, err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := failure(p.ErrorCode, fmt.Sprintf("partition %d", p.Partition)); err != nil {
				return nil, err
			}
			if t.Topic == m.k.o.Topic && slices.Contains(partitions, p.Partition) {
				positions[p.Partition] = p.Offset
			}
		}
	}
	for _, p := range partitions {
		if _, ok := positions[p]; !ok {
			return nil, fmt.Errorf("the answer leaves out partition %d", p)
		}
	}
	return positions, nil
}

// commit commits the offset behind what was taken of a partition. m.one is held.
func (m *member) commit(ctx context.Context, partition int32, offset int64) error {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation, request.MemberID = m.k.o.Group, m.generation, m.id
	request.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: m.k.o.Topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	tried := fmt.Sprintf("commit the offset %d of partition %d", offset, partition)
	answer, err := m.control.Exchange(ctx, request)
	if err != nil {
		return fmt.Errorf("%s: %w", tried, err)
	}
	for _, t := range answer.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if t.Topic == m.k.o.Topic && p.Partition == partition {
				return failure(p.ErrorCode, tried)
			}
		}
	}
	return fmt.Errorf("%s: the answer leaves it out", tried)
}

// heartbeats keeps the membership until ctx ends. It returns errRebalance if the group
// is to be joined again, or why the membership is lost.
func (m *member) heartbeats(ctx context.Context) error {
	l := kafkawire.NewLink(m.dialer, m.coordinator)
	defer l.Close()
	for sleep(ctx, heartbeatInterval) {
		request := kmsg.NewPtrHeartbeatRequest()
		request.Group, request.Generation, request.MemberID = m.k.o.Group, m.generation, m.id
		answer, err := l.Exchange(ctx, request)
		if err == nil {
			err = failure(answer.(*kmsg.HeartbeatResponse).ErrorCode, "heartbeat")
		}
		switch {
		case err == nil:
			m.confirmed = time.Now()
			m.troubles.end("heartbeat")
		case errors.Is(err, kerr.RebalanceInProgress):
			m.confirmed = time.Now()
			return errRebalance
		case !unreachable(err):
			return err
		case time.Since(m.confirmed) > sessionTimeout:
			return fmt.Errorf("no heartbeat was confirmed for %v: %w", sessionTimeout, err)
		default:
			m.troubles.begin("heartbeat", fmt.Errorf("heartbeat: %w", err))
			if address, err := m.locate(ctx); err == nil && address != m.coordinator {
				return errRebalance
			}
		}
	}
	return ctx.Err()
}

// watch returns errRebalance once the topic has another number of partitions than were
// dealt out. It is the leader's part.
func (m *member) watch(ctx context.Context) error {
	for sleep(ctx, watchInterval) {
		if n, err := m.layout(ctx, time.Now()); err == nil && n != m.dealt {
			return errRebalance
		}
	}
	return ctx.Err()
}

// close leaves the group, so that its other members need not wait for this one, and
// closes the connections. ctx is the session's, and may have ended, which has closed the
// connection that was waited for.
func (m *member) close(ctx context.Context) {
	if m.id != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Group, request.MemberID = m.k.o.Group, m.id
		_, _ = m.control.Exchange(ctx, request) // it is missed soon in any case
	}
	m.control.Close()
	for _, l := range m.asking {
		l.Close()
	}
}
