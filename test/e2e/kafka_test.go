//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/sinks/kafka"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// TestKafka tests the Kafka sink, the Kafka ticket intake and the bridge that runs them with
// Apache Kafka. Tests that configure or kill brokers need a cluster started by the tests.
func TestKafka(t *testing.T) {
	t.Parallel()
	c := newKafkaCluster(t)
	program := buildBridge(t)

	t.Run("every mode and codec is read by another client", c.modesAndCodecs)
	t.Run("an event that is too large becomes a dead letter, and the rest passes", func(t *testing.T) { c.tooLarge(t, program) })
	t.Run("a missing topic is made once, and one that is there is left alone", func(t *testing.T) { c.createTopic(t, program) })
	if len(c.nodes) == 0 {
		return
	}
	t.Run("every way to sign in", func(t *testing.T) { c.waysIn(t, program) })
	t.Run("a password that is wrong halts the sink until its file is right", func(t *testing.T) { c.wrongPassword(t, program) })
	t.Run("a topic that is deleted halts the sink until it is made again", func(t *testing.T) { c.deletedTopic(t, program) })
	t.Run("a leader that moves costs nothing", func(t *testing.T) { c.movedLeader(t, program) })
	t.Run("a broker killed in the middle of a drain costs nothing", func(t *testing.T) { c.killedBroker(t, program) })
	t.Run("ticket commands", func(t *testing.T) { c.ticketCommands(t, program) })
}

// inTheClear returns the configuration of a plaintext sink without authentication.
func (c *kafkaCluster) inTheClear(topic, more string) string {
	return fmt.Sprintf("kafka: {brokers: [%s], topic: %q%s}", strings.Join(c.brokers, ", "), topic, more)
}

func (c *kafkaCluster) modesAndCodecs(t *testing.T) {
	var events []transform.Event
	events = append(events, sinktest.Awkward()...)
	events = append(events, sinktest.Events(200, 20, 2000)...)
	for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			for _, acks := range []string{"all", "one"} {
				if acks == "one" && codec != "zstd" {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, acks %s", mode, codec, acks), func(t *testing.T) {
					topic := c.topic(t, fmt.Sprintf("%s-%s-%s", mode, codec, acks), nil)
					s, err := kafka.New(kafka.Options{Brokers: c.brokers, Topic: topic, Mode: mode, Compression: codec, Acks: acks})
					require.NoError(t, err)
					defer s.Close()
					deliver(t, s, events)
					holds(t, c.read(t, topic), events, mode)
				})
			}
		}
	}
}

// deliver sends events until all are accepted: after a topic is created, brokers need a
// moment to become the leaders of its partitions.
func deliver(t *testing.T, s sinks.Sink, events []transform.Event) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		err := s.Send(t.Context(), events)
		class, _ := failure.ClassOf(err)
		require.True(t, err == nil || class == failure.Transient, "class", class, err)
		if each, ok := errors.AsType[failure.EventErrors](err); ok {
			var left []transform.Event
			for i, err := range each {
				if err != nil {
					left = append(left, events[i])
				}
			}
			events = left
		}
		return err
	})
}

// holds fails unless the records are the events in the form of CloudEvents' Kafka binding,
// those of each key in one partition and in order.
func holds(t *testing.T, records []record, events []transform.Event, mode transform.Mode) {
	t.Helper()
	type stored struct {
		id        string
		partition int
	}
	want, got := map[string][]string{}, map[string][]stored{}
	data := map[string]string{}
	for _, e := range events {
		want[e.PartitionKey] = append(want[e.PartitionKey], e.Source+" "+e.ID)
		data[e.Source+" "+e.ID] = strings.TrimSpace(string(e.Data()))
	}
	for _, r := range records {
		require.True(t, r.Payload != nil, "a null value at", r.Partition, "/", r.Offset)
		key := ""
		if r.Key != nil {
			key = *r.Key
		}
		decoded, err := sinktest.Structured([]byte(*r.Payload))
		wantType := transform.ContentTypeStructured
		if mode == transform.Binary {
			wantType = transform.ContentTypeData
			decoded, err = sinktest.Binary("ce_", false, r.eachHeader, []byte(*r.Payload))
		}
		require.NoError(t, err, r)
		assert.Equal(t, r.header("content-type"), wantType, "content-type")
		id := decoded.Source() + " " + decoded.ID()
		assert.Equal(t, string(decoded.Data()), data[id], "event", id, "holds")
		got[key] = append(got[key], stored{id, r.Partition})
	}
	for key, ids := range want {
		arrived := got[key]
		assert.True(t, slices.EqualFunc(ids, arrived, func(id string, at stored) bool { return id == at.id && at.partition == arrived[0].partition }), key, arrived, ids)
	}
	assert.Equal(t, len(records), len(events), "records of", "events")
}

