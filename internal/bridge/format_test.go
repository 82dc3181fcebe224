package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/internal/admin"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// formats are those that a sink can have, with the content type of one document.
var formats = map[format.Name]string{
	format.CloudEvents: transform.ContentTypeStructured,
	format.OCSF:        "application/json",
	format.ECS:         "application/json",
	format.CEF:         "text/plain; charset=utf-8",
	format.LEEF:        "text/plain; charset=utf-8",
}

// documentID returns the id of the event that a document holds.
func documentID(name format.Name, document []byte) (string, error) {
	var fields struct {
		ID       string // of a CloudEvent
		Event    struct{ ID string }
		Metadata struct{ UID string }
	}
	if !name.IsText() {
		if err := json.Unmarshal(document, &fields); err != nil {
			return "", fmt.Errorf("%w: %s", err, document)
		}
	}
	switch name {
	case format.CloudEvents:
		return fields.ID, nil
	case format.ECS:
		return fields.Event.ID, nil
	case format.OCSF:
		return fields.Metadata.UID, nil
	case format.CEF:
		return group(cefID, document)
	default:
		return group(leefID, document)
	}
}

var (
	cefID  = regexp.MustCompile(`^CEF:0\|.*[| ]cs6=([^ ]+) cs6Label=eventId(?: |$)`)
	leefID = regexp.MustCompile(`^LEEF:2\.0\|.*[|\t]eventId=([^\t\n]+)`)
)

func group(r *regexp.Regexp, document []byte) (string, error) {
	found := r.FindSubmatch(document)
	if found == nil {
		return "", fmt.Errorf("no id in %q", document)
	}
	return strings.ReplaceAll(string(found[1]), `\=`, "="), nil
}

// arrivals are the documents that arrived at sinks.
type arrivals struct {
	mu  sync.Mutex
	ids map[string][]string // by sink
}

func (a *arrivals) add(t *testing.T, sink string, name format.Name, contentType string, document []byte) {
	id, err := documentID(name, document)
	if err != nil || id == "" {
		t.Errorf("%s: a document without an id, %v: %s", sink, err, document)
	}
	if contentType != formats[name] {
		t.Errorf("%s: content type %q, want %q", sink, contentType, formats[name])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[sink] = append(a.ids[sink], id)
}

func (a *arrivals) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(map[string]int)
	for sink, ids := range a.ids {
		counts[sink] = len(ids)
	}
	return counts
}

