package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/loopback"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
	"ndrbridge/transform"
)

const (
	// most is the maximum anonymous memory of the process, in bytes.
	most = 256 << 20
	// mostLog is the maximum size of its log during all attacks, in bytes.
	mostLog = 64 << 20
	// connections is the number of connections of each caller.
	connections = 150
	token       = "a-token-of-the-admin-interface"
	// atLeast is the duration of an attack, and atMost the time in which the bridge must be
	// affected: some attacks concern requests that the bridge never makes.
	atLeast = 400 * time.Millisecond
	atMost  = time.Second
	// patience is the time limit for the arrival of a healthy event.
	patience = time.Minute
)

// TestTheBridgeStaysSmallWhileAllOfItsPeersAttackIt runs the bridge in a process of its own
// and attacks it with each of its peers, one attack after the other and finally all at once.
// Meanwhile the events of a healthy appliance must continue to arrive.
func TestTheBridgeStaysSmallWhileAllOfItsPeersAttackIt(t *testing.T) {
	slowtest.Skip(t)
	s := newScene(t)
	s.start(t)
	s.row(t, "no attack", func(*testing.T) func() bool { return func() bool { return true } })
	for _, attack := range hostile.ApplianceAttacks() {
		s.row(t, "an appliance sends "+attack, func(*testing.T) func() bool {
			s.appliance.Attack(attack)
			if strings.Contains(attack, "a version") {
				s.contacts++ // only then does the bridge request it
				s.reload(t)
			}
			return func() bool { return s.appliance.Reached() >= 2 }
		})
	}
	s.appliance.Attack("")
	for _, attack := range hostile.KafkaAttacks() {
		s.row(t, "a broker of Kafka with "+attack, func(t *testing.T) func() bool {
			broker := hostile.NewBroker(attack)
			s.kafka.Next(broker.Serve)
			s.renewIntakes(t)
			return func() bool { return broker.Reached() > 0 || broker.Answered() >= 40 }
		})
	}
	for _, attack := range hostile.NATSAttacks() {
		s.row(t, "a server of NATS with "+attack, func(t *testing.T) func() bool {
			server := hostile.NewNATSServer(attack)
			s.nats.Next(server.Serve)
			s.renewIntakes(t)
			return func() bool { return server.Accepted() >= 2 }
		})
	}
	for _, caller := range append(hostile.Callers(), hostile.Insiders(token)...) {
		s.row(t, "callers with "+caller.Name, func(t *testing.T) func() bool { return s.call(t, caller, connections) })
	}
	s.row(t, "all at once", func(t *testing.T) func() bool {
		s.appliance.Attack("assignees of 1 MB that change at every version")
		s.kafka.Next(hostile.NewBroker(hostile.KafkaBomb).Serve)
		s.nats.Next(hostile.NewNATSServer(hostile.NATSHugeAnswer).Serve)
		s.renewIntakes(t)
		for _, caller := range append(hostile.Callers(), hostile.Insiders(token)...) {
			s.call(t, caller, connections/3)
		}
		time.Sleep(2 * time.Second)
		return func() bool { return true }
	})
	s.terminate(t)
}

// scene is a bridge and its peers.
type scene struct {
	healthy   *appliance.Appliance
	appliance *hostile.Appliance
	kafka     hostile.Stage
	nats      hostile.Stage
	received  *receiver

	address string // of the admin interface
	config  string // the path of the configuration
	write   func(t *testing.T)
	// contacts and intakes count how often the bridge was made to contact the hostile
	// appliance for the first time, and to reopen its intakes.
	contacts, intakes int

	process *exec.Cmd
	log     *log
	memory  *memory
	ended   chan struct{} // closed when the process has ended
}

