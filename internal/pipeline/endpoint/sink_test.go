package endpoint_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestWhatMatchesNoMoreStillReachesItsTicket(t *testing.T) {
	version := func(risk int, ticket string) transform.Event {
		text := fmt.Sprintf(`{"id": 7, "mod_time": 7, "risk_score": %d, "ticket_id": %q}`, risk, ticket)
		d := require.Value(transform.ParseDetection([]byte(text), false))(t)
		return require.Value(transform.Encoder{Appliance: "hq"}.Detection(d, transform.Observation{Recorded: time.UnixMilli(1)}))(t)
	}
	opens := &configs.Webhook{Ticket: &configs.TicketOpener{System: "jira"}}
	follows := &configs.Webhook{Ticket: &configs.TicketOpener{System: "jira", Follow: &configs.TicketFollow{}}}
	for _, test := range []struct {
		name  string
		event transform.Event
		to    *configs.Webhook
		want  sinks.Verdict
	}{
		{"a version that matches is sent", version(90, ""), follows, sinks.VerdictSend},
		{"one that does not match is filtered", version(10, ""), follows, sinks.VerdictFilter},
		{"one that does not match is sent, if its detection has a ticket", version(10, "SEC-1"), follows, sinks.VerdictSend},
		{"but not to a sink whose tickets do not follow", version(10, "SEC-1"), opens, sinks.VerdictFilter},
	} {
		t.Run(test.name, func(t *testing.T) {
			selection := require.Value(endpoint.Selection(configs.Sink{Webhook: test.to, Match: "detection.risk_score > 50"}))(t)
			assert.Equal(t, require.Value(selection.Decide(test.event))(t), test.want)
		})
	}
}

func TestPrepareRedactsBeforeItEncodes(t *testing.T) {
	e := detectionEvent(t, 1, 90)
	for _, test := range []struct {
		name          string
		sink          configs.Sink
		with, without string // in the payload
	}{
		{"CloudEvents without a field", configs.Sink{Redact: []string{"detection.title"}}, `"risk_score":90`, "Port scan"},
		{"a document", configs.Sink{Format: "ecs"}, "Port scan", "specversion"},
		{"a document without a field", configs.Sink{Format: "ecs", Redact: []string{"detection.title"}}, `"event"`, "Port scan"},
	} {
		t.Run(test.name, func(t *testing.T) {
			prepare := require.Value(endpoint.Prepare(test.sink, "1.2.3"))(t)
			got := require.Value(prepare(e))(t)
			text := string(got.Payload())
			assert.True(t, strings.Contains(text, test.with) && !strings.Contains(text, test.without), got.ContentType(), text)
			assert.True(t, strings.Contains(test.without, "Port") != strings.Contains(string(got.Structured()), "Port scan"), "structured", string(got.Structured()))
			assert.Equal(t, got.ID, e.ID, "id")
			assert.Equal(t, got.PartitionKey, e.PartitionKey, "key")
		})
	}
	t.Run("nothing is prepared without redact and format", func(t *testing.T) {
		for _, s := range []configs.Sink{{}, {Format: "cloudevents"}} {
			prepare, err := endpoint.Prepare(s, "")
			assert.True(t, prepare == nil && err == nil, err)
		}
	})
	t.Run("an unknown format is an error", func(t *testing.T) {
		_, err := endpoint.Prepare(configs.Sink{Format: "gelf"}, "")
		assert.True(t, err != nil && strings.Contains(err.Error(), "format"), err)
	})
}

// The workers of a runner prepare events at the same time.
func TestDocumentsThatAreMadeAtTheSameTime(t *testing.T) {
	prepare := require.Value(endpoint.Prepare(configs.Sink{Format: "ecs", Redact: []string{"detection.title"}}, ""))(t)
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			var made []transform.Event
			for n := range 100 {
				e, err := prepare(detectionEvent(t, 1000*w+n+1, 50))
				assert.NoError(t, err)
				made = append(made, e)
			}
			for _, e := range made {
				var document struct{ Event struct{ ID string } }
				err := json.Unmarshal(e.Payload(), &document)
				assert.True(t, err == nil && document.Event.ID == e.ID, err, "the document of", e.ID, string(e.Payload()))
			}
		})
	}
	workers.Wait()
}

func TestRenderShowsDocuments(t *testing.T) {
	events := []transform.Event{detectionEvent(t, 1, 20), detectionEvent(t, 2, 90), detectionEvent(t, 3, 95)}
	for _, test := range []struct {
		name, keys string
		shown      []string // method, URL and number of documents of each request
	}{
		{"a document per request", `webhook: {url: "https://h.example/in?key=s3cret"}, format: ecs`, []string{"POST https://h.example/***?*** 1", "POST https://h.example/***?*** 1", "POST https://h.example/***?*** 1"}},
		{"an array", `webhook: {url: "https://h.example"}, mode: batch, format: ecs`, []string{"POST https://h.example 3"}},
		{"lines", `webhook: {url: "https://h.example", batch_encoding: ndjson, method: PUT}, mode: batch, format: ecs`, []string{"PUT https://h.example 3"}},
		{"a preset", `webhook: {preset: datadog, url: "https://h.example", key: s3cret}, format: ecs`, []string{"POST https://h.example 3"}},
		{"records of Kafka", `kafka: {brokers: ["h:9092"]}, format: ecs`, []string{"kafka s 1", "kafka s 1", "kafka s 1"}},
		{"lines of a file that match", `file: {path: "-"}, format: ecs, match: detection.risk_score >= 90`, []string{"file s 1", "file s 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var shown []string
			for request, err := range renderer(t, test.keys).Render(events) {
				require.NoError(t, err)
				n := strings.Count(string(request.Body), `"@timestamp"`)
				assert.Equal(t, n, request.Events)
				assert.NotContains(t, string(request.Body), "s3cret", "events in")
				shown = append(shown, request.Method+" "+request.URL+" "+string(rune('0'+n)))
			}
			assert.Equal(t, strings.Join(shown, ", "), strings.Join(test.shown, ", "), "shown", shown, test.shown)
		})
	}
}

func TestAWebhookExpectsWhatIsConfigured(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Queue", "soc")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"result": {"stored": true}}`))
	}))
	defer server.Close()
	for expect, fits := range map[string]bool{
		`{status: [200, 202], headers: {x-queue: soc}, json: {result.stored: true}}`: true,
		`{status: [200]}`:                false,
		`{headers: {X-Queue: noc}}`:      false,
		`{json: {result.stored: false}}`: false,
	} {
		send := open(t, "", fmt.Sprintf("webhook: {url: %q, expect: %s}", server.URL, expect))
		valid, _ := leasetest.NewLease(time.Minute)
		err := send(valid)
		assert.Equal(t, fits, err == nil, expect, err)
	}
}
