package siem_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"ndrbridge/configs"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/docs"
	"ndrbridge/test/require"
	"ndrbridge/test/syslogread"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// page has the recipes: sinks, in its blocks of YAML.
const page = "docs/siem.md"

// version is that of the bridge.
const version = "1.0.0"

// product is what the product of a recipe accepts.
type product struct {
	format format.Name
	// standIn starts a strict server in its place, and replaces the addresses and the
	// authority of the recipe.
	standIn func(t *testing.T, r *recipe) *received
}

// products are those of the recipes, by the name of the sink.
var products = map[string]product{
	"elastic":          {format.ECS, bulkAPI},
	"splunk":           {format.CloudEvents, collector("/services/collector/event", `^ndrbridge:(detection|audit|record|event)$`)},
	"sentinel":         {format.CloudEvents, ingestion},
	"qradar":           {format.LEEF, syslogServer(syslogread.OctetCounting, 32<<10)},
	"arcsight":         {format.CEF, syslogServer(syslogread.Newline, 65507)},
	"secops":           {format.OCSF, secops},
	"secops-collector": {format.CEF, syslogServer(syslogread.Newline, 65507)},
	"logscale":         {format.ECS, collector("/services/collector", `^json$`)},
	"sumo":             {format.ECS, sumo},
	"graylog":          {format.CEF, syslogServer(syslogread.Newline, 65507)},
	"eventhubs":        {format.OCSF, broker{username: "$ConnectionString", mechanism: "PLAIN", topics: []string{"ndr"}, compression: "none"}.serve},
	"redpanda":         {format.CloudEvents, broker{username: "ndrbridge", mechanism: "SCRAM-SHA-256", topics: streamTopics, compression: "zstd"}.serve},
	"confluent":        {format.OCSF, broker{username: "AN-API-KEY", mechanism: "PLAIN", topics: streamTopics, compression: "zstd"}.serve},
}

// recipe is a sink of the page. Its secret files exist and hold secretOf their names.
type recipe struct {
	configs.Sink
	certificate tls.Certificate // of the stand-in
	authority   string          // path of a file with the certificate's authority
}

// secretOf returns the secret in the file name: base64, as the keys of some products are.
func secretOf(name string) string {
	return base64.StdEncoding.EncodeToString([]byte("the secret of " + name))
}

// received is what a stand-in received. Its methods are safe for concurrent use.
type received struct {
	mu        sync.Mutex
	documents []string
	messages  []string      // as they were sent, without what differs from run to run
	ended     chan struct{} // closed when all was read that the sink sent before it was closed; nil: at once
	read      func()        // reads what was stored; nil: it is here already
}

func (r *received) add(message string, documents ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message)
	r.documents = append(r.documents, documents...)
}

var readPage = sync.OnceValues(func() (docs.Document, error) {
	all, err := docs.Read("../..")
	if err != nil {
		return docs.Document{}, err
	}
	for _, d := range all {
		if d.Path == page {
			return d, nil
		}
	}
	return docs.Document{}, errors.New("there is no " + page)
})

// recipes returns the recipes of the page. Each product has one, and the other way round.
func recipes(t *testing.T) []*recipe {
	t.Helper()
	d := require.Value(readPage())(t)
	var all []*recipe
	found := make(map[string]bool)
	for _, b := range d.Blocks {
		if b.Language == "yaml" {
			r := load(t, b)
			all, found[r.Name] = append(all, r), true
		}
	}
	for name := range products {
		assert.True(t, found[name], page, "has no sink", name)
	}
	return all
}

var filePath = regexp.MustCompile(`(?:/run/secrets|/etc/ndrbridge)/([a-z.-]+)`)

// load loads the configuration of a block, with files in the place of those that it names.
func load(t *testing.T, b docs.Block) *recipe {
	t.Helper()
	folder := t.TempDir()
	r := &recipe{certificate: certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), nil), authority: filepath.Join(folder, "ca.pem")}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.certificate.Certificate[0]})
	write(t, r.authority, string(authority))
	text := filePath.ReplaceAllStringFunc(b.Text, func(path string) string {
		name := filepath.Base(path)
		if filepath.Ext(name) == ".pem" {
			return r.authority
		}
		write(t, filepath.Join(folder, name), secretOf(name))
		return filepath.Join(folder, name)
	})
	const appliance = `appliances: [{name: hq, url: "https://sensor.example", api_key: a-key}]` + "\n"
	var list []yaml.Node
	err := yaml.Unmarshal([]byte(text), &list)
	require.True(t, err == nil && len(list) == 1, b.Position, "not one sink", err)
	path := filepath.Join(folder, "ndrbridge.yaml")
	write(t, path, appliance+"sinks:\n"+text)
	config, err := configs.Load(configs.Source{Paths: []string{path}})
	require.NoError(t, err, b.Position)
	r.Sink = config.Sinks[0]
	require.True(t, products[r.Name].standIn != nil, b.Position, "there is no stand-in for", r.Name)
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// open opens the sink as the bridge does.
func (r *recipe) open() (sinks.Sink, error) {
	return endpoint.OpenSink(r.Sink, endpoint.SinkOptions{Version: version, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)})
}

