package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/internal/commands"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// The intakes. Their names are prefixes of the names of the tickets whose commands they
// receive: commands of different intakes have no order.
const (
	httpIntake  = "http"
	natsIntake  = "nats"
	kafkaIntake = "kafka"
)

var everyIntake = []string{httpIntake, natsIntake, kafkaIntake}

// commandScene is a misbehaving appliance and all sources of ticket commands. It outlives
// every bridge.
type commandScene struct {
	seed      uint64
	appliance *standin.Appliance
	book      commandBook
	intakes   []string
	tickets   map[string]int64 // their detections
	address   string           // of the bridge's admin interface
	js        jetstream.JetStream
	kafka     *kgo.Client

	program       []string // the bridge's command line
	config, state string
}

const commandTopic = "ndr.tickets"

func newCommandScene(t *testing.T, program []string, seed uint64, intakes ...string) *commandScene {
	t.Helper()
	folder := t.TempDir()
	s := &commandScene{
		seed: seed, appliance: standin.New(standin.Options{Seed: seed}),
		book: commandBook{accepted: make(map[string][]commands.Command)}, intakes: intakes, tickets: make(map[string]int64),
		address: loopback.Free(t), program: program,
		config: filepath.Join(folder, "ndrbridge.yaml"), state: filepath.Join(folder, "state.db"),
	}
	const ofEach = 5
	for n, v := range s.appliance.AddBacklog(ofEach*len(intakes), time.Minute) {
		s.tickets[fmt.Sprintf("%s-%d", intakes[n%len(intakes)], n)] = v.ID
	}
	s.appliance.SetHazards(standin.Hazards{Reset: 0.02, ServerError: 0.02, CutBody: 0.02, HTML: 0.01})
	appliance := httptest.NewServer(s.appliance)
	t.Cleanup(appliance.Close)
	var natsURL, broker string
	natsURL, s.js = startCommandStream(t)
	broker, s.kafka = startCommandTopic(t)
	yaml := fmt.Sprintf(`
state: %s
log: {level: warn}
admin: {listen: %q}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    timeout: 1s
    retry: {initial: 10ms, max: 50ms}
    detections: {start: beginning, interval: 20ms}
    audit: {enabled: false}
sinks:
  - {name: log, file: {path: %q}}
tickets:
  enabled: true
  nats: {url: %q, stream: TICKETS, subject: %s}
  kafka: {brokers: [%q], topic: %s}
`, s.state, s.address, appliance.URL, standin.DefaultAPIKey, filepath.Join(folder, "events.jsonl"), natsURL, commandTopic, broker, commandTopic)
	require.NoError(t, os.WriteFile(s.config, []byte(yaml), 0o600))
	return s
}

func (s *commandScene) start(t *testing.T) *bridge {
	t.Helper()
	return startBridge(t, s.program, s.config)
}

func startCommandStream(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	s := loopback.NATS(t, nil)
	js = loopback.JetStream(t, s)
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TICKETS", Subjects: []string{commandTopic}}))(t)
	return s.ClientURL(), js
}

func startCommandTopic(t *testing.T) (broker string, client *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, commandTopic), kfake.ListenFn(listenUnaware))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	broker = c.ListenAddrs()[0]
	client, err = kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(commandTopic))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return broker, client
}

