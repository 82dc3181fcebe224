package kafkaconn

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"ndrbridge/internal/failure"
)

// Client is a kafka.Client with one kafka.Transport after another. Connect must be called before
// its first request.
type Client struct {
	kafka.Client
	Dialer *Dialer
	seeds  []string // addresses of brokers; the one that answered last is the first
	close  func()   // closes the current transport
}

// metadataTTL bounds how long a leader that has moved is asked.
const metadataTTL = 10 * time.Second

// NewClient returns a client of the brokers at the addresses, which are its seeds.
func NewClient(d *Dialer, timeout time.Duration, seeds ...string) *Client {
	return &Client{Client: kafka.Client{Timeout: timeout}, Dialer: d, seeds: seeds, close: func() {}}
}

// Connect closes the connections and returns metadata of topics, which must name all that are
// used, from the first seed that answers. The connections end with life.
//
// kafka.Transport keeps metadata although a broker answered that the leader moved
// (segmentio/kafka-go#1221), and its requests outlive their context, so that an older batch
// could be stored after a newer one. It has one timeout for all of its addresses: it gets one.
func (c *Client) Connect(ctx, life context.Context, topics ...string) (*metadata.Response, error) {
	var severest error
	for i, address := range c.seeds {
		within, cancel := context.WithTimeout(ctx, signInTimeout)
		c.reset(life, address, topics)
		answer, err := c.Transport.RoundTrip(within, c.Addr, &metadata.Request{})
		cancel()
		if err == nil {
			c.seeds = slices.Concat(c.seeds[i:], c.seeds[:i])
			return answer.(*metadata.Response), nil
		}
		if class := c.Dialer.Error(ctx, err, "").Class; severest == nil || class == failure.Halted {
			severest = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, severest
}

// reset replaces the transport by one whose metadata comes from the broker at address.
func (c *Client) reset(life context.Context, address string, topics []string) {
	c.Close()
	life, cancel := context.WithCancel(life)
	t := &kafka.Transport{
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Dialer.Dial(ctx, life, address)
		},
		DialTimeout: DialTimeout, MetadataTTL: metadataTTL, MetadataTopics: topics, ClientID: c.Dialer.ClientID, Context: life,
	}
	if c.Dialer.Login != nil {
		t.SASL = c.Dialer.Login
	}
	c.Addr, c.Transport = kafka.TCP(address), t
	c.close = func() {
		cancel()
		t.CloseIdleConnections()
	}
}

// Close closes the connections. Requests in flight fail.
func (c *Client) Close() { c.close() }

// kafka-go decodes records in a goroutine of its own, and panics or takes as much memory as
// they announce. So it gets them as bytes.
func init() { protocol.Register(&fetch.Request{}, &fetchAnswer{}) }

type fetchAnswer struct {
	ThrottleTimeMs int32        `kafka:"min=v1,max=v11"`
	ErrorCode      int16        `kafka:"min=v7,max=v11"`
	SessionID      int32        `kafka:"min=v7,max=v11"`
	Topics         []fetchTopic `kafka:"min=v0,max=v11"`
}

// ApiKey implements protocol.Message.
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

type fetchTopic struct {
	Topic      string           `kafka:"min=v0,max=v11"`
	Partitions []fetchPartition `kafka:"min=v0,max=v11"`
}

type fetchPartition struct {
	Partition            int32                       `kafka:"min=v0,max=v11"`
	ErrorCode            int16                       `kafka:"min=v0,max=v11"`
	HighWatermark        int64                       `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                       `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                       `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetch.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                       `kafka:"min=v11,max=v11"`
	Records              []byte                      `kafka:"min=v0,max=v11"`
}

// Fetch returns record batches from an offset of a partition on. It waits for them, and
// requests maxBytes, but at least one batch.
func (c *Client) Fetch(ctx context.Context, topic string, partition int, offset int64, wait time.Duration, maxBytes int32) ([]byte, error) {
	answer, err := c.Transport.RoundTrip(ctx, c.Addr, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: maxBytes, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: maxBytes,
		}}}},
	})
	if err != nil {
		return nil, err
	}
	for _, t := range answer.(*fetchAnswer).Topics {
		for _, p := range t.Partitions {
			if t.Topic != topic || int(p.Partition) != partition {
				continue
			}
			if p.ErrorCode != 0 {
				return nil, kafka.Error(p.ErrorCode)
			}
			return p.Records, nil
		}
	}
	return nil, fmt.Errorf("the broker's answer does not contain it")
}
