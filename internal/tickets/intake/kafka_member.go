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

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkawire"
)

// Parameters of the group membership. The partitions of a crashed member stay unread
// until its session times out.
const (
	heartbeatInterval = time.Second
	rebalanceTimeout  = 5 * time.Second
	sessionTimeout    = 10 * time.Second
	// assignor is the strategy by which the leader assigns partitions.
	assignor = "range"
	// watchInterval is how often the leader checks for new partitions.
	watchInterval = 10 * time.Second
	// leaveTimeout limits the request to leave the group at a stop.
	leaveTimeout = time.Second
)

// errRebalance reports that the group reassigns its partitions.
var errRebalance = errors.New("the group is rebalanced")

// member is a member of the consumer group:
//
//	joining ──join──▶ consuming ──errRebalance, or rejoins──▶ joining
//	   └────────────any other error: the session ends────────────┘
//
// The coordinator identifies it by an id, and each assignment of partitions by a
// generation. It refuses offsets from members of an earlier generation.
type member struct {
	k      *Kafka
	dialer *kafkawire.Dialer

	coordinator string // address
	control     *kafkawire.Link
	id          string
	generation  int32
	leads       bool // it assigns the partitions
	assigned    int  // number of the topic's partitions at the last assignment
	positions   map[int32]int64
	confirmed   time.Time // when the coordinator last confirmed the membership

	mu      sync.Mutex // guards asking, leaders and asked
	asking  map[string]*kafkawire.Link
	leaders map[int32]string // addresses by partition; empty: none
	asked   time.Time        // when leaders were requested

	one      sync.Mutex // held while a record is taken
	failures failures
}

// brokerError returns the error of a broker's error code, or nil if there is none.
func brokerError(code int16, tried string) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", tried, kerr.ErrorForCode(code))
}

// participate joins the group and receives until m must join again. It returns
// errRebalance, or the reason why the membership is in doubt.
func (m *member) participate(ctx context.Context) error {
	if err := m.join(ctx); err != nil {
		return fmt.Errorf("join the group %s: %w", m.k.o.Group, err)
	}
	m.failures.clear()
	if err := m.consume(ctx); !errors.Is(err, errRebalance) {
		return fmt.Errorf("receive from the topic %s: %w", m.k.o.Topic, err)
	}
	return errRebalance
}

// rejoins reports whether m should join again after err with its current id. Under a
// new id the group would wait for the old one to time out.
func (m *member) rejoins(err error) bool {
	if time.Since(m.confirmed) > sessionTimeout {
		return false // the coordinator has removed the member
	}
	if errors.Is(err, kerr.UnknownMemberID) {
		m.id = ""
		return true
	}
	return unreachable(err) || errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration)
}

// unreachable reports whether err means that the coordinator did not answer, has moved
// or is not ready, which does not affect the membership.
func unreachable(err error) bool {
	if e, ok := errors.AsType[*failure.Error](err); ok {
		return e.Class == failure.Transient
	}
	return errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress)
}

// join makes m a member of the group, or renews its membership, and gets its partitions
// and their committed offsets.
func (m *member) join(ctx context.Context) error {
	if _, err := m.layout(ctx, time.Now()); err != nil {
		return err
	}
	coordinator, err := m.locate(ctx)
	if err != nil {
		return err
	}
	if coordinator != m.coordinator {
		m.control.Close()
		m.coordinator, m.control = coordinator, kafkawire.NewLink(m.dialer, coordinator)
	}
	joined, err := m.joinGroup(ctx)
	if err != nil {
		return err
	}
	partitions, err := m.syncGroup(ctx, joined)
	if err != nil {
		return err
	}
	if m.positions, err = m.committed(ctx, partitions); err != nil {
		return fmt.Errorf("read the committed offsets: %w", err)
	}
	return nil
}

func (m *member) joinGroup(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
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
		if response.ErrorCode == kerr.MemberIDRequired.Code { // retry with the id it returned (KIP-394)
			m.id = response.MemberID
			continue
		}
		if err := brokerError(response.ErrorCode, "join"); err != nil {
			return nil, err
		}
		m.id, m.generation, m.leads = response.MemberID, response.Generation, response.MemberID == response.LeaderID
		m.confirmed = time.Now()
		return response, nil
	}
	return nil, brokerError(kerr.MemberIDRequired.Code, "join")
}

