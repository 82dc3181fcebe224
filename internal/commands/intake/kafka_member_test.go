package intake_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// membership records the members that a coordinator saw.
type membership struct {
	mu      sync.Mutex
	entered int      // requests to join without an id
	left    []string // ids of members that left
}

func watchMembership(cluster *kfake.Cluster) *membership {
	m := &membership{}
	cluster.ControlKey(int16(kmsg.JoinGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.(*kmsg.JoinGroupRequest).MemberID == "" {
			m.entered++
		}
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.LeaveGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.left = append(m.left, r.(*kmsg.LeaveGroupRequest).MemberID)
		return nil, nil, false
	})
	return m
}

func (m *membership) seen() (entered int, left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entered, slices.Clone(m.left)
}

// answer returns the response to a request of a group, with an error code.
func answer(request kmsg.Request, code int16) kmsg.Response {
	switch response := request.ResponseKind().(type) {
	case *kmsg.SyncGroupResponse:
		response.ErrorCode = code
		return response
	case *kmsg.HeartbeatResponse:
		response.ErrorCode = code
		return response
	case *kmsg.OffsetFetchResponse:
		response.ErrorCode = code
		return response
	case *kmsg.OffsetCommitResponse:
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.ErrorCode = code
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.Partitions = "ndr.tickets", append(topic.Partitions, p)
		response.Topics = append(response.Topics, topic)
		return response
	}
	return nil
}

func TestAMemberRejoinsUnderItsID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key  kmsg.Key
		code int16 // 0: the connection breaks
		// entered is how often it joins without an id. If it has an id then, it leaves the
		// group before, so that the others need not wait for it.
		entered, left int
	}{
		"the group is rebalanced while partitions are assigned":    {kmsg.SyncGroup, kerr.RebalanceInProgress.Code, 1, 0},
		"the group is rebalanced while an offset is committed":     {kmsg.OffsetCommit, kerr.RebalanceInProgress.Code, 1, 0},
		"an offset is committed in an old generation":              {kmsg.OffsetCommit, kerr.IllegalGeneration.Code, 1, 0},
		"a heartbeat is of an old generation":                      {kmsg.Heartbeat, kerr.IllegalGeneration.Code, 1, 0},
		"the coordinator moves before a heartbeat":                 {kmsg.Heartbeat, kerr.NotCoordinator.Code, 1, 0},
		"the coordinator moves before an offset is committed":      {kmsg.OffsetCommit, kerr.NotCoordinator.Code, 1, 0},
		"the coordinator is not ready to return offsets":           {kmsg.OffsetFetch, kerr.CoordinatorLoadInProgress.Code, 1, 0},
		"the connection breaks while an offset is committed":       {kmsg.OffsetCommit, 0, 1, 0},
		"the connection breaks while partitions are assigned":      {kmsg.SyncGroup, 0, 2, 1},
		"the coordinator does not know the member any more":        {kmsg.Heartbeat, kerr.UnknownMemberID.Code, 2, 0},
		"the coordinator does not know the member that it commits": {kmsg.OffsetCommit, kerr.UnknownMemberID.Code, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
			group := watchMembership(cluster)
			failed := make(chan struct{})
			cluster.ControlKey(int16(test.key), func(r kmsg.Request) (kmsg.Response, error, bool) {
				close(failed)
				if test.code == 0 {
					return nil, errors.New("the connection breaks"), true
				}
				return answer(r, test.code), nil, true
			})
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
			intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
			stop := running(t, intake.Run)
			<-failed
			eventually(t, "the intake works", func() bool { s := intake.Status(); return s.Open && s.Error == "" && s.Stored == 1 })
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-2")})
			eventually(t, "the next one is stored", func() bool { return intake.Status().Stored == 2 })
			entered, left := group.seen()
			assert.True(t, entered <= test.entered, "it joined", entered, "times without an id")
			assert.True(t, len(left) <= test.left, "it joined", len(left), "left as")
			stop()
			_, now := group.seen()
			assert.Equal(t, len(now), len(left)+1, "at the stop it left as", now)
		})
	}
}

