package nats

import (
	"testing"

	"ndrbridge/test/loopback"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// The server runs in the same process, and its share is part of every figure.
func BenchmarkSend(b *testing.B) {
	events := sinktest.Events(500, 500, 2000)
	for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
		b.Run("jetstream/"+string(mode), func(b *testing.B) {
			s := open(b, Options{URL: loopback.NATS(b, nil).ClientURL(), Stream: "NDR", Subject: "ndr.{appliance}.{stream}.{action}", CreateStream: true, Mode: mode})
			sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
		})
	}
	b.Run("core", func(b *testing.B) {
		s := open(b, Options{URL: loopback.NATS(b, nil).ClientURL(), Subject: "ndr.{appliance}.{stream}.{action}"})
		sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
	})
}