// serve receives the requests of webhooks: the path is the format, the mode and the
// encoding of batches.
func (a *arrivals) serve(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		sink := strings.Trim(r.URL.Path, "/")
		kind, how, _ := strings.Cut(sink, "-")
		name, contentType := format.Name(kind), r.Header.Get("Content-Type")
		expect := func(want string) {
			if contentType != want {
				t.Errorf("%s: content type %q, want %q", sink, contentType, want)
			}
		}
		documents := [][]byte{body}
		switch {
		case how == "one":
			expect(formats[name])
		case name.IsText():
			expect(formats[name])
			documents = linesOf(body)
		case how == "ndjson":
			expect("application/x-ndjson")
			documents = linesOf(body)
		default:
			want := "application/json"
			if name == format.CloudEvents {
				want = transform.ContentTypeBatch
			}
			expect(want)
			var array []json.RawMessage
			if err := json.Unmarshal(body, &array); err != nil {
				t.Errorf("%s: %v: %.200s", sink, err, body)
			}
			documents = documents[:0]
			for _, document := range array {
				documents = append(documents, document)
			}
		}
		for _, document := range documents {
			a.add(t, sink, name, formats[name], document)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// linesOf returns the lines of a body, which ends with one.
func linesOf(body []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
}

// Every event arrives once at every sink of every format, under its own id.
func TestEveryFormatArrivesAtEverySink(t *testing.T) {
	a, url := startAppliance(t, 60)
	a.AddAudit(30)
	require.NoError(t, a.AddRecordBacklog(60, 10*time.Minute))
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	nats := loopback.NATS(t, nil)
	got := &arrivals{ids: make(map[string][]string)}
	hook := got.serve(t)
	folder := t.TempDir()

	var sinks strings.Builder
	add := func(name format.Name, how, keys string) {
		fmt.Fprintf(&sinks, "  - {name: %s-%s, format: %s, batch: {max_events: 20, linger: 0}, %s}\n", name, how, name, keys)
	}
	for name := range formats {
		add(name, "one", fmt.Sprintf(`webhook: {url: "%s/%s-one"}`, hook, name))
		add(name, "batch", fmt.Sprintf(`webhook: {url: "%s/%s-batch"}, mode: batch`, hook, name))
		if !name.IsText() {
			add(name, "ndjson", fmt.Sprintf(`webhook: {url: "%s/%s-ndjson", batch_encoding: ndjson}, mode: batch`, hook, name))
		}
		add(name, "kafka", fmt.Sprintf(`kafka: {brokers: [%q], topic: %s, create_topic: {partitions: 2}}`, cluster.ListenAddrs()[0], name))
		add(name, "nats", fmt.Sprintf(`nats: {url: %q, stream: %s, subject: "%s.{stream}", create_stream: true}`, nats.ClientURL(), name, name))
		add(name, "file", fmt.Sprintf(`file: {path: %q}`, filepath.Join(folder, string(name))))
	}
	yaml := strings.Replace(configuration(t, url, sinks.String()), "sinks:\n",
		"    audit: {start: beginning, interval: 20ms}\n    records: [{name: all, start: -1h, interval: 20ms, delay: 0s}]\nsinks:\n", 1)
	r := run(t, yaml)
	const events = 60 + 30 + 60
	await(t, "every event at every webhook", func() bool {
		counts := got.counts()
		for name := range formats {
			if counts[string(name)+"-one"] < events || counts[string(name)+"-batch"] < events || !name.IsText() && counts[string(name)+"-ndjson"] < events {
				return false
			}
		}
		return true
	})
	await(t, "every event at every other sink", func() bool {
		status, err := r.control(t).Status(t.Context())
		return err == nil && !slices.ContainsFunc(status.Sinks, func(s admin.SinkStatus) bool { return s.Delivered < events })
	})
	r.stop()

	for name := range formats {
		for _, document := range linesOf(readFile(t, filepath.Join(folder, string(name)))) {
			got.add(t, string(name)+"-file", name, formats[name], document)
		}
		for _, record := range recordsOf(t, cluster.ListenAddrs()[0], string(name), events) {
			got.add(t, string(name)+"-kafka", name, string(record.Headers[0].Value), record.Value)
		}
		for _, m := range messagesOf(t, loopback.JetStream(t, nats), string(name), events) {
			got.add(t, string(name)+"-nats", name, m.Headers().Get("Content-Type"), m.Data())
		}
	}
	want := slices.Sorted(slices.Values(got.ids["cloudevents-one"]))
	for _, sink := range slices.Sorted(maps.Keys(got.ids)) {
		if ids := slices.Sorted(slices.Values(got.ids[sink])); !slices.Equal(ids, want) {
			t.Errorf("%s: %d events, want %d: %.300q", sink, len(ids), len(want), ids)
		}
	}
	if len(want) != events {
		t.Errorf("%d events", len(want))
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// recordsOf returns the first n records of a topic.
func recordsOf(t *testing.T, broker, topic string, n int) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("%d of %d records of %s: %v", len(records), n, topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// messagesOf returns the first n messages of a stream.
func messagesOf(t *testing.T, js jetstream.JetStream, stream string, n int) (messages []jetstream.Msg) {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(30*time.Second))
	require.NoError(t, err)
	for m := range batch.Messages() {
		messages = append(messages, m)
	}
	if batch.Error() != nil {
		t.Fatal(batch.Error())
	}
	return messages
}

// A dead letter holds the CloudEvent, whole. It is redacted and encoded again when it is
// requeued.
func TestARequeuedEventIsSentInTheFormatOfItsSink(t *testing.T) {
	a, url := startAppliance(t, 0)
	var mu sync.Mutex
	var accepts bool
	var documents [][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !accepts {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		documents = append(documents, body)
	}))
	t.Cleanup(server.Close)
	r := run(t, configuration(t, url, fmt.Sprintf("  - {name: soc, format: ecs, redact: [detection.title], webhook: {url: %q}, batch: {linger: 0}}\n", server.URL)))
	title := a.AddMany(1)[0].Title
	c, owner := r.control(t), admin.OfDead{Sink: "soc"}
	await(t, "the rejected event", func() bool { return sinkStatus(t, c, "soc").DeadLetters == 1 })
	list, err := admin.API.ListDeadLetters.Call(t.Context(), c, admin.DeadRequest{OfDead: owner, Limit: 10})
	if err != nil || len(list.DeadLetters) != 1 {
		t.Fatalf("%d dead letters, %v", len(list.DeadLetters), err)
	}
	letter, err := admin.API.GetDeadLetter.Call(t.Context(), c, admin.OfDeadLetter{OfDead: owner, Key: list.DeadLetters[0].Key})
	require.NoError(t, err)
	stored, err := transform.Parse(letter.Body)
	if err != nil || !strings.Contains(string(stored.Data()), title) {
		t.Fatalf("%v: the dead letter holds %s", err, letter.Body)
	}
	mu.Lock()
	accepts = true
	mu.Unlock()
	if n, err := admin.API.RequeueDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: owner, All: true}); n.N != 1 || err != nil {
		t.Fatalf("%d requeued, %v", n, err)
	}
	await(t, "the requeued event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(documents) == 1
	})
	r.stop()
	if id, err := documentID(format.ECS, documents[0]); err != nil || id != stored.ID {
		t.Errorf("%v: the document of %s is that of %s", err, stored.ID, id)
	}
	if strings.Contains(string(documents[0]), title) {
		t.Errorf("the title was sent: %s", documents[0])
	}
}
