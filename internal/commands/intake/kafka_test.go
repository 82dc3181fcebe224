package intake_test

import (
	"crypto/tls"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/commands/intake"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func kafkaCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c := require.Value(kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...))(t)
	t.Cleanup(c.Close)
	return c
}

func kafkaIntake(c *counter, brokers []string, sasl *kafkaconn.SASL) *intake.Kafka {
	return intake.NewKafka(intake.KafkaOptions{
		Options: c.options(), Brokers: brokers, Topic: "ndr.tickets", Group: "ndrbridge",
		Connect: func() (*tls.Config, *kafkaconn.SASL, error) { return nil, sasl, nil },
	})
}

func produce(t *testing.T, brokers []string, records ...*kgo.Record) {
	t.Helper()
	client := require.Value(kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic("ndr.tickets")))(t)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

func recordsOf(bodies [][]byte) (records []*kgo.Record) {
	for _, body := range bodies {
		records = append(records, &kgo.Record{Key: []byte("k"), Value: body})
	}
	return records
}

func TestCommandsAreReceivedFromKafka(t *testing.T) {
	t.Parallel()
	t.Run("in the order of a partition, none overtaking one that cannot be stored", func(t *testing.T) {
		t.Parallel()
		cluster, c := kafkaCluster(t, kfake.SeedTopics(3, "ndr.tickets")), &counter{failures: 3}
		bodies, want := numbered(50)
		produce(t, cluster.ListenAddrs(), recordsOf(bodies[:25])...)
		intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
		running(t, intake.Run)
		c.accepted(t, 25)
		produce(t, cluster.ListenAddrs(), recordsOf(bodies[25:])...)
		assert.DeepEqual(t, c.accepted(t, len(want)), want, "accepted")
		eventually(t, "the intake works", func() bool { s := intake.Status(); return s.Open && s.Error == "" && s.Stored == 50 })
	})
	t.Run("on from the offset that was committed", func(t *testing.T) {
		t.Parallel()
		cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
		bodies, want := numbered(4)
		produce(t, cluster.ListenAddrs(), recordsOf(bodies[:2])...)
		intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
		stop := running(t, intake.Run)
		eventually(t, "two are stored", func() bool { return intake.Status().Stored == 2 })
		c.accepted(t, 2)
		stop()
		produce(t, cluster.ListenAddrs(), recordsOf(bodies[2:])...)
		running(t, kafkaIntake(c, cluster.ListenAddrs(), nil).Run)
		assert.DeepEqual(t, c.accepted(t, 4), want, "accepted")
	})
	t.Run("a record that is redelivered because its offset could not be committed counts once", func(t *testing.T) {
		t.Parallel()
		cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
		cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("the connection breaks"), true
		})
		produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1")})
		intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
		running(t, intake.Run)
		c.accepted(t, 2)
		produce(t, cluster.ListenAddrs(), &kgo.Record{Value: []byte("no command")})
		eventually(t, "the next one is refused", func() bool { return intake.Status().Refused == 1 })
		s := intake.Status()
		assert.Equal(t, s.Stored, 1, "are said to be stored")
	})
	t.Run("a message that is not a command is refused, and the next one accepted", func(t *testing.T) {
		t.Parallel()
		cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
		for _, w := range wrong {
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: []byte(w.body)})
		}
		produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-9")})
		running(t, kafkaIntake(c, cluster.ListenAddrs(), nil).Run)
		c.accepted(t, 1)
		for i, refusal := range c.refusals(t, len(wrong)) {
			assert.True(t, refusal.Message == "record ndr.tickets/0/"+strconv.Itoa(i) && strings.Contains(refusal.Reason, wrong[i].says), "refusal of", wrong, refusal)
		}
	})
	t.Run("a header names a record that is produced twice", func(t *testing.T) {
		t.Parallel()
		cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
		of := func(header, value string) *kgo.Record {
			return &kgo.Record{Value: command("SEC-1"), Headers: []kgo.RecordHeader{{Key: header, Value: []byte(value)}}}
		}
		produce(t, cluster.ListenAddrs(), of("idempotency-key", "a"), of("ce_id", "b"), of("other", "c"))
		running(t, kafkaIntake(c, cluster.ListenAddrs(), nil).Run)
		c.accepted(t, 3)
		assert.DeepEqual(t, c.keys[:2], []string{"kafka/ndr.tickets/a", "kafka/ndr.tickets/b"}, "keys", c.keys)
	})
	t.Run("a record without a header that names it has another key after its topic was made again", func(t *testing.T) {
		t.Parallel()
		c := &counter{}
		first := time.Now().Truncate(time.Millisecond)
		for i := range 2 {
			cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
			produce(t, cluster.ListenAddrs(), &kgo.Record{Value: command("SEC-1"), Timestamp: first.Add(time.Duration(i) * time.Second)})
			stop := running(t, kafkaIntake(c, cluster.ListenAddrs(), nil).Run)
			c.accepted(t, i+1)
			stop()
		}
		assert.True(t, c.keys[0] != c.keys[1], "both have the key", c.keys[0])
	})
}

func TestMembersOfAGroupShareTheTopic(t *testing.T) {
	t.Parallel()
	cluster, c := kafkaCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "ndr.tickets")), &counter{}
	first := kafkaIntake(c, cluster.ListenAddrs(), nil)
	stop := running(t, first.Run)
	eventually(t, "the first is open", func() bool { return first.Status().Open })
	second := kafkaIntake(c, cluster.ListenAddrs(), nil)
	running(t, second.Run)
	sent := 0
	send := func() {
		for partition := range int32(6) {
			sent++
			produce(t, cluster.ListenAddrs(), &kgo.Record{Key: []byte{byte(partition), byte(sent)}, Value: command("SEC-" + strconv.Itoa(sent))})
		}
	}
	eventually(t, "both take some", func() bool {
		send()
		c.accepted(t, sent)
		return first.Status().Stored > 0 && second.Status().Stored > 0
	})
	stop()
	send()
	c.accepted(t, sent)
	seen := map[string]bool{}
	for _, ticket := range c.tickets {
		seen[ticket] = true
	}
	assert.Equal(t, len(seen), sent, "commands came")
}