func (c *kafkaCluster) tooLarge(t *testing.T, program string) {
	topic := c.topic(t, "small", nil, "max.message.bytes=50000")
	a, url := startAppliance(t)
	a.AddMany(300)
	large := a.AddHuge(200_000)
	a.AddMany(300)
	b := startBridge(t, program, url, c.inTheClear(topic, ", compression: none"))
	b.awaitDrained(t, a)
	now, err := b.sink()
	assert.True(t, err == nil && now.DeadLetters == 1, now.DeadLetters, "dead letters, not 1", err)
	b.terminate(t)
	rest := slices.DeleteFunc(ledger.VersionsOf(a, 0), func(v ledger.Version) bool { return v.ID == large.ID })
	judge(t, rest, c.bodies(t, topic))
}

func (c *kafkaCluster) createTopic(t *testing.T, program string) {
	topic := c.prefix + "made"
	for _, partitions := range []int{5, 9} { // the second finds the existing topic
		a, url := startAppliance(t)
		a.AddMany(50)
		b := startBridge(t, program, url, c.inTheClear(c.prefix+"made", fmt.Sprintf(", create_topic: {partitions: %d, replication: 1}", partitions)))
		b.awaitDrained(t, a)
		b.terminate(t)
		layout, err := c.layout(t, topic)
		assert.True(t, err == nil && len(layout) == 5 && len(layout[0].Replicas) == 1, partitions, "partitions were requested, there are", len(layout), err)
	}
	a, url := startAppliance(t)
	a.AddMany(5)
	b := startBridge(t, program, url, c.inTheClear(c.prefix+"impossible", ", create_topic: {replication: 99}"))
	now := b.awaitState(t, "halted")
	assert.True(t, strings.Contains(now.Error, "create topic") && strings.Contains(now.Error, "create_topic"), "refused", now.Error)
}

func (c *kafkaCluster) waysIn(t *testing.T, program string) {
	password := writeSecret(t, kafkaPassword)
	certificate, key, _ := c.authority.issue(t, "client")
	tls := fmt.Sprintf("ca_file: %s", c.authority.file())
	for name, way := range map[string]struct{ listener, keys string }{
		"SASL PLAIN":         {"SASL", fmt.Sprintf("sasl: {mechanism: plain, username: %s, password_file: %s}", kafkaUser, password)},
		"SCRAM-SHA-256":      {"SASL", fmt.Sprintf("sasl: {mechanism: scram-sha-256, username: %s, password_file: %s}", kafkaUser, password)},
		"SCRAM-SHA-512":      {"SASL", fmt.Sprintf("sasl: {mechanism: scram-sha-512, username: %s, password_file: %s}", kafkaUser, password)},
		"TLS":                {"TLS", fmt.Sprintf("tls: {%s}", tls)},
		"SCRAM-SHA-512, TLS": {"BOTH", fmt.Sprintf("tls: {%s}, sasl: {mechanism: scram-sha-512, username: %s, password_file: %s}", tls, kafkaUser, password)},
		"mutual TLS":         {"MUTUAL", fmt.Sprintf("tls: {%s, cert_file: %s, key_file: %s}", tls, certificate, key)},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.topic(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), nil)
			a, url := startAppliance(t)
			a.AddMany(100)
			b := startBridge(t, program, url, c.through(way.listener, topic, way.keys))
			b.awaitDrained(t, a)
			b.terminate(t)
			judge(t, ledger.VersionsOf(a, 0), c.bodies(t, topic))
		})
	}
	for name, way := range map[string]struct{ listener, keys, says string }{
		"an authority that is not the broker's": {"TLS", "tls: {}", "tls.ca_file"},
		"no certificate where one is wanted":    {"MUTUAL", fmt.Sprintf("tls: {%s}", tls), "tls.cert_file"},
	} {
		t.Run(name+" halts the sink", func(t *testing.T) {
			a, url := startAppliance(t)
			a.AddMany(5)
			b := startBridge(t, program, url, c.through(way.listener, c.prefix+"any", way.keys))
			now := b.awaitState(t, "halted")
			assert.Contains(t, now.Error, way.says, "it says nothing of")
		})
	}
}

// through returns the configuration of a sink that connects to a listener.
func (c *kafkaCluster) through(listener, topic, keys string) string {
	return fmt.Sprintf("kafka: {brokers: [%s], topic: %q, %s}", strings.Join(c.addresses(listener), ", "), topic, keys)
}

func writeSecret(t testing.TB, secret string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte(secret), 0o600))
	return path
}

