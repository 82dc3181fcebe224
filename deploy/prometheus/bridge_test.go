package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// startBridge runs a bridge with every kind of source, sink and intake until the test
// ends, and returns the URL of its metrics.
func startBridge(t *testing.T) string {
	t.Helper()
	hq := standin.New(standin.Options{Seed: 1})
	hq.AddBacklog(10, time.Hour)
	natsURL, broker := startNATS(t), startKafka(t)
	config, err := configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
admin: {listen: "127.0.0.1:0"}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: 20ms}
    audit: {interval: 20ms}
    rules: {write: true}
    notes: {out: true}
    records: [{name: dns, interval: 20ms}]
    evidence: {match: detection.risk_score >= 99}
sinks:
  - {name: lake, kafka: {brokers: [%[4]q], topic: ndr, create_topic: {partitions: 1, replication: 1}}}
  - {name: bus, nats: {url: %[5]q, stream: NDR, create_stream: true}}
  - {name: soc, webhook: {url: %q}, match: detection.risk_score >= 0}
  - {name: log, file: {path: "-"}}
tickets:
  enabled: true
  nats: {url: %[5]q, stream: TICKETS}
  kafka: {brokers: [%[4]q]}
`, filepath.Join(t.TempDir(), "state.db"), serve(t, hq), standin.DefaultAPIKey, broker, natsURL,
		serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))), nil)
	require.NoError(t, err)
	b, err := bridge.New(t.Context(), config, bridge.Options{Version: "test", Log: bridge.NewLog(io.Discard, config.Log), Stdout: io.Discard})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done)
	})
	return "http://" + b.AdminAddress() + "/metrics"
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// startNATS starts a server with a stream for ticket commands and returns its URL.
func startNATS(t *testing.T) string {
	t.Helper()
	s := loopback.NATS(t, nil)
	js := loopback.JetStream(t, s)
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TICKETS", Subjects: []string{"ndr.tickets"}}))(t)
	return s.ClientURL()
}

// startKafka starts a broker with a topic for ticket commands and returns its address.
func startKafka(t *testing.T) string {
	t.Helper()
	c := require.Value(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.tickets")))(t)
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}
