//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"

	"ndrbridge/sinks/nats"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// natsPrograms are the programs that the tests run.
type natsPrograms struct{ server, bridge string }

// TestNATS tests the NATS sink and the bridge that runs it with the NATS server in a process
// of its own.
func TestNATS(t *testing.T) {
	p := natsPrograms{server: buildNATS(t), bridge: buildBridge(t)}
	for name, test := range map[string]func(*testing.T){
		"every mode is read back from the server":                              p.modes,
		"every way to sign in":                                                 p.waysIn,
		"credentials that are refused halt the sink until their file is right": p.wrongCredentials,
		"a server killed in the middle of a drain costs nothing":               p.killedServer,
		"a stream's leader killed in the middle of a drain costs nothing":      p.killedLeader,
		"acknowledgements that are lost leave no duplicates":                   p.lostAcknowledgements,
		"a stream that is full takes the rest once it has space":               p.fullStream,
		"a stream that is deleted halts the sink until it is made again":       p.deletedStream,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// natsBodies returns the bodies of messages, in order.
func natsBodies(messages []*natsclient.Msg) [][]byte {
	bodies := make([][]byte, len(messages))
	for i, m := range messages {
		bodies[i] = m.Data
	}
	return bodies
}

// readNATS returns all messages in the bridge's stream.
func readNATS(t testing.TB, r *natsReader) [][]byte {
	t.Helper()
	messages, err := r.read("NDR")
	require.NoError(t, err)
	return natsBodies(messages)
}

func (p natsPrograms) modes(t *testing.T) {
	s := startNATS(t, p.server, "")
	events := append(sinktest.Awkward(), sinktest.Events(200, 20, 2000)...)
	events = append(events, events[0].Redeliver(7)) // a redelivery, not a duplicate
	for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
		for _, stream := range []string{"", "NDR-" + string(mode)} {
			t.Run(fmt.Sprintf("%s, stream %q", mode, stream), func(t *testing.T) {
				root := fmt.Sprintf("ndr-%s-%t", mode, stream == "")
				r := s.reader(t)
				if stream == "" {
					require.NoError(t, r.subscribe(root+".>"))
				}
				sink, err := nats.New(nats.Options{
					Sink: "bus", URL: "nats://" + s.address, Stream: stream, Subject: root + ".{appliance}.{stream}.{action}", CreateStream: stream != "", Mode: mode,
				})
				require.NoError(t, err)
				defer sink.Close()
				require.NoError(t, sink.Send(t.Context(), events))
				var messages []*natsclient.Msg
				if stream == "" {
					for range events {
						m, err := r.next()
						require.NoError(t, err)
						messages = append(messages, m)
					}
				} else if messages, err = r.read(stream); err != nil {
					t.Fatal(err)
				}
				require.Equal(t, len(messages), len(events), "messages of", "events")
				for i, e := range events {
					isMessage(t, messages[i], e, mode, stream != "")
				}
			})
		}
	}
}

// isMessage fails unless a message has exactly the headers of CloudEvents' binding, the
// event's data, and a subject whose tokens contain no special characters of its values.
func isMessage(t *testing.T, m *natsclient.Msg, e transform.Event, mode transform.Mode, stored bool) {
	t.Helper()
	want := map[string]string{}
	if stored {
		want["Nats-Msg-Id"] = "bus " + percent(e.Source) + " " + percent(e.ID)
		if e.Redelivered {
			want["Nats-Msg-Id"] += " r7"
		}
	}
	data := e.Data()
	if mode == transform.Structured {
		want["Content-Type"] = "application/cloudevents+json"
		data = e.Structured()
	} else {
		want["ce-specversion"] = "1.0"
		want["ce-datacontenttype"] = "application/json"
		want["ce-id"] = percent(e.ID)
		want["ce-source"] = percent(e.Source)
		want["ce-type"] = percent(e.Type)
		for name, value := range map[string]string{
			"ce-subject": e.Subject, "ce-partitionkey": e.PartitionKey, "ce-appliance": e.Appliance, "ce-severitytext": e.SeverityText,
		} {
			if value != "" {
				want[name] = percent(value)
			}
		}
		for name, at := range map[string]time.Time{"ce-time": e.Time, "ce-recordedtime": e.RecordedTime} {
			if !at.IsZero() {
				want[name] = at.UTC().Format("2006-01-02T15:04:05.000Z")
			}
		}
		if e.Repaired {
			want["ce-repaired"] = "true"
		}
		if e.Redelivered {
			want["ce-redelivered"] = "true"
		}
		if e.SeverityNumber != 0 {
			want["ce-severitynumber"] = fmt.Sprint(e.SeverityNumber)
		}
	}
	got := map[string]string{}
	for name, values := range m.Header {
		got[name] = strings.Join(values, " and ")
	}
	assert.True(t, maps.Equal(got, want), "event", e.ID, "has the headers", got, want)
	assert.True(t, bytes.Equal(m.Data, data), "event", e.ID, "carries", string(m.Data), string(data))
	tokens := strings.Split(m.Subject, ".")
	assert.True(t, len(tokens) == 4 && !slices.Contains(tokens, ""), "event", e.ID, "has the subject", m.Subject)
}

// percent encodes the characters that are not allowed in a header, as in the HTTP binding.
func percent(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.WriteString(fmt.Sprintf("%%%02X", c))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// natsSink returns the configuration of a sink that creates its stream.
func natsSink(scheme, address, keys string) string {
	return fmt.Sprintf("nats: {url: %q, stream: NDR, create_stream: true%s}", scheme+"://"+address, keys)
}

func (p natsPrograms) waysIn(t *testing.T) {
	for name, way := range waysIntoNATS(t) {
		t.Run(name, func(t *testing.T) {
			s := startNATS(t, p.server, way.settings)
			a, url := startAppliance(t)
			a.AddMany(30)
			b := startBridge(t, p.bridge, url, natsSink(way.scheme, s.address, way.keys))
			b.awaitDrained(t, a)
			b.terminate(t)
			repeated := judge(t, ledger.VersionsOf(a, 0), readNATS(t, s.reader(t, way.login)))
			assert.True(t, repeated <= 0, repeated, "repeated")
		})
	}
}

func (p natsPrograms) wrongCredentials(t *testing.T) {
	for name, way := range waysIntoNATS(t) {
		if way.file == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			right := way.spoil(t)
			s := startNATS(t, p.server, way.settings)
			a, url := startAppliance(t)
			a.AddMany(30)
			b := startBridge(t, p.bridge, url, natsSink(way.scheme, s.address, way.keys))
			now := b.awaitState(t, "halted")
			assert.Contains(t, now.Error, "_file", "it says")
			right()
			b.awaitState(t, "running")
			b.awaitDrained(t, a)
			b.terminate(t)
			judge(t, ledger.VersionsOf(a, 0), readNATS(t, s.reader(t, way.login)))
		})
	}
}