// drive sends commands to every intake until stop is called. Each is sent until it is
// acknowledged, before the next one of its ticket.
func (s *commandScene) drive(t *testing.T) (stop func()) {
	t.Helper()
	send := map[string]func(context.Context, string, string, []byte) error{
		httpIntake: func(ctx context.Context, key, _ string, body []byte) error {
			return postCommands(ctx, s.address, key, body)
		},
		natsIntake: func(ctx context.Context, key, _ string, body []byte) error {
			_, err := s.js.Publish(ctx, commandTopic, body, jetstream.WithMsgID(key))
			return err
		},
		kafkaIntake: func(ctx context.Context, _, ticket string, body []byte) error {
			return s.kafka.ProduceSync(ctx, &kgo.Record{Key: []byte(ticket), Value: body}).FirstErr()
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var driving sync.WaitGroup
	for n, intake := range s.intakes {
		driving.Go(func() { s.send(ctx, rand.New(rand.NewPCG(s.seed, uint64(n))), intake, send[intake]) })
	}
	stop = func() { cancel(); driving.Wait() }
	t.Cleanup(stop)
	return stop
}

// send sends commands to one intake until ctx is done. It continues to send unacknowledged
// ones, so that all of them are acknowledged in the end: a bridge must be running.
func (s *commandScene) send(ctx context.Context, random *rand.Rand, intake string, send func(context.Context, string, string, []byte) error) {
	var own []string
	for ticket := range s.tickets {
		if strings.HasPrefix(ticket, intake) {
			own = append(own, ticket)
		}
	}
	slices.Sort(own)
	linked := make(map[string]bool)
	for number := 1; ctx.Err() == nil; {
		ticket := own[random.IntN(len(own))]
		commands := make([]commands.Command, 1+random.IntN(2))
		for i := range commands {
			commands[i] = command(ticket, number, random)
			number++
		}
		if !linked[ticket] || random.IntN(4) == 0 {
			commands[0].DetectionID, linked[ticket] = s.tickets[ticket], true
		}
		body, err := json.Marshal(commands)
		if err != nil {
			panic(err) // it contains only strings and numbers
		}
		key := fmt.Sprintf("%s/%d", intake, number)
		for send(context.WithoutCancel(ctx), key, ticket, body) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		s.book.accept(commands)
		time.Sleep(callInterval)
	}
}

// callInterval is the time between two calls of an intake, long enough for a busy machine
// to write all commands.
const callInterval = 100 * time.Millisecond

// command draws a command for a ticket.
func command(ticket string, number int, random *rand.Rand) commands.Command {
	assignee := fmt.Sprintf("%06d", number)
	c := commands.Command{TicketID: ticket, Assignee: &assignee, Status: commands.Statuses()[random.IntN(4)]}
	if c.Status == "closed" {
		c.Resolution = commands.Resolutions()[random.IntN(2)]
	}
	return c
}

// postCommands sends commands to the bridge with an address, which may not be running.
func postCommands(ctx context.Context, address, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/v1/tickets", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("answered %s: %s", answer.Status, text)
	}
	return nil
}

// patience is the time limit for progress. It measures nothing: on a busy machine each wait may
// take a large part of it.
const patience = 5 * time.Minute

// progress waits until a command of each intake was written.
func (s *commandScene) progress(t *testing.T, b *bridge) {
	t.Helper()
	before := s.written()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now := s.written()
		if !slices.ContainsFunc(s.intakes, func(intake string) bool { return now[intake] <= before[intake] }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no progress: before %v, now %v\n%s", before, now, b.output.end())
		}
	}
}

// await waits until there are no faults. It fails if there is no progress.
func (s *commandScene) await(t *testing.T, b *bridge) {
	t.Helper()
	least, since := -1, time.Now()
	for {
		faults := len(s.faults())
		if faults == 0 {
			return
		}
		if faults != least {
			least, since = faults, time.Now()
		}
		if time.Since(since) > patience {
			for _, fault := range s.faults() {
				t.Error(fault)
			}
			t.Fatalf("no progress; the last bridge wrote:\n%s", b.output.end())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// quiet waits until the stream is empty and nothing was written for a while.
func (s *commandScene) quiet(t *testing.T) {
	t.Helper()
	const while = 2 * time.Second
	total, since := -1, time.Now()
	for deadline := time.Now().Add(patience); time.Since(since) < while; time.Sleep(20 * time.Millisecond) {
		waiting, err := s.waiting(t.Context())
		require.True(t, err == nil || time.Now().Before(deadline), err)
		if now := len(s.appliance.Patches()); err != nil || now != total || waiting > 0 {
			total, since = now, time.Now()
		}
	}
}

// waiting counts the messages that the bridges have not acknowledged.
func (s *commandScene) waiting(ctx context.Context) (int, error) {
	consumer, err := s.js.Consumer(ctx, "TICKETS", "ndrbridge")
	if err != nil {
		return 0, err
	}
	about, err := consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(about.NumPending) + about.NumAckPending, nil
}
