package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// testCluster is a Kafka cluster in process whose brokers are reached through
// relays.
type testCluster struct {
	*kfake.Cluster
	t      *testing.T
	relays []*sinktest.Relay
	direct map[string]string // the brokers' own addresses by their relays' addresses
	login  []kgo.Opt         // of the client that reads
}

var streamTopics = []string{"ndr.detections", "ndr.audit", "ndr.records", "ndr.events"}

func startCluster(t *testing.T, options ...kfake.Opt) *testCluster {
	t.Helper()
	c := &testCluster{t: t, direct: map[string]string{}}
	listen := func(network, address string) (net.Listener, error) {
		listener, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		relay := sinktest.NewRelay(t, listener.Addr().String())
		c.relays = append(c.relays, relay)
		c.direct[relay.Addr()] = listener.Addr().String()
		return relayed{listener, relay}, nil
	}
	var err error
	c.Cluster, err = kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(2), kfake.ListenFn(listen), kfake.SeedTopics(3, streamTopics...),
	}, options...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// relayed is a listener that reports the address of its relay.
type relayed struct {
	net.Listener
	relay *sinktest.Relay
}

func (l relayed) Addr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", l.relay.Addr())
	return addr
}

// records reads the records of the topics with another client.
func (c *testCluster) records(topics []string) ([]*kgo.Record, error) {
	want := 0
	for _, topic := range topics {
		for _, p := range c.PartitionInfos(topic) {
			want += int(p.HighWatermark)
		}
	}
	if want == 0 {
		return nil, nil
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.ListenAddrs()...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(10 * time.Millisecond),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, c.direct[address])
		}),
	}, c.login...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(records), want, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records, nil
}

// decode decodes a record according to the binding.
func decode(r *kgo.Record) (event.Event, error) {
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	var e event.Event
	var err error
	if headers["content-type"] == transform.ContentTypeStructured {
		e, err = sinktest.Structured(r.Value)
	} else {
		e, err = sinktest.Binary("ce_", false, maps.All(headers), r.Value)
	}
	if err != nil {
		return e, err
	}
	if key := fmt.Sprint(e.Extensions()["partitionkey"]); key != string(r.Key) {
		return e, fmt.Errorf("the record's key is %q, its partitionkey %q", r.Key, key)
	}
	return e, nil
}

func (c *testCluster) events() ([]event.Event, error) {
	records, err := c.records(streamTopics)
	if err != nil {
		return nil, err
	}
	events := make([]event.Event, len(records))
	for i, r := range records {
		if events[i], err = decode(r); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// refuse answers every produce request with the codes that decide returns for its
// partitions; if all are 0, the broker handles it. A negative index names no record.
func (c *testCluster) refuse(decide func(p kmsg.ProduceRequestTopicPartition) (code int16, index int), throttle time.Duration) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		response.ThrottleMillis = int32(throttle.Milliseconds())
		refused := false
		for _, topic := range request.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition = partition.Partition
				code, index := decide(partition)
				p.ErrorCode = code
				if code == 0 {
					p.ErrorCode = kerr.NotLeaderForPartition.Code
				} else {
					refused = true
				}
				if code != 0 && index >= 0 {
					named := kmsg.NewProduceResponseTopicPartitionErrorRecord()
					named.RelativeOffset = int32(index)
					named.ErrorMessage = kmsg.StringPtr("this one is at fault")
					p.ErrorRecords = append(p.ErrorRecords, named)
				}
				t.Partitions = append(t.Partitions, p)
			}
			response.Topics = append(response.Topics, t)
		}
		return response, nil, refused
	})
}

// recordsIn decodes the records of a batch with another client's types.
func recordsIn(batch kmsg.RecordBatch) ([]kmsg.Record, error) {
	body, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes))
	if err != nil {
		return nil, err
	}
	records := make([]kmsg.Record, batch.NumRecords)
	for i := range records {
		length, n := binary.Varint(body)
		size := min(n+int(length), len(body))
		if err := records[i].ReadFrom(body[:size]); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
		body = body[size:]
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("%d bytes after the last record", len(body))
	}
	return records, nil
}

// indexOf returns the index of the record of a batch that contains text, -1 if there is none.
func indexOf(p kmsg.ProduceRequestTopicPartition, text string) int {
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(p.Records); err != nil {
		panic(err)
	}
	records, err := recordsIn(batch)
	if err != nil {
		panic(err)
	}
	return slices.IndexFunc(records, func(r kmsg.Record) bool { return bytes.Contains(r.Value, []byte(text)) })
}

func TestSink(t *testing.T) {
	const maxBytes = 200_000
	modes := []transform.Mode{transform.Structured, transform.Binary}
	sinktest.Run(t, modes, func(t *testing.T, mode transform.Mode) sinktest.Target {
		const username, password = "ana", "correct-horse"
		c := startCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", username, password))
		c.login = []kgo.Opt{kgo.SASL(plain.Auth{User: username, Pass: password}.AsMechanism())}
		var halt *kfake.FaultHandle
		var throttled atomic.Bool
		each := func(f func(*sinktest.Relay)) func() {
			return func() {
				for _, relay := range c.relays {
					f(relay)
				}
			}
		}
		return sinktest.Target{
			Open: func(l *lease.Lease) (sinks.Sink, error) {
				return New(Options{
					Brokers: c.ListenAddrs(), Topic: "ndr.{stream}", Mode: mode,
					MaxMessageBytes: maxBytes, Compression: "none", Lease: l,
					SASL: &kafkaconn.SASL{Mechanism: "plain", Username: username, Password: password},
				})
			},
			Received: c.events,
			Down:     each((*sinktest.Relay).Down),
			Hang:     each((*sinktest.Relay).Hang),
			Stall:    each((*sinktest.Relay).Stall),
			Resume:   each((*sinktest.Relay).Resume),
			Halt: func() {
				halt = c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "ndr.detections", Err: kerr.TopicAuthorizationFailed, Count: -1})
			},
			Throttle: func() time.Duration {
				throttled.Store(true)
				c.refuse(func(kmsg.ProduceRequestTopicPartition) (int16, int) {
					if throttled.Load() {
						return kerr.ThrottlingQuotaExceeded.Code, -1
					}
					return 0, -1
				}, 1500*time.Millisecond)
				return 1500 * time.Millisecond
			},
			Reject: func(id string) {
				c.refuse(func(p kmsg.ProduceRequestTopicPartition) (int16, int) {
					if i := indexOf(p, id); i >= 0 {
						return kerr.InvalidRecord.Code, i
					}
					return 0, -1
				}, 0)
			},
			Restore: func() {
				each((*sinktest.Relay).Restore)()
				throttled.Store(false)
				if halt != nil {
					halt.Remove()
				}
			},
			MaxBytes: maxBytes,
			Secrets:  []string{password},
		}
	})
}

// open returns a sink for the cluster.
func open(t testing.TB, o Options) *Sink {
	t.Helper()
	s := require.Value(New(o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}
