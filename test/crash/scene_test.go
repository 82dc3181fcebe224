package crash

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

// The sinks.
const (
	webhookSink = "soc"
	natsSink    = "bus"
	kafkaSink   = "lake"
	fileSink    = "log"
)

var everySink = []string{webhookSink, natsSink, kafkaSink, fileSink}

// scene is an appliance, what four sinks deliver to, and a proxy in front of all
// but the file. It outlives every bridge.
type scene struct {
	seed      uint64
	appliance *standin.Appliance
	book      *ledger.Ledger
	nats      *natsServer
	kafka     *kafkaBroker
	proxies   map[string]*fault.Proxy // by sink, and that of the appliance

	program, config, state, file string

	read     uint64 // the journal's last event that the book has
	repeated int    // events at the webhook, until now
	struck   int    // faults at the webhook, until now
	full     int    // lives in which a write found no room
	restarts map[string]int
}

// applianceProxy names the proxy in front of the appliance.
const applianceProxy = "appliance"

// newScene starts everything but the bridge, whose state and file will lie in
// folder.
func newScene(t *testing.T, program string, seed uint64, folder string) *scene {
	t.Helper()
	s := &scene{
		seed:      seed,
		appliance: standin.New(standin.Options{Seed: seed, Size: 1000}),
		book:      ledger.New(),
		proxies:   make(map[string]*fault.Proxy),
		program:   program,
		config:    filepath.Join(t.TempDir(), "ndrbridge.yaml"),
		state:     filepath.Join(folder, "state.db"),
		file:      filepath.Join(folder, "events.jsonl"),
		restarts:  make(map[string]int),
	}
	s.fill(rand.New(rand.NewPCG(seed, 1)))
	server := httptest.NewServer(s.appliance)
	t.Cleanup(server.Close)
	s.proxies[applianceProxy] = newProxy(t, server.Listener.Addr().String())

	receive := func(sink string, body []byte) {
		e, err := transform.Parse(body)
		if err != nil {
			t.Errorf("%s: %v: %s", sink, err, body)
			return
		}
		s.book.Receive(sink, e)
	}
	s.proxies[webhookSink] = newProxy(t, startWebhook(t, receive))
	s.nats = startNATS(t, newProxy(t, ""), receive)
	s.proxies[natsSink] = s.nats.proxy
	s.kafka = startKafka(t, newProxy(t, ""), receive)
	s.proxies[kafkaSink] = s.kafka.proxy

	if err := os.WriteFile(s.config, []byte(s.configuration()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func newProxy(t *testing.T, target string) *fault.Proxy {
	t.Helper()
	p, err := fault.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// fill gives the appliance a past, and bad habits.
func (s *scene) fill(random *rand.Rand) {
	s.appliance.SetHazards(standin.Hazards{
		Reset: 0.01, ServerError: 0.01, CutBody: 0.01, CutJSON: 0.01, HTML: 0.01, LimitCap: 80, InclusiveBound: s.seed%2 == 0,
		WrongDate:            0.1,
		RecordUntilInclusive: s.seed%3 == 0, RecordWholeMillis: s.seed%5 == 0, RecordBatch: 30, CursorRenews: s.seed%7 == 0,
	})
	s.appliance.AddBacklog(500, time.Minute)
	s.appliance.AddAudit(300)
	for range 100 {
		s.appliance.AddRecordsAt(3, s.appliance.Clock().Add(-time.Duration(random.IntN(60_000))*time.Millisecond).UnixMicro())
	}
}

// live lets time pass over the appliance until stop is called.
func (s *scene) live(t *testing.T, rates standin.Rates) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var living sync.WaitGroup
	living.Go(func() { s.appliance.Live(ctx, rates) })
	stop = func() { cancel(); living.Wait() }
	t.Cleanup(stop)
	return stop
}

// disturb lets so many connections in a hundred meet a fault.
func (s *scene) disturb(percent int) {
	for n, name := range []string{applianceProxy, webhookSink, natsSink, kafkaSink} {
		s.proxies[name].Follow(fault.Plan{Seed: s.seed + uint64(n), Likely: float64(percent) / 100})
	}
}

// calm ends what disturbs, so that what has yet to arrive can.
func (s *scene) calm() {
	s.appliance.SetHazards(standin.Hazards{})
	for _, p := range s.proxies {
		p.Calm()
	}
}

// commit writes into the book what the journal of a bridge that is dead has had
// since the last time.
func (s *scene) commit(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(s.state); os.IsNotExist(err) {
		return // it was killed before it had made one
	}
	store, err := checkpoint.Open(s.state, checkpoint.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("the state after a crash: %v", err)
	}
	defer store.Close()
	records, err := store.Read(t.Context(), s.read, checkpoint.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		s.book.Commit(r.Event)
		s.read = r.Seq
	}
}