// prepared returns the events in the form in which the sink sends them.
func (r *recipe) prepared(t *testing.T, events []transform.Event) []transform.Event {
	t.Helper()
	prepare, err := endpoint.Prepare(r.Sink, version)
	require.NoError(t, err)
	all := make([]transform.Event, len(events))
	for i, e := range events {
		if all[i] = e; prepare != nil {
			all[i], err = prepare(e)
			require.NoError(t, err)
		}
	}
	return all
}

// send sends events, and returns those that must be sent again because they wait for others
// of them.
func send(t *testing.T, s sinks.Sink, events []transform.Event) (left []transform.Event) {
	t.Helper()
	err := s.Send(t.Context(), events)
	each, ok := errors.AsType[failure.EventErrors](err)
	require.True(t, err == nil || ok, err)
	for i, err := range each {
		require.True(t, err == nil || errors.Is(err, failure.ErrNotTried), err)
		if err != nil {
			left = append(left, events[i])
		}
	}
	require.True(t, len(left) != len(events), "none of", len(events), "events was tried")
	return left
}

// deliver sends events to the stand-in of the recipe, and returns what it received.
func deliver(t *testing.T, r *recipe, events []transform.Event) *received {
	t.Helper()
	got := products[r.Name].standIn(t, r)
	s := require.Value(r.open())(t)
	defer s.Close()
	for left := r.prepared(t, events); len(left) > 0; {
		left = send(t, s, left)
	}
	s.Close()
	if got.ended != nil {
		select {
		case <-got.ended:
		case <-time.After(20 * time.Second):
			t.Fatal("the connection was not ended")
		}
	}
	if got.read != nil {
		got.read()
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	return &received{documents: got.documents, messages: got.messages}
}

func TestEveryRecipeDeliversEveryEvent(t *testing.T) {
	kinds := events(t)
	large := append(manyEvents(t), kinds...)
	for _, r := range recipes(t) {
		t.Run(r.Name, func(t *testing.T) {
			sent := kinds
			if r.Webhook != nil {
				sent = large
			}
			name := products[r.Name].format
			want := make(map[string]string)
			for _, e := range r.prepared(t, sent) {
				document := string(e.Payload())
				id, err := identify(name, document)
				require.True(t, err == nil && id == e.ID && want[id] == "", "event", e.ID, "has the id", id, err, document)
				want[id] = onLine(document)
			}
			for _, document := range deliver(t, r, sent).documents {
				id, err := identify(name, document)
				switch expected, found := want[id]; {
				case err != nil:
					t.Fatalf("received %.300q: %v", document, err)
				case !found:
					t.Fatalf("received %q, which was not sent, or twice", id)
				case onLine(document) != expected:
					t.Fatalf("received\n%s\nwant\n%s", document, expected)
				}
				delete(want, id)
			}
			for id := range want {
				t.Errorf("%q did not arrive", id)
			}
		})
	}
}

func TestWhatEachRecipeSends(t *testing.T) {
	for _, r := range recipes(t) {
		t.Run(r.Name, func(t *testing.T) {
			got := deliver(t, r, []transform.Event{fixture(t, "detection.json", transform.Observation{Created: true})})
			require.Equal(t, len(got.messages), 1, "messages")
			golden(t, r.Name, sentAt.ReplaceAllString(got.messages[0], `"event.ingested":"2026-03-14T09:31:42.000Z"`))
		})
	}
}

// sentAt is the time at which a document was sent to Elasticsearch.
var sentAt = regexp.MustCompile(`"event\.ingested":"[^"]*"`)

// TestStandInsRefuseOthers changes the secret or the authority of each recipe.
func TestStandInsRefuseOthers(t *testing.T) {
	for _, r := range recipes(t) {
		if r.Syslog != nil && r.Syslog.Network == configs.SyslogTCP {
			continue // it has neither
		}
		t.Run(r.Name, func(t *testing.T) {
			products[r.Name].standIn(t, r)
			switch {
			case r.Syslog != nil:
				r.Syslog.TLS = nil
			case r.Kafka != nil:
				write(t, r.Kafka.SASL.Password.File, "wrong")
			case r.Webhook.Key.IsSet():
				write(t, r.Webhook.Key.File, secretOf("another"))
			case r.Webhook.Auth.OAuth != nil:
				write(t, r.Webhook.Auth.OAuth.ClientSecret.File, secretOf("another"))
			case len(r.Webhook.Headers) > 0:
				r.Webhook.Headers["X-Webhook-Access-Key"] = configs.NewSecret("wrong")
			default:
				r.Webhook.URL = configs.NewURL(r.Webhook.URL.Value() + "x")
			}
			s := require.Value(r.open())(t)
			defer s.Close()
			assert.Error(t, s.Send(t.Context(), r.prepared(t, []transform.Event{fixture(t, "small.json", transform.Observation{})})), "the event counts as delivered")
		})
	}
}

// golden compares text with testdata/<name>.txt. If UPDATE_GOLDEN is set in the environment,
// it writes the file instead.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	assert.True(t, err == nil && text == string(want), "differs from", file, err, text)
}
