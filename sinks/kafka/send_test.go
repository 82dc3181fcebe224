package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// failures sends events of which some fail, and returns the result of each.
func failures(t *testing.T, s *Sink, events []transform.Event) failure.EventErrors {
	t.Helper()
	err := s.Send(t.Context(), events)
	each, ok := errors.AsType[failure.EventErrors](err)
	require.True(t, ok, "no errors of events", err)
	return each
}

func TestNewReportsAllInvalidOptions(t *testing.T) {
	_, err := New(Options{Topic: "{nothing}", Compression: "brotli", SASL: &kafkaconn.SASL{Mechanism: "gssapi", Username: "ana", Password: "x"}})
	require.True(t, err != nil, "no")
	for _, key := range []string{"topic", "compression", "sasl.mechanism"} {
		assert.Contains(t, err.Error(), key, "it says nothing of", err)
	}
}

func TestLargeEventIsSentIfItsCompressedSizeFits(t *testing.T) {
	c := startCluster(t)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", MaxMessageBytes: 20_000})
	noise := make([]byte, 30_000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	rejected, err := transform.New(transform.Attributes{ID: "noise", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created"},
		fmt.Appendf(nil, "%q", hex.EncodeToString(noise)))
	require.NoError(t, err)
	events := append(sinktest.Events(3, 3, 60_000), rejected)
	each := failures(t, s, events)
	for i, err := range each {
		class, _ := failure.ClassOf(err)
		assert.True(t, (err != nil) == (i == 3) && (err == nil || class == failure.Rejected), "event", i, "class", class, err)
	}
	assert.Equal(t, len(require.Value(c.events())(t)), 3, "events")
}

func TestDocumentIsTheValueOfTheRecord(t *testing.T) {
	c := startCluster(t)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", Compression: "none", Acks: "one", MaxMessageBytes: 5000})
	events := sinktest.Events(3, 3, 0)
	events[0] = events[0].WithDocument("application/json", []byte(`{"class_uid":2004}`))
	events[1] = events[1].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a"+strings.Repeat("b", 6000)))
	events[2] = events[2].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a"))
	each, ok := errors.AsType[failure.EventErrors](s.Send(t.Context(), events))
	require.True(t, ok && each[0] == nil && each[2] == nil, "errors", each)
	class, _ := failure.ClassOf(each[1])
	assert.Equal(t, class, failure.Rejected, "a document above max_message_bytes", each)
	records := require.Value(c.records(streamTopics))(t)
	require.Equal(t, len(records), 2, "records")
	want := map[string]transform.Event{events[0].PartitionKey: events[0], events[2].PartitionKey: events[2]}
	for _, r := range records {
		e := want[string(r.Key)]
		if string(r.Value) != string(e.Payload()) || len(r.Headers) != 1 || r.Headers[0].Key != "content-type" || string(r.Headers[0].Value) != e.ContentType() {
			t.Errorf("key %s, value %s, headers %v", r.Key, r.Value, r.Headers)
		}
	}
}

func TestRecordPartitionAndTimestamp(t *testing.T) {
	c := startCluster(t)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"})
	events := sinktest.Events(30, 30, 0)
	require.NoError(t, s.Send(t.Context(), events))
	records := require.Value(c.records(streamTopics))(t)
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("") // hashes keys as the Java client does
	byKey := map[string]transform.Event{}
	for _, e := range events {
		byKey[e.PartitionKey] = e
	}
	for _, r := range records {
		assert.Equal(t, int(r.Partition), partitioner.Partition(r, 3), "key", string(r.Key), "lies in partition", r.Partition)
		want := byKey[string(r.Key)].RecordedTime
		assert.True(t, r.Timestamp.Equal(want), "key", string(r.Key), "has the time", r.Timestamp, want)
	}
}

func TestSASL(t *testing.T) {
	for name, mechanism := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ana", "correct horse"))
			options := Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", SASL: &kafkaconn.SASL{Mechanism: name, Username: "ana", Password: "correct horse"}}
			assert.NoError(t, open(t, options).Send(t.Context(), sinktest.Events(3, 3, 0)))
			options.SASL = &kafkaconn.SASL{Mechanism: name, Username: "ana", Password: "battery staple"}
			err := open(t, options).Send(t.Context(), sinktest.Events(3, 3, 0))
			class, _ := failure.ClassOf(err)
			assert.True(t, err != nil && class == failure.Halted, "a wrong password: class", class, err)
			assert.True(t, err == nil || !strings.Contains(err.Error(), "battery"), "the password shows", err)
		})
	}
	for name, mechanism := range map[string]string{"plain": "PLAIN", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run("a broker that repeats the password of "+name+" is redacted", func(t *testing.T) {
			const password = `correct "horse" & staple`
			c := startCluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ana", password))
			for _, code := range []int16{-1, 7, 31, 34, 58} {
				c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					response := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
					response.ErrorCode = code
					response.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("you sent %s, %q", r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, password))
					return response, nil, true
				})
				s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "x", SASL: &kafkaconn.SASL{Mechanism: name, Username: "ana", Password: password}})
				err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
				assert.True(t, err != nil && strings.Contains(err.Error(), "you sent") && !strings.Contains(err.Error(), "horse"), "code", code, err)
			}
		})
	}
	// The password consists of the sink's own words, which stay.
	for name, password := range map[string]string{"a topic that is refused": "create topic x", "a record that is refused": "topic x: ", "an advertised host": "kafka"} {
		t.Run("a broker that repeats the password is redacted, the sink is not: "+name, func(t *testing.T) {
			c := startCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ana", password))
			said := kmsg.StringPtr("you sent <" + password + ">")
			c.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
				if name != "a topic that is refused" {
					return nil, nil, false
				}
				response := r.ResponseKind().(*kmsg.CreateTopicsResponse)
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic, topic.ErrorCode, topic.ErrorMessage = "x", kerr.PolicyViolation.Code, said
				response.Topics = append(response.Topics, topic)
				return response, nil, true
			})
			c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
				response := r.ResponseKind().(*kmsg.ProduceResponse)
				topic := kmsg.NewProduceResponseTopic()
				topic.Topic = "x"
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition = r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Partition
				partition.ErrorCode, partition.ErrorMessage = kerr.InvalidRecord.Code, said
				topic.Partitions = append(topic.Partitions, partition)
				response.Topics = append(response.Topics, topic)
				return response, nil, true
			})
			if name == "an advertised host" {
				c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
					response := r.ResponseKind().(*kmsg.MetadataResponse)
					broker := kmsg.NewMetadataResponseBroker()
					broker.Host, broker.Port = "<"+password+">.invalid", 9092
					topic := kmsg.NewMetadataResponseTopic()
					topic.Topic = kmsg.StringPtr("x")
					topic.Partitions = []kmsg.MetadataResponseTopicPartition{kmsg.NewMetadataResponseTopicPartition()}
					response.Brokers, response.Topics = append(response.Brokers, broker), append(response.Topics, topic)
					return response, nil, true
				})
			}
			s := open(t, Options{Brokers: c.ListenAddrs()[:1], Topic: "x", CreateTopic: &CreateTopic{}, SASL: &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: password}})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			assert.True(t, err != nil && strings.Contains(err.Error(), password) && strings.Contains(err.Error(), "<[redacted]>") && !strings.Contains(err.Error(), "<"+password), err)
		})
	}
	t.Run("a password that SASLprep forbids is reported but not quoted", func(t *testing.T) {
		_, err := New(Options{Brokers: []string{"h:1"}, Topic: "x", SASL: &kafkaconn.SASL{Mechanism: "scram-sha-256", Username: "ana", Password: "correct\ahorse"}})
		assert.True(t, err != nil && strings.Contains(err.Error(), "SASLprep") && !strings.Contains(err.Error(), "horse") && !strings.Contains(err.Error(), "0007"), err)
	})
}