func TestATooLargeRecordBatchIsRefusedAndTheNextAccepted(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "33554432"}))
	c, brokers := &counter{}, cluster.ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic("ndr.tickets"), kgo.ManualFlushing(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(32<<20))
	require.NoError(t, err)
	defer client.Close()
	// What is sent is one batch, once the client knows the topic: after the first record.
	send := func(records ...*kgo.Record) {
		for _, r := range records {
			client.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				assert.NoError(t, err)
			})
		}
		require.NoError(t, client.Flush(t.Context()))
	}
	large := func(n int) []*kgo.Record {
		return recordsOf(slices.Repeat([][]byte{make([]byte, 1<<20)}, n))
	}
	send(&kgo.Record{Key: []byte("k"), Value: command("SEC-0")})
	send(large(5)...)
	send(&kgo.Record{Key: []byte("k"), Value: command("SEC-1")})
	send(large(20)...)
	intake := kafkaIntake(c, brokers, nil)
	stop := running(t, intake.Run)
	eventually(t, "all are dealt with", func() bool { s := intake.Status(); return s.Stored == 2 && s.Refused == 2 && s.Error == "" })
	stop()
	assert.DeepEqual(t, c.accepted(t, 2), []string{"SEC-0", "SEC-1"}, "accepted")
	refusals := c.refusals(t, 2)
	require.Equal(t, len(refusals), 2, "refused", refusals)
	for i, want := range []string{"records ndr.tickets/0/1 to 5", "records ndr.tickets/0/7 to 26"} {
		r := refusals[i]
		assert.True(t, r.Message == want && strings.Contains(r.Reason, "4194304 bytes") && time.Since(r.Sent) <= time.Hour, r)
	}
}

func TestRecordsThatWereDeletedAreSkipped(t *testing.T) {
	t.Parallel()
	cluster, c := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets")), &counter{}
	bodies, _ := numbered(4)
	produce(t, cluster.ListenAddrs(), recordsOf(bodies[:1])...)
	intake := kafkaIntake(c, cluster.ListenAddrs(), nil)
	stop := running(t, intake.Run)
	eventually(t, "one is stored", func() bool { return intake.Status().Stored == 1 })
	stop()
	produce(t, cluster.ListenAddrs(), recordsOf(bodies[1:])...)
	client := require.Value(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)))(t)
	defer client.Close()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "ndr.tickets", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 3}}}}
	require.Value(request.RequestWith(t.Context(), client))(t)
	running(t, kafkaIntake(c, cluster.ListenAddrs(), nil).Run)
	got := c.accepted(t, 2)
	assert.Equal(t, got[1], "SEC-3", "accepted", got)
}

func TestAKafkaIntakeRecoversWithoutARecord(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"))
	intake := kafkaIntake(&counter{}, cluster.ListenAddrs(), nil)
	running(t, intake.Run)
	eventually(t, "the intake is open", func() bool { return intake.Status().Open })
	cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("the connection breaks"), true
	})
	eventually(t, "the status says so", func() bool { return intake.Status().Error != "" })
	eventually(t, "the intake works", func() bool { s := intake.Status(); return s.Open && s.Error == "" })
}

func TestAKafkaIntakeReportsErrors(t *testing.T) {
	says := func(t *testing.T, intake *intake.Kafka, text, cause string) {
		t.Helper()
		running(t, intake.Run)
		eventually(t, "the status says so", func() bool { s := intake.Status(); return !s.Open && strings.Contains(s.Error, text) })
		s := intake.Status()
		assert.Equal(t, s.Cause, cause, "cause")
		assert.NotContains(t, s.Error, "hunter2", "it shows the password")
	}
	t.Run("the topic is missing", func(t *testing.T) {
		cluster := kafkaCluster(t)
		says(t, kafkaIntake(&counter{}, cluster.ListenAddrs(), nil), "Unknown Topic Or Partition", "target not available")
	})
	t.Run("the credentials are refused", func(t *testing.T) {
		cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ana", "right"))
		says(t, kafkaIntake(&counter{}, cluster.ListenAddrs(), &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "hunter2"}), "SASL", "misconfigured or not authorized")
	})
	t.Run("no broker answers", func(t *testing.T) {
		says(t, kafkaIntake(&counter{}, []string{"127.0.0.1:1"}, nil), "refuses connections; nothing listens there: check host and port in brokers", "connection refused")
	})
}
func TestAKafkaIntakeReadsItsCredentialsAgain(t *testing.T) {
	t.Parallel()
	cluster := kafkaCluster(t, kfake.SeedTopics(1, "ndr.tickets"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ana", "right"))
	var asked, refused atomic.Int32
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		// The password changes once the topic was found: while the group is joined.
		return answer, nil, asked.Load() == 1 && refused.Add(1) > 1
	})
	intake := intake.NewKafka(intake.KafkaOptions{
		Options: (&counter{}).options(), Brokers: cluster.ListenAddrs(), Topic: "ndr.tickets", Group: "ndrbridge",
		Connect: func() (*tls.Config, *kafkaconn.SASL, error) {
			asked.Add(1)
			return nil, &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "right"}, nil
		},
	})
	running(t, intake.Run)
	eventually(t, "the intake works", func() bool { s := intake.Status(); return s.Open && s.Error == "" })
	assert.True(t, asked.Load() >= 2, "the credentials were read once")
}