func TestAStopLeavesTheGroupDuringARequest(t *testing.T) {
	t.Parallel()
	for _, key := range []kmsg.Key{kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.OffsetCommit} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
			group := watchMembership(cluster)
			due := make(chan struct{})
			cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
				close(due)
				return nil, nil, true
			})
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
			stop := running(t, kafkaIntake(&counter{}, cluster.ListenAddrs(), nil).Run)
			<-due
			stop()
			_, left := group.seen()
			assert.Equal(t, len(left), 1, "it left as", left)
		})
	}
}

func TestARecreatedTopicIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
	client := require.Value(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)))(t)
	defer client.Close()
	first, _ := numbered(5)
	produce(t, cluster.ListenAddrs(), recordsOf(first)...)
	intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
	running(t, intake.Run)
	eventually(t, "the first ones are stored", func() bool { return intake.Status().Stored == 5 })

	name := "ndr.tickets"
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{name}
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	require.Value(remove.RequestWith(t.Context(), client))(t)
	eventually(t, "the status says so", func() bool { return strings.Contains(intake.Status().Error, "Unknown Topic Or Partition") })
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
	require.Value(create.RequestWith(t.Context(), client))(t)
	var records []*kgo.Record
	for i := range 12 { // more than there were
		records = append(records, &kgo.Record{Value: command(fmt.Sprintf("NEW-%d", i)), Timestamp: time.Now().Add(time.Second)})
	}
	produce(t, cluster.ListenAddrs(), records...)
	got := c.accepted(t, 17)
	assert.True(t, got[5] == "NEW-0" && got[16] == "NEW-11", "accepted", got)
}

func TestABrokerOfOtherVersionsIsNamed(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
	cluster.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		for key, versions := range map[kmsg.Key][2]int16{kmsg.Metadata: {0, 13}, kmsg.FindCoordinator: {0, 6}, kmsg.JoinGroup: {0, 0}} {
			api := kmsg.NewApiVersionsResponseApiKey()
			api.ApiKey, api.MinVersion, api.MaxVersion = int16(key), versions[0], versions[1]
			response.ApiKeys = append(response.ApiKeys, api)
		}
		return response, nil, true
	})
	intake := kafkaIntake(&counter{}, cluster.ListenAddrs(), nil)
	running(t, intake.Run)
	const says = "no matching versions were found between the client and the broker for API key 11"
	eventually(t, "the status says so", func() bool { return strings.Contains(intake.Status().Error, says) })
}

// waiter waits at its first command until the context is done, and accepts the others.
type waiter struct {
	counter
	waiting, left chan struct{}
}

func (w *waiter) Accept(ctx context.Context, key string, commands []commands.Command) ([]checkpoint.Acceptance, error) {
	select {
	case <-w.waiting:
		return w.counter.Accept(ctx, key, commands)
	default:
	}
	close(w.waiting)
	<-ctx.Done()
	close(w.left)
	return nil, ctx.Err()
}

func TestARecordIsGivenUpWhenItsPartitionMayMove(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
	w := &waiter{waiting: make(chan struct{}), left: make(chan struct{})}
	cluster.ControlKey(int16(kmsg.Heartbeat), func(r kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-w.waiting:
			return answer(r, kerr.IllegalGeneration.Code), nil, true
		default:
			cluster.KeepControl()
			return nil, nil, false
		}
	})
	produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
	options := w.options()
	options.Acceptor = w
	kafka := intake.NewKafka(intake.KafkaOptions{
		Options: options, Brokers: cluster.ListenAddrs(), Topic: "ndr.tickets", Group: "ndrbridge",
		Connect: func() (*tls.Config, *kafkaconn.SASL, error) { return nil, nil, nil },
	})
	running(t, kafka.Run)
	<-w.waiting
	select {
	case <-w.left:
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits in the next generation")
	}
	eventually(t, "it is stored later", func() bool { return kafka.Status().Stored == 1 })
}