// syncGroup returns the partitions assigned to m. The leader of the group assigns them.
func (m *member) syncGroup(ctx context.Context, joined *kmsg.JoinGroupResponse) ([]int32, error) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.Group, request.Generation, request.MemberID = m.k.o.Group, m.generation, m.id
	if m.leads {
		var err error
		if request.GroupAssignment, err = m.assign(joined.Members); err != nil {
			return nil, err
		}
	}
	answer, err := m.control.Exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.SyncGroupResponse)
	if err := brokerError(response.ErrorCode, "sync"); err != nil {
		return nil, err
	}
	return kafkawire.Assignment(response.MemberAssignment, m.k.o.Topic)
}

// assign gives each member that subscribes to the topic a range of its partitions.
func (m *member) assign(members []kmsg.JoinGroupResponseMember) (all []kmsg.SyncGroupRequestGroupAssignment, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned = len(m.leaders)
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
		for p := i * m.assigned / len(subscribed); p < (i+1)*m.assigned/len(subscribed); p++ {
			topic.Partitions = append(topic.Partitions, int32(p))
		}
		assignment := kmsg.NewConsumerMemberAssignment()
		assignment.Topics = []kmsg.ConsumerMemberAssignmentTopic{topic}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: assignment.AppendTo(nil)})
	}
	return all, nil
}

// committed returns the committed offsets of partitions; -1 for none.
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
	if err := brokerError(response.ErrorCode, "fetch offsets"); err != nil {
		return nil, err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := brokerError(p.ErrorCode, fmt.Sprintf("partition %d", p.Partition)); err != nil {
				return nil, err
			}
			if t.Topic == m.k.o.Topic && slices.Contains(partitions, p.Partition) {
				positions[p.Partition] = p.Offset
			}
		}
	}
	for _, p := range partitions {
		if _, ok := positions[p]; !ok {
			return nil, fmt.Errorf("the answer does not contain partition %d", p)
		}
	}
	return positions, nil
}

// commit commits the offset after the records taken from a partition. m.one must be
// held.
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
				return brokerError(p.ErrorCode, tried)
			}
		}
	}
	return fmt.Errorf("%s: the answer does not contain it", tried)
}

// heartbeats keeps the membership until ctx is done. It returns errRebalance if m must
// join again, or the reason why the membership is lost.
func (m *member) heartbeats(ctx context.Context) error {
	l := kafkawire.NewLink(m.dialer, m.coordinator)
	defer l.Close()
	for sleep(ctx, heartbeatInterval) {
		request := kmsg.NewPtrHeartbeatRequest()
		request.Group, request.Generation, request.MemberID = m.k.o.Group, m.generation, m.id
		answer, err := l.Exchange(ctx, request)
		if err == nil {
			err = brokerError(answer.(*kmsg.HeartbeatResponse).ErrorCode, "heartbeat")
		}
		switch {
		case err == nil:
			m.confirmed = time.Now()
			m.failures.end("heartbeat")
		case errors.Is(err, kerr.RebalanceInProgress):
			m.confirmed = time.Now()
			return errRebalance
		case !unreachable(err):
			return err
		case time.Since(m.confirmed) > sessionTimeout:
			return fmt.Errorf("no heartbeat was confirmed for %v: %w", sessionTimeout, err)
		default:
			m.failures.begin("heartbeat", fmt.Errorf("heartbeat: %w", err))
			if address, err := m.locate(ctx); err == nil && address != m.coordinator {
				return errRebalance
			}
		}
	}
	return ctx.Err()
}

// watch returns errRebalance if the number of the topic's partitions differs from the
// last assignment. Only the leader calls it.
func (m *member) watch(ctx context.Context) error {
	for sleep(ctx, watchInterval) {
		if n, err := m.layout(ctx, time.Now()); err == nil && n != m.assigned {
			return errRebalance
		}
	}
	return ctx.Err()
}

// close leaves the group, so that the other members need not wait for a timeout, and
// closes the connections. ctx is the session's and may be done, in which case the
// connection in use is closed already.
func (m *member) close(ctx context.Context) {
	if m.id != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Group, request.MemberID = m.k.o.Group, m.id
		_, _ = m.control.Exchange(ctx, request) // on failure, the session times out
	}
	m.control.Close()
	for _, l := range m.asking {
		l.Close()
	}
}
