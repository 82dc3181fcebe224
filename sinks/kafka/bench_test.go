//go:build unix

package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	kafkago "github.com/segmentio/kafka-go"

	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// The broker runs in the same process, and its share is part of every figure.
func BenchmarkSend(b *testing.B) {
	events := sinktest.Events(500, 500, 2000)
	start := func(b *testing.B) []string {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "ndr"), kfake.BlackholeProduce())
		require.NoError(b, err)
		b.Cleanup(c.Close)
		return c.ListenAddrs()
	}
	for _, codec := range []string{"none", "lz4", "zstd"} {
		for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
			b.Run("sink/"+codec+"/"+string(mode), func(b *testing.B) {
				s := open(b, Options{Brokers: start(b), Topic: "ndr", Compression: codec, Mode: mode})
				sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
			})
		}
		b.Run("client/"+codec, func(b *testing.B) {
			var compression kafkago.Compression
			if codec != "none" {
				require.NoError(b, compression.UnmarshalText([]byte(codec)))
			}
			w := &kafkago.Writer{
				Addr: kafkago.TCP(start(b)...), Topic: "ndr", Balancer: kafkago.Murmur2Balancer{}, Compression: compression,
				RequiredAcks: kafkago.RequireAll, BatchSize: 500, BatchTimeout: time.Millisecond,
			}
			defer w.Close()
			messages := make([]kafkago.Message, len(events))
			for i, e := range events {
				messages[i] = kafkago.Message{Key: []byte(e.PartitionKey), Value: e.Structured()}
			}
			sinktest.PerEvent(b, len(events), func() error { return w.WriteMessages(context.Background(), messages...) })
		})
	}
}