func (c *kafkaCluster) wrongPassword(t *testing.T, program string) {
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			topic := c.topic(t, "password-"+mechanism, nil)
			password := writeSecret(t, "no-such-password")
			a, url := startAppliance(t)
			a.AddMany(20)
			b := startBridge(t, program, url, c.through("SASL", topic,
				fmt.Sprintf("sasl: {mechanism: %s, username: %s, password_file: %s}", mechanism, kafkaUser, password)))
			now := b.awaitState(t, "halted")
			if !strings.Contains(now.Error, "sasl.mechanism") || strings.Contains(b.output.String(), "no-such-password") {
				t.Errorf("it says %s, and has written\n%s", now.Error, b.output.end())
			}
			require.NoError(t, os.WriteFile(password, []byte(kafkaPassword), 0o600))
			b.awaitState(t, "running")
			b.awaitDrained(t, a)
			b.terminate(t)
			judge(t, ledger.VersionsOf(a, 0), c.bodies(t, topic))
		})
	}
}

func (c *kafkaCluster) deletedTopic(t *testing.T, program string) {
	topic := c.topic(t, "deleted", nil)
	a, url := startAppliance(t)
	a.AddMany(50)
	b := startBridge(t, program, url, c.inTheClear(topic, ""))
	b.awaitDrained(t, a)
	before := len(a.History())

	c.delete(t, topic)
	a.AddMany(50)
	now := b.awaitState(t, "halted")
	assert.Contains(t, now.Error, "does not exist", "it says")
	c.topic(t, "deleted", nil)
	b.awaitState(t, "running")
	b.awaitDrained(t, a)
	now, err := b.sink()
	assert.True(t, err == nil && now.DeadLetters <= 0, now.DeadLetters, "dead letters", err)
	b.terminate(t)
	judge(t, ledger.VersionsOf(a, before), c.bodies(t, topic))
}

// live simulates new and changed detections until stop is called.
func live(t *testing.T, a *standin.Appliance) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var living sync.WaitGroup
	living.Go(func() { a.Live(ctx, standin.Rates{Appear: 50, Update: 150, Close: 10}) })
	stop = func() { cancel(); living.Wait() }
	t.Cleanup(stop)
	return stop
}

func (c *kafkaCluster) movedLeader(t *testing.T, program string) {
	topic := c.topic(t, "moved", [][]int32{{1, 2}, {2, 3}, {3, 1}})
	a, url := startAppliance(t)
	b := startBridge(t, program, url, c.inTheClear(topic, "")+"\nbatch: {max_events: 50, linger: 0}")
	stop := live(t, a)
	for _, replicas := range [][][]int32{
		{{2, 1}, {3, 2}, {1, 3}}, // to followers
		{{3, 1}, {1, 2}, {2, 3}}, // to brokers that must replicate all data first
		{{1, 3}, {1, 2}, {1, 3}}, // all to one broker
	} {
		b.awaitMore(t, 100)
		c.lead(t, topic, replicas)
	}
	b.awaitMore(t, 100)
	stop()
	b.awaitDrained(t, a)
	b.terminate(t)
	repeated := judge(t, ledger.VersionsOf(a, 0), c.bodies(t, topic))
	t.Logf("%d versions, %d repeated", len(a.History()), repeated)
}

func (c *kafkaCluster) killedBroker(t *testing.T, program string) {
	const backlog = 4000
	for name, test := range map[string]struct {
		replicas [][]int32
		goesOn   bool // while the broker is down
	}{
		"that another takes over from":  {[][]int32{{2, 3, 1}, {3, 2, 1}, {1, 2, 3}}, true},
		"that holds the only partition": {[][]int32{{2}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			settings := []string{"min.insync.replicas=1"}
			if test.goesOn {
				settings = []string{"min.insync.replicas=2"}
			}
			topic := c.topic(t, "killed-"+strings.ReplaceAll(name, " ", "-"), test.replicas, settings...)
			a, url := startAppliance(t)
			a.AddBacklog(backlog, time.Minute)
			b := startBridge(t, program, url, c.inTheClear(topic, "")+"\nbatch: {max_events: 50}\nrate_limit: 800")
			stop := live(t, a)
			b.awaitMore(t, 500)

			killed := c.nodes[1]
			killed.running.kill()
			if test.goesOn {
				b.awaitMore(t, 500)
			} else {
				b.awaitState(t, "retrying")
			}
			killed.start()
			c.awaitBrokers(t, len(c.nodes))
			c.awaitLeaders(t, topic)
			b.awaitMore(t, 500)
			stop()
			b.awaitDrained(t, a)
			now, err := b.sink()
			assert.True(t, err == nil && now.DeadLetters <= 0, now.DeadLetters, "dead letters", err)
			b.terminate(t)
			repeated := judge(t, ledger.VersionsOf(a, 0), c.bodies(t, topic))
			t.Logf("%d versions, %d repeated", len(a.History()), repeated)
		})
	}
}
