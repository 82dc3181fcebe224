package pipeline_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// target is the target of a sink, which keeps what arrives.
type target struct {
	sink    string // the keys of the sink
	arrived func(t *testing.T) string
	answer  string // in the result of a test
}

// targets start a target of each kind.
var targets = map[string]func(t *testing.T) target{
	"file": func(t *testing.T) target {
		path := filepath.Join(t.TempDir(), "events")
		return target{fmt.Sprintf("file: {path: %q}", path), func(t *testing.T) string {
			return string(require.Value(os.ReadFile(path))(t))
		}, "file " + path}
	},
	"webhook": func(t *testing.T) target {
		bodies := make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // a part of it lacks the mark
			bodies <- string(body)
		}))
		t.Cleanup(server.Close)
		return target{fmt.Sprintf("webhook: {url: %q}", server.URL), func(*testing.T) string { return <-bodies }, "POST to " + server.URL + ": 200 OK"}
	},
	"syslog": func(t *testing.T) target {
		listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { listener.Close() })
		messages := make(chan string, 1)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return // the test ends
			}
			defer conn.Close()
			message, _ := io.ReadAll(conn) // a part of it lacks the mark
			messages <- string(message)
		}()
		return target{fmt.Sprintf("syslog: {address: %q, network: tcp}", listener.Addr()), func(*testing.T) string { return <-messages }, "syslog " + listener.Addr().String()}
	},
	"nats": func(t *testing.T) target {
		server, stop, err := natsserver.Start(t.TempDir(), nil)
		require.NoError(t, err)
		t.Cleanup(stop)
		conn := require.Value(natsgo.Connect(server.ClientURL()))(t)
		t.Cleanup(conn.Close)
		messages := require.Value(conn.SubscribeSync("ndr.>"))(t)
		require.NoError(t, conn.Flush())
		return target{fmt.Sprintf("nats: {url: %q, stream: NDR, subject: %q, create_stream: true}", server.ClientURL(), "ndr.{stream}.{action}"), func(t *testing.T) string {
			return string(require.Value(messages.NextMsg(10 * time.Second))(t).Data)
		}, "subject ndr.events.test, stream NDR, sequence 1"}
	},
	"kafka": func(t *testing.T) target {
		cluster := require.Value(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.events")))(t)
		t.Cleanup(cluster.Close)
		return target{fmt.Sprintf("kafka: {brokers: [%q], topic: %q}", cluster.ListenAddrs()[0], "ndr.{stream}"), func(t *testing.T) string {
			client := require.Value(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("ndr.events")))(t)
			defer client.Close()
			records := client.PollFetches(t.Context()).Records()
			require.Equal(t, len(records), 1, "records")
			return string(records[0].Value)
		}, "topic ndr.events, partition 0, offset 0"}
	},
}

// marks are what says in each format that an event is a test of the lowest severity.
var marks = map[string][]string{
	"cloudevents": {`"type":"io.ndrbridge.sink.test"`, transform.TestTitle, `"tags":["test"]`},
	"ocsf":        {`"severity_id":1`, `"labels":["test"]`, `"message":"` + transform.TestTitle, `"class_uid":0`},
	"ecs":         {`"kind":"event"`, `"tags":["test"]`, `"message":"` + transform.TestTitle, `"action":"sink.test"`},
	"cef":         {"|test|" + transform.TestTitle + "|0|"},
	"leef":        {"|test|", "sev=1", "title=" + transform.TestTitle},
}

// sendTest sends a test to a sink. It removes some files once the configuration is loaded.
func sendTest(t *testing.T, sink string, gone ...string) (result string, delivered bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
appliances: [{name: hq, url: "https://hq.example", api_key: k}]
sinks: [{name: lake, match: detection.risk_score > 99, %s}]
`, sink), 0o600))
	config := require.Value(configs.Load(configs.Source{Paths: []string{path}}))(t)
	for _, file := range gone {
		require.NoError(t, os.Remove(file))
	}
	sent, err := pipeline.SendTest(t.Context(), config, "lake", endpoint.SinkOptions{Version: "1.2.3", Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var lines bytes.Buffer
	for _, f := range sent.Findings {
		fmt.Fprintln(&lines, f.Target, f.Step, f.Result, f.Detail, f.Advice)
	}
	return lines.String(), sent.Delivered
}

func TestATestIsMarkedInEveryFormatOnEveryTransport(t *testing.T) {
	for kind, start := range targets {
		for format, texts := range marks {
			t.Run(kind+" "+format, func(t *testing.T) {
				to := start(t)
				result, delivered := sendTest(t, to.sink+", format: "+format)
				require.True(t, delivered, result)
				assert.Contains(t, result, "sink lake delivery ok "+to.answer)
				assert.Contains(t, result, "an event with the type io.ndrbridge.sink.test and the id sink.test-lake-")
				arrived := to.arrived(t)
				for _, text := range texts {
					assert.Contains(t, strings.ReplaceAll(arrived, `": `, `":`), text)
				}
			})
		}
	}
}

func TestAFailedTestIsExplainedAsByACheck(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("token"), 0o600))
	for _, test := range []struct {
		name, sink, want string
		gone             []string
	}{
		{"nothing listens", fmt.Sprintf("webhook: {url: %q}", server.URL), "refuses connections", nil},
		{"no such folder", `file: {path: "/nowhere/events"}`, "create", nil},
		{"no such secret", fmt.Sprintf("webhook: {url: %q, auth: {bearer_file: %q}}", server.URL, secret), "correct the named key, or the file it refers to", []string{secret}},
		{"too large", `webhook: {url: "https://h.example", max_body_bytes: 10}`, "ndrbridge try render", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, delivered := sendTest(t, test.sink, test.gone...)
			assert.False(t, delivered, result)
			assert.Contains(t, result, "sink lake delivery failed")
			assert.Contains(t, result, test.want)
		})
	}
}