func newScene(t *testing.T) *scene {
	t.Helper()
	folder := t.TempDir()
	s := &scene{
		healthy: appliance.New(appliance.Options{Seed: 1}), received: receive(t), address: loopback.Free(t),
		config: filepath.Join(folder, "ndrbridge.yaml"), log: new(log), ended: make(chan struct{}),
	}
	healthy := httptest.NewServer(s.healthy)
	t.Cleanup(healthy.Close)
	honest := appliance.New(appliance.Options{Seed: 2})
	honest.AddBacklog(20, time.Minute)
	honest.AddAudit(20)
	honest.AddRecords(20)
	s.appliance = hostile.NewAppliance(honest)
	attacking := httptest.NewServer(s.appliance)
	t.Cleanup(func() {
		attacking.CloseClientConnections() // ends connections that remain open
		attacking.Close()
	})
	broker, bus := loopback.Serve(t, s.kafka.Serve), loopback.Serve(t, s.nats.Serve)
	s.write = func(t *testing.T) {
		t.Helper()
		const sink = `
    lag: {max_bytes: 64MiB, policy: skip}
    retry: {initial: 10ms, max: 100ms}
    probe: 200ms`
		yaml := fmt.Sprintf(`
state: %s
shutdown_timeout: 5s
admin: {listen: %q, token: %s}
journal: {retain: 0s}
appliances:
  - name: healthy
    url: %s
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: 50ms}
    audit: {enabled: false}
  - name: hostile
    url: %s
    api_key: %[5]s
    rate_limit: 50
    unreachable_after: %[11]d
    timeout: 1s
    retry: {initial: 50ms, max: 100ms}
    detections: {start: beginning, interval: 200ms, overlap: 1s, enrich: [devices, format, link], reconcile: {every: 1s, back: 1h}}
    audit: {start: beginning, interval: 200ms}
    records:
      - {name: all, start: -1m, interval: 200ms, delay: 0s, recheck: 1s}
sinks:
  - name: healthy
    match: event.appliance == "healthy"
    webhook: {url: %[7]q, timeout: 5s}
    retry: {initial: 10ms, max: 100ms}
  - name: everything
    webhook: {url: %[7]q, timeout: 5s}`+sink+`
  - name: kafka
    kafka: {brokers: [%[8]q], topic: "ndr", sasl: {mechanism: plain, username: ana, password: hunter2}}`+sink+`
  - name: scram
    kafka: {brokers: [%[8]q], topic: "ndr", sasl: {mechanism: scram-sha-256, username: ana, password: hunter2}}`+sink+`
  - name: jetstream
    nats: {url: "nats://%[9]s", stream: NDR, create_stream: true}`+sink+`
  - name: core
    nats: {url: "nats://%[9]s"}`+sink+`
tickets:
  enabled: true
  kafka: {brokers: [%[8]q], topic: ndr.tickets, group: ndrbridge-%[10]d, sasl: {mechanism: plain, username: ana, password: hunter2}}
  nats: {url: "nats://%[9]s", stream: TICKETS, durable: ndrbridge-%[10]d}
  webhooks:
    jira: {secret: a-secret-of-the-webhook}
`, filepath.Join(folder, "state.db"), s.address, token, healthy.URL, appliance.DefaultAPIKey, attacking.URL, s.received.url, broker, bus, s.intakes, 3+s.contacts)
		require.NoError(t, os.WriteFile(s.config, []byte(yaml), 0o600))
	}
	return s
}

// start builds the bridge and runs it.
func (s *scene) start(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ndrbridge")
	output, err := exec.Command("go", "build", "-o", program, "ndrbridge/cmd/ndrbridge").CombinedOutput()
	require.NoError(t, err, "build the bridge", string(output))
	s.write(t)
	s.process = exec.Command(program, "run", "--config", s.config)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	require.NoError(t, s.process.Start())
	go func() {
		_ = s.process.Wait() // terminate checks ProcessState
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = s.process.Process.Kill() // if the test failed before it ended
		<-s.ended
	})
	s.memory = watch(t, s.process.Process.Pid)
}

// renewIntakes makes the bridge reopen its ticket intakes, so that none backs off after
// failures.
func (s *scene) renewIntakes(t *testing.T) {
	t.Helper()
	s.intakes++
	s.reload(t)
}

