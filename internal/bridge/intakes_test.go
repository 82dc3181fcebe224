package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// startNATS starts a server with the stream TICKETS and returns its address and a
// publisher.
func startNATS(t *testing.T) (string, jetstream.JetStream) {
	t.Helper()
	s := loopback.NATS(t, func(o *server.Options) { o.Username, o.Password = "bridge", "hunter2" })
	js := loopback.JetStream(t, s, nats.UserInfo("bridge", "hunter2"))
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TICKETS", Subjects: []string{"ndr.tickets"}}))(t)
	return s.ClientURL(), js
}

// startKafka starts a broker with the topic ndr.tickets and returns its address and a
// producer.
func startKafka(t *testing.T) (string, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.tickets"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "bridge", "hunter2"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	address := c.ListenAddrs()[0]
	producer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("ndr.tickets"), kgo.SASL(plain.Auth{User: "bridge", Pass: "hunter2"}.AsMechanism()))
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	return address, producer
}

// intakes waits until holds is true of the status of the intakes.
func (r *running) intakes(t *testing.T, what string, holds func([]admin.IntakeStatus) bool) {
	t.Helper()
	await(t, what, func() bool {
		status := require.Value(r.control(t).Status(t.Context()))(t)
		return holds(status.Intakes)
	})
}

// applied reports whether an assignee was written.
func (i *inbox) applied(assignee string) bool {
	return i.find("ticket.applied", func(e transform.Event) bool { return strings.Contains(string(e.Data()), `"assignee":"`+assignee+`"`) })
}

func assign(to string) []byte {
	return fmt.Appendf(nil, `{"ticket_id": "SEC-1", "assignee": %q}`, to)
}

func TestCommandsComeFromBrokers(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 3)
	ticketed(t, a)
	natsURL, js := startNATS(t)
	broker, producer := startKafka(t)
	soc := startInbox(t)
	base := strings.Replace(configuration(t, url, webhookSink("soc", soc.URL)), "rate_limit: 1000", "rate_limit: 1000\n    notes: {out: true}", 1)
	intakes := func(durable string) string {
		return base + fmt.Sprintf(`
tickets:
  enabled: true
  nats: {url: %q, stream: TICKETS, durable: %s, username: bridge, password: hunter2}
  kafka: {brokers: [%q], sasl: {mechanism: plain, username: bridge, password: hunter2}}
`, natsURL, durable, broker)
	}
	r := run(t, intakes("first"))
	publish := func(body []byte) {
		t.Helper()
		require.Value(js.Publish(t.Context(), "ndr.tickets", body))(t)
	}
	produce := func(body []byte) {
		t.Helper()
		require.NoError(t, producer.ProduceSync(context.WithoutCancel(t.Context()), &kgo.Record{Key: []byte("SEC-1"), Value: body}).FirstErr())
	}
	publish(assign("ana"))
	await(t, "the published command", func() bool { return soc.applied("ana") })
	produce(assign("bob"))
	await(t, "the produced command", func() bool { return soc.applied("bob") })

	publish([]byte(`{"ticket_id": "SEC-1", "status": "done"}`))
	produce([]byte(`{"ticket": "SEC-1"}`))
	for where, why := range map[string]string{"stream TICKETS, message 2": `cannot be \"done\"`, "record ndr.tickets/0/1": "ticket is an unknown field"} {
		await(t, "the event that refuses "+where, func() bool {
			return soc.find("ticket.rejected", func(e transform.Event) bool {
				return strings.Contains(string(e.Data()), where) && strings.Contains(string(e.Data()), why)
			})
		})
	}
	r.intakes(t, "both intakes have dealt with two messages", func(all []admin.IntakeStatus) bool {
		return len(all) == 2 && !slices.ContainsFunc(all, func(d admin.IntakeStatus) bool {
			return d.State != "running" || d.Stored != 1 || d.Refused != 1 || d.Since.IsZero()
		})
	})
	if _, body := get(t, "http://"+r.AdminAddress()+"/metrics"); !strings.Contains(body, `ndrbridge_ticket_intake_messages_total{intake="nats",result="refused"} 1`) ||
		!strings.Contains(body, `ndrbridge_ticket_intake_up{intake="kafka"} 1`) {
		t.Errorf("metrics: %s", body)
	}

	t.Run("a reload restarts only the changed intake", func(t *testing.T) {
		assert.EqualSlices(t, r.reload(t, intakes("second")), []string{"tickets: changed", "tickets from nats: changed"})
		r.intakes(t, "the new consumer begins with the first message, and the other intake goes on", func(all []admin.IntakeStatus) bool {
			return all[0].Stored == 1 && all[0].Refused == 1 && all[1].Stored == 1 && all[1].State == "running"
		})
	})
	t.Run("an unchanged intake uses the current acceptor", func(t *testing.T) {
		r.reload(t, strings.Replace(intakes("second"), "rate_limit: 1000", "rate_limit: 999", 1))
		produce(assign("eve"))
		await(t, "the produced command", func() bool { return soc.applied("eve") })
	})
	t.Run("notes are written wherever the command comes from", func(t *testing.T) {
		id := history(a)[0].ID
		add := func(text string) []byte {
			return fmt.Appendf(nil, `{"detection_id": %d, "note": %q, "by": "ana"}`, id, text)
		}
		publish(add("by NATS"))
		produce(add("by Kafka"))
		require.Value(r.control(t).SendCommand(t.Context(), json.RawMessage(add("by HTTP"))))(t)
		await(t, "the results", func() bool { return len(soc.of("io.ndrbridge.note.applied")) == 3 })
		asked := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/v1/detections/%d/notes", id), nil)
		asked.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		note := httptest.NewRecorder()
		a.ServeHTTP(note, asked)
		for _, text := range []string{"by NATS", "by Kafka", "by HTTP"} {
			assert.Contains(t, note.Body.String(), text)
		}
	})
	t.Run("there are none without tickets", func(t *testing.T) {
		changes := r.reload(t, strings.Replace(base, "notes: {out: true}", "notes: {}", 1))
		assert.True(t, slices.Contains(changes, "tickets from nats: removed") && slices.Contains(changes, "tickets from kafka: removed"), changes)
		r.intakes(t, "no intakes", func(all []admin.IntakeStatus) bool { return len(all) == 0 })
	})
}