// slowly makes a drain last long enough to be interrupted.
const slowly = "\nbatch: {max_events: 50}\nrate_limit: 800"

func (p natsPrograms) killedServer(t *testing.T) {
	s := startNATS(t, p.server, "")
	a, url := startAppliance(t)
	a.AddBacklog(3000, time.Minute)
	b := startBridge(t, p.bridge, url, natsSink("nats", s.address, "")+slowly)
	stop := live(t, a)
	for range 3 {
		b.awaitMore(t, 200)
		s.running.kill()
		b.awaitState(t, "retrying")
		s.start(t)
	}
	b.awaitMore(t, 200)
	stop()
	b.finish(t, a, s.reader(t))
}

func (p natsPrograms) killedLeader(t *testing.T) {
	servers := startNATSCluster(t, p.server)
	anyone := func() *natsReader {
		for _, s := range servers {
			if s.running.running() {
				return s.reader(t)
			}
		}
		t.Fatal("no server runs")
		return nil
	}
	eventually(t, time.Minute, func() error { return anyone().makeStream("NDR", map[string]any{"num_replicas": 3}) })
	leader := func() (name string) {
		eventually(t, time.Minute, func() error {
			stream, err := anyone().stream("NDR")
			if err != nil {
				return err
			}
			for _, replica := range stream.Cluster.Replicas {
				if !replica.Current {
					return fmt.Errorf("%s is behind", replica.Name)
				}
			}
			if name = stream.Cluster.Leader; name == "" || len(stream.Cluster.Replicas) != len(servers)-1 {
				return fmt.Errorf("the leader is %q, with %v", name, stream.Cluster.Replicas)
			}
			return nil
		})
		return name
	}
	led := leader()
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.address)
	}
	a, url := startAppliance(t)
	a.AddBacklog(3000, time.Minute)
	b := startBridge(t, p.bridge, url, natsSink("nats", strings.Join(addresses, ",nats://"), "")+slowly)
	stop := live(t, a)
	for range 2 {
		b.awaitMore(t, 200)
		servers[led].running.kill()
		b.awaitMore(t, 400) // without that server
		servers[led].start(t)
		led = leader()
	}
	stop()
	b.finish(t, a, anyone())
}

