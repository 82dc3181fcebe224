package intake_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

func TestOffsetsThatNobodyAskedForAreIgnored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		topic     string
		partition int32
		offset    int64
		stored    bool
	}{
		"beside those of the partition":     {"ndr.tickets", 0, 0, true},
		"instead of those of the partition": {"ndr.tickets", 7, 0, false},
		"of another topic":                  {"other", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
			cluster.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				response := r.ResponseKind().(*kmsg.ListOffsetsResponse)
				for _, partition := range []int32{test.partition, 9} {
					p := kmsg.NewListOffsetsResponseTopicPartition()
					p.Partition, p.Offset, p.Timestamp = partition, test.offset, 1234
					topic := kmsg.NewListOffsetsResponseTopic()
					topic.Topic, topic.Partitions = test.topic, append(topic.Partitions, p)
					response.Topics = append(response.Topics, topic)
				}
				return response, nil, true
			})
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
			intake := kafkaIntake(&counter{}, cluster.ListenAddrs(), nil)
			running(t, intake.Run)
			eventually(t, "it is stored, or the status says so", func() bool {
				s := intake.Status()
				return test.stored && s.Stored == 1 || !test.stored && strings.Contains(s.Error, "does not contain the partition")
			})
		})
	}
}

func TestASilentBrokerIsLeftForAnother(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ana", "right"))
	var silent atomic.Int32
	quiet := loopback.Serve(t, func(c net.Conn) {
		silent.Add(1)
		buffer := make([]byte, 1024)
		for _, err := c.Read(buffer); err == nil; _, err = c.Read(buffer) {
		}
	})
	produce := func(body []byte) {
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("ndr.tickets"), kgo.SASL(plain.Auth{User: "ana", Pass: "right"}.AsMechanism()))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Value: body}).FirstErr())
	}
	produce(command("SEC-1"))
	login := &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "right"}
	both := kafkaIntake(&counter{}, append([]string{quiet}, cluster.ListenAddrs()...), login)
	running(t, both.Run)
	eventually(t, "it is stored", func() bool { return both.Status().Stored == 1 })
	assert.True(t, silent.Load() != 0, "the silent broker was not tried")
}

func TestACoordinatorThatIsSilentIsReported(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ana", "right"))
	quiet := loopback.Silent(t)
	host, port, _ := net.SplitHostPort(quiet)
	cluster.ControlKey(int16(kmsg.FindCoordinator), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
		address, _ := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
		response.NodeID, response.Host, response.Port = 1, host, int32(address.Port)
		return response, nil, true
	})
	intake := kafkaIntake(&counter{}, cluster.ListenAddrs(), &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "right"})
	stop := running(t, intake.Run)
	eventually(t, "the status says so", func() bool { return strings.Contains(intake.Status().Error, "no answer in time") })
	stop()
}

func TestAssignmentsAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, times, partitions int }{
		"a partition that is assigned often": {0, 500, 1},
		"many partitions":                    {0, 1, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
			cluster.ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				var partitions []int32
				for p := range int32(test.partitions) {
					for range test.times {
						partitions = append(partitions, p)
					}
				}
				m := kmsg.NewConsumerMemberAssignment()
				m.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "ndr.tickets", Partitions: partitions}}
				response := r.ResponseKind().(*kmsg.SyncGroupResponse)
				response.MemberAssignment = m.AppendTo(nil)
				return response, nil, true
			})
			for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit} { // the cluster does not know the member
				cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
					cluster.KeepControl()
					return answer(r, 0), nil, true
				})
			}
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
			c := &counter{}
			intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
			stop := running(t, intake.Run)
			if test.partitions > 1 {
				eventually(t, "the status says so", func() bool { return strings.Contains(intake.Status().Error, "assigned 2000 partitions") })
				return
			}
			c.accepted(t, 1)
			time.Sleep(500 * time.Millisecond)
			stop()
			assert.Equal(t, len(c.accepted(t, 1)), 1, "times that it is accepted")
		})
	}
}

func TestFewPartitionsAreFetchedAtOnce(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(20, "ndr.tickets"))
	var now, most atomic.Int32
	cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		cluster.SleepControl(func() { time.Sleep(20 * time.Millisecond) })
		now.Add(-1)
		return nil, nil, false
	})
	bodies, _ := numbered(40)
	for i, body := range bodies {
		produce(t, cluster.ListenAddrs(), &kgo.Record{Key: []byte{byte(i)}, Value: body})
	}
	intake := kafkaIntake(&counter{}, cluster.ListenAddrs(), nil)
	running(t, intake.Run)
	eventually(t, "all are stored", func() bool { return intake.Status().Stored == 40 })
	assert.True(t, most.Load() <= 4, most.Load(), "partitions are fetched at once")
}