func TestTLS(t *testing.T) {
	certificate, pool := sinktest.Certificate(t)
	c := startCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	options := Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", TLS: &tls.Config{RootCAs: pool}}
	assert.NoError(t, open(t, options).Send(t.Context(), sinktest.Events(3, 3, 0)), "with the right authority")
	options.SASL = &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "correct-horse"}
	options.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	err := open(t, options).Send(t.Context(), sinktest.Events(3, 3, 0))
	class, _ := failure.ClassOf(err)
	assert.True(t, err != nil && class == failure.Halted && strings.Contains(err.Error(), "tls.ca_file"), "an unknown authority: class", class, err)
	assert.True(t, err == nil || !strings.Contains(err.Error(), "horse"), "a secret shows", err)
}

func TestMissingTopic(t *testing.T) {
	events := sinktest.Events(4, 4, 0)
	t.Run("halts with advice", func(t *testing.T) {
		c := startCluster(t)
		s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "missing"})
		each := failures(t, s, events)
		for _, err := range each {
			class, _ := failure.ClassOf(err)
			assert.True(t, class == failure.Halted && strings.Contains(err.Error(), "create_topic"), "class", class, err)
		}
		require.NoError(t, c.CreateTopic("missing", 2, nil))
		assert.NoError(t, s.Send(t.Context(), events), "once it exists")
	})
	for name, create := range map[string]*CreateTopic{"": nil, " if it may not be created": {Replication: 9}} {
		t.Run("does not affect the events of other topics"+name, func(t *testing.T) {
			c := startCluster(t)
			require.NoError(t, c.DeleteTopic("ndr.audit"))
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.InvalidReplicationFactor, Count: -1})
			each := failures(t, open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", CreateTopic: create}), sinktest.Awkward())
			for i, e := range sinktest.Awkward() {
				assert.Equal(t, each[i] != nil, (e.Stream() == transform.StreamAudit), "event", e.ID, e.Stream(), each)
			}
		})
	}
	t.Run("is created if the sink may", func(t *testing.T) {
		c := startCluster(t)
		s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "made.{action}", CreateTopic: &CreateTopic{Partitions: 5, Replication: 1}})
		require.NoError(t, s.Send(t.Context(), events))
		assert.Equal(t, len(c.PartitionInfos("made.updated")), 5, "partitions")
		assert.Equal(t, len(require.Value(c.records([]string{"made.updated"}))(t)), len(events), "records")
	})
	t.Run("is not changed if it exists", func(t *testing.T) {
		c := startCluster(t)
		s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", CreateTopic: &CreateTopic{Partitions: 9}})
		require.NoError(t, s.Send(t.Context(), events))
		assert.Equal(t, len(c.PartitionInfos("ndr.detections")), 3, "partitions")
	})
}