func TestAnIntakeThatIsDownDelaysNothing(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 3)
	ticketed(t, a)
	natsURL, _ := startNATS(t)
	soc := startInbox(t)
	r := run(t, configuration(t, url, webhookSink("soc", soc.URL))+fmt.Sprintf(`
tickets:
  enabled: true
  nats: {url: %q, stream: TICKETS, username: bridge, password: s3cret}
  kafka: {brokers: ["127.0.0.1:1"]}
`, natsURL))
	r.intakes(t, "both report what fails", func(all []admin.IntakeStatus) bool {
		return len(all) == 2 && all[0].State == "retrying" && strings.Contains(all[0].Error, "Authorization Violation") &&
			all[1].State == "retrying" && strings.Contains(all[1].Error, "refuses connections")
	})
	await(t, "the backlog", func() bool { return soc.count("") >= 3 })
	status, answer := r.send(t, "", string(assign("ana")))
	require.Equal(t, status, http.StatusAccepted, answer)
	await(t, "the posted command", func() bool { return soc.applied("ana") })
	code, body := get(t, "http://"+r.AdminAddress()+"/readyz")
	assert.Equal(t, code, http.StatusOK, "ready", body)
	assert.NotContains(t, r.log.String(), "s3cret", "the log shows the password")
}

// ticketed gives a detection the ticket SEC-1.
func ticketed(t *testing.T, a *standin.Appliance) {
	t.Helper()
	require.NoError(t, a.Update(func(d *standin.Detection) { d.TicketID = standin.TicketID{ID: "SEC-1"} }, history(a)[0].ID))
}

func TestARefusedMessageDoesNotBlockItsIntakeWhileTheJournalIsFull(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 0)
	soc := startInbox(t)
	soc.Answer(http.StatusServiceUnavailable)
	natsURL, js := startNATS(t)
	broker, producer := startKafka(t)
	yaml := "journal: {max_bytes: 16MiB}\n" + configuration(t, url, webhookSink("soc", soc.URL)) + fmt.Sprintf(`
tickets:
  enabled: true
  nats: {url: %q, stream: TICKETS, username: bridge, password: hunter2}
  kafka: {brokers: [%q], sasl: {mechanism: plain, username: bridge, password: hunter2}}
`, natsURL, broker)
	r := run(t, strings.Replace(yaml, "page_size: 200", "page_size: 4", 1))
	for range 20 {
		a.AddHuge(1 << 20)
	}
	await(t, "the journal to be full", func() bool {
		status, err := r.control(t).Status(t.Context())
		return err == nil && status.State.Journal.Full
	})
	for _, body := range [][]byte{[]byte(`{"ticket": "SEC-1"}`), assign("ana")} {
		require.Value(js.Publish(t.Context(), "ndr.tickets", body))(t)
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Key: []byte("SEC-1"), Value: body}).FirstErr())
	}
	r.intakes(t, "both intakes have refused one message and taken the one behind it", func(all []admin.IntakeStatus) bool {
		return len(all) == 2 && !slices.ContainsFunc(all, func(d admin.IntakeStatus) bool { return d.Stored != 1 || d.Refused != 1 })
	})
}
