package kafka

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// attacked starts a hostile broker and returns the options of a sink for it.
func attacked(t *testing.T, attack string) (Options, *hostile.Broker) {
	t.Helper()
	broker := hostile.NewBroker(attack)
	o := Options{
		Brokers: []string{loopback.Serve(t, broker.Serve)}, Topic: "ndr.{stream}", Timeout: 300 * time.Millisecond,
		CreateTopic: &CreateTopic{}, SASL: &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "correct horse"},
	}
	if attack == hostile.KafkaIterations {
		o.SASL.Mechanism = "scram-sha-256"
	}
	return o, broker
}

// taken is how much memory f takes, of which none need be given back.
func taken(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileBroker(t *testing.T) {
	events := sinktest.Events(5, 5, 100)
	for _, attack := range hostile.KafkaAttacks() {
		t.Run(attack, func(t *testing.T) {
			sends := 1
			if strings.Contains(attack, "2^31-1 in") || strings.Contains(attack, "lengths in") || attack == hostile.KafkaGarbage {
				sends = 25 // the broker falsifies another field each time
			}
			for range sends {
				o, _ := attacked(t, attack)
				s := open(t, o)
				var err error
				bytes := taken(func() { err = s.Send(t.Context(), events) })
				assert.True(t, bytes <= 64<<20, bytes, "bytes were allocated")
				class, _ := failure.ClassOf(err)
				assert.True(t, err == nil || class == failure.Transient || class == failure.Halted, "class", class, err)
				assert.NoError(t, s.Close())
			}
		})
	}
}

func TestOtherServersAreRecognized(t *testing.T) {
	for attack, want := range map[string]struct {
		class failure.Class
		says  []string
	}{
		hostile.KafkaHTTP:                      {failure.Halted, []string{"HTTP", "brokers"}},
		hostile.KafkaTLS:                       {failure.Halted, []string{"TLS", "set tls"}},
		hostile.KafkaNegative:                  {failure.Transient, []string{"-2 bytes"}},
		hostile.KafkaHuge:                      {failure.Transient, []string{"2147483647 bytes"}},
		hostile.KafkaEmpty:                     {failure.Transient, []string{"0 bytes"}},
		hostile.KafkaIterations:                {failure.Halted, []string{"2147483647 iterations"}},
		hostile.KafkaLinkLocal:                 {failure.Transient, []string{"169.254.169.254", "advertised.listeners"}},
		hostile.KafkaNoTopics:                  {failure.Transient, []string{"missing from the broker"}},
		hostile.KafkaHungUp:                    {failure.Transient, []string{"EOF"}},
		"lists of 2^31-1 in ApiVersions":       {failure.Transient, []string{"ApiVersions answer is malformed"}},
		"negative lengths in SASLAuthenticate": {failure.Transient, []string{"SaslAuthenticate answer is malformed"}},
		"silence at SASLAuthenticate":          {failure.Transient, []string{"deadline exceeded"}},
		hostile.KafkaSilence:                   {failure.Transient, []string{"deadline exceeded"}},
		"lists of 2^31-1 in Metadata":          {failure.Transient, []string{"Metadata answer is malformed"}},
	} {
		t.Run(attack, func(t *testing.T) {
			o, _ := attacked(t, attack)
			o.CreateTopic = nil
			if !slices.Contains(want.says, "deadline exceeded") {
				o.Timeout = 20 * time.Second // only silence is to end by it
			}
			err := open(t, o).Send(t.Context(), sinktest.Events(1, 1, 10))
			class, _ := failure.ClassOf(err)
			require.True(t, err != nil && class == want.class, "class", class, err)
			for _, text := range want.says {
				assert.Contains(t, err.Error(), text, "it says nothing of", err)
			}
		})
	}
}

func TestCheckOfAHostileBroker(t *testing.T) {
	for _, attack := range hostile.KafkaAttacks() {
		t.Run(attack, func(t *testing.T) {
			o, _ := attacked(t, attack)
			patience := 20 * time.Second
			if strings.HasPrefix(attack, "silence") || attack == hostile.KafkaDrip {
				patience = 300 * time.Millisecond // nothing comes
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var found []finding.Finding
			if bytes := taken(func() { found = open(t, o).Check(ctx, sinks.Trial{Sure: sinktest.Events(1, 1, 10), Now: time.Now}) }); bytes > 128<<20 { // all that is allocated, by the broker too
				t.Errorf("%d bytes were allocated", bytes)
			}
			text := ""
			for _, f := range found {
				text += string(f.Result) + " " + f.Detail + " " + f.Advice + "\n"
			}
			says := map[string]string{hostile.KafkaHTTP: "HTTP", hostile.KafkaTLS: "set tls", hostile.KafkaLinkLocal: "169.254.169.254"}
			assert.Contains(t, text, says[attack])
			assert.NotContains(t, text, "horse", "the error contains the password")
		})
	}
}

func TestUnrequestedTopicsAreIgnored(t *testing.T) {
	o, _ := attacked(t, hostile.KafkaOtherTopics)
	o.Timeout = 30 * time.Second // the answer is large, and the race detector slow
	s := open(t, o)
	for range 3 {
		s.reset()
		if err := s.Send(t.Context(), sinktest.Events(1, 1, 10)); err != nil {
			t.Log(err) // the answer also names records at fault
		}
	}
	assert.Equal(t, len(s.topics), 1, "topics are known")
}