func TestLeaderMoves(t *testing.T) {
	c := startCluster(t)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"})
	events := sinktest.Events(12, 12, 0)
	require.NoError(t, s.Send(t.Context(), events[:6]))
	for p := range int32(3) {
		other := 1 - c.LeaderFor("ndr.detections", p)
		require.NoError(t, c.MoveTopicPartition("ndr.detections", p, other))
	}
	err := s.Send(t.Context(), events[6:])
	class, _ := failure.ClassOf(err)
	require.True(t, err != nil && class == failure.Transient, "class", class, err)
	assert.NoError(t, s.Send(t.Context(), events[6:]), "at the second attempt")
	assert.Equal(t, len(require.Value(c.events())(t)), len(events), "events")
}

func TestOrderOfAKeyWhoseTopicChanges(t *testing.T) {
	made := func(id, key, action string) transform.Event {
		e, err := transform.New(transform.Attributes{
			ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection." + action, PartitionKey: key,
		}, []byte(`{}`))
		require.NoError(t, err)
		return e
	}
	events := []transform.Event{
		made("1-1", "1", "created"), made("2-1", "2", "updated"), made("1-2", "1", "updated"), made("1-3", "1", "created"), made("3-1", "3", "created"),
	}
	for name, topics := range map[string][]string{
		"if the first topic accepts it": {"created", "updated"},
		"when the first topic is gone":  {"updated"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, kfake.SeedTopics(3, topics...))
			s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "{action}"})
			each := failures(t, s, events)
			for i, err := range each {
				assert.Equal(t, i == 2 || i == 3, errors.Is(err, failure.ErrNotTried), "event", events, err)
			}
			assert.Equal(t, len(require.Value(c.records([]string{"updated"}))(t)), 1, "records")
		})
	}
}

