//go:build unix

package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// The broker runs in the same process, and its share is part of every figure.
func BenchmarkSend(b *testing.B) {
	events := sinktest.Events(500, 500, 2000)
	for _, codec := range []string{"none", "lz4", "zstd"} {
		for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
			b.Run(codec+"/"+string(mode), func(b *testing.B) {
				c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "ndr"), kfake.BlackholeProduce())
				require.NoError(b, err)
				b.Cleanup(c.Close)
				s := open(b, Options{Brokers: c.ListenAddrs(), Topic: "ndr", Compression: codec, Mode: mode})
				sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
			})
		}
	}
}
