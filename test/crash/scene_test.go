package crash

import (
	"os"
	"path/filepath"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// The sinks.
const (
	webhookSink = "soc"
	natsSink    = "bus"
	mirrorSink  = "mirror" // to the same stream
	kafkaSink   = "lake"
	fileSink    = "log"
)

var everySink = []string{webhookSink, natsSink, mirrorSink, kafkaSink, fileSink}

// scene is a fleet of appliances, the targets of five sinks, and proxies in front of all but
// the file. It outlives every bridge.
type scene struct {
	site
	seed    uint64
	nats    *natsServer
	kafka   *kafkaBroker
	proxies map[string]*fault.Proxy // by sink; two sinks share that of NATS

	program             []string // the bridge's command line
	config, state, file string

	read     uint64 // the journal's last event in the ledger
	repeated int    // repeated events at the webhook so far
	injected int    // faults at the webhook so far
	full     int    // runs in which a write found no space
	restarts map[string]int
	skipped  bool // events left the journal before evidence had read them
	steps    *stepWatch
}

// newScene starts everything but the bridge, whose state and file are in folder. followUps turns
// follow-ups on.
func newScene(t *testing.T, program []string, seed uint64, folder string, followUps bool) *scene {
	t.Helper()
	s := &scene{
		site:     site{sinks: everySink, followUps: followUps},
		steps:    newStepWatch(),
		seed:     seed,
		proxies:  make(map[string]*fault.Proxy),
		program:  program,
		config:   filepath.Join(t.TempDir(), "ndrbridge.yaml"),
		state:    filepath.Join(folder, "state.db"),
		file:     filepath.Join(folder, "events.jsonl"),
		restarts: make(map[string]int),
	}
	for i, name := range fleet {
		past := 500
		if i > 0 {
			past = 50
		}
		sensor := startSensor(t, name, seed+uint64(i), past)
		sensor.steps = s.steps
		s.sensors = append(s.sensors, sensor)
	}

	receive := func(sink string, body []byte) {
		e, ok := s.receive(t, sink, body)
		if !ok || !followUps {
			return
		}
		s.sensorOf(e).follow.arrived.record(e)
		if sink == webhookSink {
			s.steps.happened(e.Appliance, step{streamOf(e), arrived})
		}
	}
	s.proxies[webhookSink] = newProxy(t, startWebhook(t, receive))
	s.nats = startNATS(t, newProxy(t, ""), receive)
	s.proxies[natsSink], s.proxies[mirrorSink] = s.nats.proxy, s.nats.proxy
	s.kafka = startKafka(t, newProxy(t, ""), receive)
	s.proxies[kafkaSink] = s.kafka.proxy

	require.NoError(t, os.WriteFile(s.config, []byte(s.configuration()), 0o600))
	return s
}

func newProxy(t *testing.T, target string) *fault.Proxy {
	t.Helper()
	p, err := fault.New(target)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
	})
	return p
}

// disturb injects faults into a percentage of connections.
func (s *scene) disturb(percent int) {
	proxies := []*fault.Proxy{s.proxies[webhookSink], s.proxies[natsSink], s.proxies[kafkaSink]}
	for _, sensor := range s.sensors {
		proxies = append(proxies, sensor.proxy)
	}
	for n, p := range proxies {
		p.Follow(fault.Plan{Seed: s.seed + uint64(n), Likely: float64(percent) / 100})
	}
}

// calm ends all disturbances, so that the remaining events can arrive.
func (s *scene) calm() {
	for _, sensor := range s.sensors {
		sensor.appliance.SetHazards(standin.Hazards{})
		sensor.proxy.Calm()
	}
	for _, p := range s.proxies {
		p.Calm()
	}
}

// commit records in the ledger the journal's new events since the last call. The bridge must
// not be running.
func (s *scene) commit(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(s.state); os.IsNotExist(err) {
		return // it was killed before it created the state
	}
	store := openState(t, s.state)
	defer store.Close()
	records, doubled := s.commitFrom(t, store, s.read)
	assert.Equal(t, doubled, 0, "events were committed twice")
	var events []transform.Event
	for _, r := range records {
		s.read, events = r.Seq, append(events, r.Event)
	}
	if !s.followUps {
		return
	}
	for _, e := range events {
		s.sensorOf(e).matchEvidence(e)
	}
	s.countKill(t, store, events)
}