func TestBatchWithUnknownOutcomeIsNotOvertaken(t *testing.T) {
	c := startCluster(t)
	const key, size = 1, 2000
	events := sinktest.Events(10, key, size)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", MaxMessageBytes: 3*size + 1300, Compression: "none"})
	require.NoError(t, s.Send(t.Context(), events[:1]))
	// The broker stores the first of three batches and reports an unknown outcome.
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend})
	each := failures(t, s, events[1:])
	for i, err := range each {
		class, _ := failure.ClassOf(err)
		assert.True(t, err != nil && class == failure.Transient && errors.Is(err, failure.ErrNotTried) == (i >= 3), "event", i, "class", class, err)
	}
	assert.Equal(t, fault.Hits(), 1, "requests")
}

func TestRejectedEventIsFound(t *testing.T) {
	for name, index := range map[string]bool{"by the index that the broker gives": true, "by halving where it gives none": false} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t)
			require.NoError(t, c.CreateTopic("single", 1, nil))
			events := sinktest.Events(40, 8, 0)
			bad := map[string]bool{events[3].ID: true, events[4].ID: true, events[39].ID: true}
			c.refuse(func(p kmsg.ProduceRequestTopicPartition) (int16, int) {
				for id := range bad {
					if i := indexOf(p, id); i >= 0 {
						if !index {
							i = -1
						}
						return kerr.MessageTooLarge.Code, i
					}
				}
				return 0, -1
			}, 0)
			s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "single", Compression: "none"})
			each := failures(t, s, events)
			want := []string{}
			for i, e := range events {
				class, _ := failure.ClassOf(each[i])
				assert.True(t, bad[e.ID] == (each[i] != nil) && (!bad[e.ID] || class == failure.Rejected && strings.Contains(each[i].Error(), "max.message.bytes")), i, class, each[i])
				if !bad[e.ID] {
					want = append(want, e.ID)
				}
			}
			records := require.Value(c.records([]string{"single"}))(t)
			require.Equal(t, len(records), len(want), "records")
			for i, r := range records {
				require.Equal(t, require.Value(decode(r))(t).ID(), want[i], "record", i, "is", "not")
			}
		})
	}
}

func TestABrokerThatIsDownHoldsUpOnlyItsPartitions(t *testing.T) {
	c := startCluster(t, kfake.NumBrokers(3))
	for p := range int32(3) { // one partition on each
		require.NoError(t, c.MoveTopicPartition("ndr.detections", p, p))
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Nodes: []int32{1}, Err: kerr.NotEnoughReplicas, Count: -1})
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"})
	events := sinktest.Events(60, 30, 500)
	for i, err := range failures(t, s, events) {
		down := s.Part(events[i]) == "ndr.detections/1"
		if down != (err != nil) || down && failure.ScopeOf(err) != failure.ScopePart {
			t.Errorf("event %d of %s: %v", i, s.Part(events[i]), err)
		}
	}
}

func TestOldBrokerHalts(t *testing.T) {
	c := startCluster(t)
	c.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		response := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		produce := kmsg.NewApiVersionsResponseApiKey()
		produce.ApiKey, produce.MaxVersion = int16(kmsg.Produce), 2
		response.ApiKeys = append(response.ApiKeys, produce)
		return response, nil, true
	})
	err := open(t, Options{Brokers: c.ListenAddrs()[:1], Topic: "ndr.{stream}"}).Send(t.Context(), sinktest.Events(1, 1, 0))
	class, _ := failure.ClassOf(err)
	assert.True(t, err != nil && class == failure.Halted && strings.Contains(err.Error(), "0.11"), "class", class, err)
}

func TestBrokerThatRequiresACertificateHalts(t *testing.T) {
	certificate, pool := sinktest.Certificate(t)
	c := startCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}))
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", TLS: &tls.Config{RootCAs: pool}, Timeout: 10 * time.Second})
	err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
	class, _ := failure.ClassOf(err)
	assert.True(t, err != nil && class == failure.Halted && strings.Contains(err.Error(), "tls.cert_file"), "class", class, err)
	s = open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}})
	assert.NoError(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)), "with a certificate")
}