func (s *scene) reload(t *testing.T) {
	t.Helper()
	s.write(t)
	assert.NoError(t, s.process.Process.Signal(syscall.SIGHUP))
}

// call runs a caller's attack until the test ends.
func (s *scene) call(t *testing.T, caller hostile.Caller, connections int) (reached func() bool) {
	ctx, stop := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	calling.Go(func() { caller.Attack(ctx, s.address, connections) })
	t.Cleanup(func() {
		stop()
		calling.Wait()
	})
	begun := time.Now()
	return func() bool { return time.Since(begun) > time.Second }
}

// row starts an attack and checks the bridge until the attack has reached it.
func (s *scene) row(t *testing.T, name string, begin func(*testing.T) (reached func() bool)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		require.True(t, !s.over(), "the bridge has ended")
		s.memory.reset()
		logged, begun := s.log.size(), time.Now()
		reached := begin(t)
		for !reached() && time.Since(begun) < atMost || time.Since(begun) < atLeast {
			if s.over() {
				t.Fatalf("the bridge ended\n%s", s.log.end())
			}
			time.Sleep(20 * time.Millisecond)
		}
		came := reached()
		id := s.healthy.AddMany(1)[0].ID
		for deadline := time.Now().Add(patience); !s.received.has(id); time.Sleep(20 * time.Millisecond) {
			if s.over() {
				t.Fatalf("the bridge ended\n%s", s.log.end())
			}
			if time.Now().After(deadline) {
				t.Fatalf("a healthy event does not arrive\n%s", s.log.end())
			}
		}
		high := s.memory.highest()
		t.Logf("RssAnon %d MiB, %d KiB of log, %.1f s, reached: %t", high>>20, (s.log.size()-logged)>>10, time.Since(begun).Seconds(), came)
		assert.True(t, high <= most, "the bridge holds", high>>20, "MiB of memory")
	})
}

func (s *scene) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// terminate ends the process with SIGTERM.
func (s *scene) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatalf("SIGTERM does not end the bridge\n%s", s.log.end())
	}
	if status, ok := s.process.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Exited() {
		t.Errorf("the bridge ended with %s\n%s", s.process.ProcessState, s.log.end())
	}
	for _, text := range []string{"panic", "fatal error", "goroutine ", "hunter2"} {
		assert.Equal(t, s.log.line(text), "", "the bridge logged", text)
	}
	size := s.log.size()
	assert.True(t, size <= mostLog, "the bridge logged", size, "bytes")
}

// receiver is a webhook's receiver that notes which detections of the healthy appliance
// it got.
type receiver struct {
	url string
	mu  sync.Mutex
	got map[string]bool // by subject
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // the bridge has gone
		}
		e, err := transform.Parse(body)
		assert.NoError(t, err, string(body))
		if e.Source == "ndrbridge://healthy/detections" {
			r.mu.Lock()
			r.got[e.Subject] = true
			r.mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) has(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[strconv.FormatInt(id, 10)]
}

// log is what a process has written so far.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// end is the last of it.
func (l *log) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text.Bytes()[max(0, l.text.Len()-3000):])
}

// line is the first line that has a text, and what follows it.
func (l *log) line(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.text.Bytes()
	at := bytes.Index(all, []byte(text))
	if at < 0 {
		return ""
	}
	return string(all[1+bytes.LastIndexByte(all[:at], '\n') : min(len(all), at+1000)])
}

// memory watches RssAnon of a process.
type memory struct {
	mu   sync.Mutex
	high int64 // bytes
}

func watch(t *testing.T, pid int) *memory {
	t.Helper()
	m := new(memory)
	end := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			m.sample(pid)
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(end)
		watching.Wait()
	})
	return m
}

func (m *memory) sample(pid int) {
	anon, _ := process.Memory(pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.high = max(m.high, anon)
}

// reset begins with the highest from here on.
func (m *memory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.high = 0
}

func (m *memory) highest() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.high
}