func (p natsPrograms) lostAcknowledgements(t *testing.T) {
	s := startNATS(t, p.server, "")
	proxy, err := fault.New(s.address)
	require.NoError(t, err)
	defer proxy.Close()
	proxy.Follow(fault.Plan{Seed: 1, Likely: 1, Kinds: []fault.Kind{fault.Lost}, Within: 400 << 10})
	a, url := startAppliance(t)
	a.AddBacklog(2000, time.Minute)
	b := startBridge(t, p.bridge, url, natsSink("nats", proxy.Addr().String(), ""))
	eventually(t, time.Minute, func() error {
		if n := proxy.Injected()[fault.Lost]; n < 5 {
			return fmt.Errorf("%d answers were lost", n)
		}
		return nil
	})
	proxy.Calm()
	repeated := b.finish(t, a, s.reader(t))
	assert.True(t, repeated <= 0, repeated, "repeated")
}

func (p natsPrograms) fullStream(t *testing.T) {
	s := startNATS(t, p.server, "")
	r := s.reader(t)
	require.NoError(t, r.makeStream("NDR", map[string]any{"max_bytes": 200_000, "discard": "new"}))
	a, url := startAppliance(t)
	a.AddMany(300)
	b := startBridge(t, p.bridge, url, natsSink("nats", s.address, ""))
	var arrived [][]byte
	for range 2 {
		now := b.awaitState(t, "retrying")
		assert.Contains(t, now.Error, "maximum bytes exceeded", "it says")
		stream, err := r.stream("NDR")
		require.NoError(t, err)
		messages, err := r.read("NDR")
		require.NoError(t, err)
		// A small one may have been sent since.
		messages = messages[:stream.State.Messages]
		require.NoError(t, r.api("STREAM.PURGE.NDR", map[string]any{"seq": stream.State.LastSeq + 1}, &struct{}{}))
		arrived = append(arrived, natsBodies(messages)...)
	}
	stream, err := r.stream("NDR")
	require.NoError(t, err)
	stream.Config["max_bytes"] = -1
	require.NoError(t, r.api("STREAM.UPDATE.NDR", stream.Config, &struct{}{}))
	b.awaitDrained(t, a)
	b.noDeadLetters(t)
	b.terminate(t)
	judge(t, ledger.VersionsOf(a, 0), append(arrived, readNATS(t, r)...))
}

func (p natsPrograms) deletedStream(t *testing.T) {
	s := startNATS(t, p.server, "")
	r := s.reader(t)
	require.NoError(t, r.makeStream("NDR", nil))
	a, url := startAppliance(t)
	a.AddMany(50)
	b := startBridge(t, p.bridge, url, fmt.Sprintf("nats: {url: %q, stream: NDR}", "nats://"+s.address))
	b.awaitDrained(t, a)
	arrived := readNATS(t, r)

	require.NoError(t, r.api("STREAM.DELETE.NDR", struct{}{}, &struct{}{}))
	a.AddMany(50)
	now := b.awaitState(t, "halted")
	assert.Contains(t, now.Error, "does not exist", "it says")
	require.NoError(t, r.makeStream("NDR", nil))
	b.awaitState(t, "running")
	b.awaitDrained(t, a)
	b.noDeadLetters(t)
	b.terminate(t)
	judge(t, ledger.VersionsOf(a, 0), append(arrived, readNATS(t, r)...))
}

// finish ends the bridge when it has delivered all events and checks its stream. It returns
// the number of repeated events.
func (b *bridge) finish(t testing.TB, a *standin.Appliance, r *natsReader) (repeated int) {
	t.Helper()
	b.awaitDrained(t, a)
	b.noDeadLetters(t)
	b.terminate(t)
	repeated = judge(t, ledger.VersionsOf(a, 0), readNATS(t, r))
	t.Logf("%d versions, %d repeated", len(a.History()), repeated)
	return repeated
}

func (b *bridge) noDeadLetters(t testing.TB) {
	t.Helper()
	now, err := b.sink()
	assert.True(t, err == nil && now.DeadLetters <= 0, now.DeadLetters, "dead letters", err)
}
