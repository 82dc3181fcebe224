package intake_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/loopback"
)

// highest watches how much memory is in use until stop, which returns the most beyond what other
// tests use.
func highest() (stop func() uint64) {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	end, most := make(chan struct{}), make(chan uint64)
	go func() {
		var high uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			high = max(high, now.HeapAlloc)
			select {
			case <-end:
				most <- high - min(high, before.HeapAlloc)
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(end)
		return <-most
	}
}

// attackNames has the texts that the status must contain.
var attackNames = map[string]string{
	hostile.KafkaHTTP:                      "HTTP",
	hostile.KafkaTLS:                       "set tls",
	hostile.KafkaNegative:                  "-2 bytes",
	hostile.KafkaHuge:                      "2147483647 bytes",
	hostile.KafkaLinkLocal:                 "169.254.169.254",
	hostile.KafkaNoTopics:                  "Unknown Topic Or Partition",
	"lists of 2^31-1 in Metadata":          "Metadata answer is malformed",
	"lists of 2^31-1 in SyncGroup":         "malformed",
	"lists of 2^31-1 in OffsetFetch":       "not enough bytes",
	"lists of 2^31-1 in ListOffsets":       "malformed",
	"lists of 2^31-1 in Fetch":             "malformed",
	"negative lengths in SASLAuthenticate": "malformed",
	hostile.KafkaManyRecords:               "malformed",
	hostile.KafkaLargeBatch:                "the limit is 33554432",
	hostile.KafkaLargeBehind:               "the limit is 33554432",
}

// Not in parallel: memory is measured.
func TestAHostileBrokerUsesLittleMemoryAndDoesNotDelayTheStop(t *testing.T) {
	for _, attack := range hostile.KafkaAttacks() {
		t.Run(attack, func(t *testing.T) {
			broker := hostile.NewBroker(attack)
			sasl := &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "hunter2"}
			if attack == hostile.KafkaIterations {
				sasl.Mechanism = "scram-sha-256"
			}
			intake := kafkaIntake(&counter{}, []string{loopback.Serve(t, broker.Serve)}, sasl)
			most := highest()
			stop := running(t, intake.Run)
			times := 1
			if strings.Contains(attack, "2^31-1 in") || strings.Contains(attack, "lengths in") || attack == hostile.KafkaGarbage {
				times = 6 // the broker falsifies another field each time
			}
			eventually(t, "the attack is reached, or none of its business", func() bool { return broker.Reached() >= times || broker.Answered() >= 40 })
			text := attackNames[attack]
			eventually(t, "the status says "+text, func() bool { return strings.Contains(intake.Status().Error, text) })
			stop()
			bytes := most()
			assert.True(t, bytes <= 128<<20, "it takes", bytes, "bytes of memory")
			s := intake.Status()
			assert.NotContains(t, s.Error, "hunter2", "it shows the password")
		})
	}
}
