package endpoint_test

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// Not a byte is sent without a lease, not even to sign in or to a proxy.
func TestEndpointsSendNothingWithoutALease(t *testing.T) {
	const info = `INFO {"max_payload":1000000,"tls_available":true}` + "\r\n"
	for _, c := range []struct {
		name      string
		appliance string
		sink      string
		greeting  string // of the server
	}{
		{name: "a webhook", sink: `webhook: {url: "http://ADDRESS"}`},
		{name: "a webhook over TLS", sink: `webhook: {url: "https://ADDRESS"}`},
		{name: "a webhook behind a proxy", sink: `webhook: {url: "https://receiver.example", proxy: "http://ADDRESS"}`},
		{name: "a webhook behind a SOCKS proxy", sink: `webhook: {url: "https://receiver.example", proxy: "socks5://ADDRESS"}`},
		{name: "a webhook's token", sink: `webhook: {url: "http://receiver.example", auth: {oauth: {token_url: "http://ADDRESS", client_id: id, client_secret: s3cret}}}`},
		{name: "a bot of Slack", sink: `webhook: {preset: slack, url: "http://ADDRESS/api/chat.postMessage", key: s3cret, channel: C1}`},
		{name: "elasticsearch", sink: `webhook: {preset: elasticsearch, url: "http://ADDRESS/ndr"}`},
		{name: "a ticket system", sink: `webhook: {url: "http://ADDRESS", auth: {username: ana, password: s3cret}, ticket: {system: jira, link: false, project: SEC}}`},
		{name: "NATS", sink: `nats: {url: "nats://ADDRESS"}`, greeting: info},
		{name: "NATS over TLS", sink: `nats: {url: "tls://ADDRESS"}`, greeting: info},
		{name: "syslog over TLS", sink: `syslog: {address: "ADDRESS"}`},
		{name: "Kafka", sink: `kafka: {brokers: ["ADDRESS"]}`},
		{name: "Kafka over TLS", sink: `kafka: {brokers: ["ADDRESS"], tls: {}}`},
		{name: "an appliance", appliance: `url: "http://ADDRESS", api_key: key`},
		{name: "an appliance over TLS", appliance: `url: "https://ADDRESS", api_key: key`},
		{name: "an appliance's token", appliance: `url: "http://sensor.example", oauth: {token_url: "http://ADDRESS", client_id: id, client_secret: s3cret}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var received atomic.Int64
			address := loopback.Serve(t, func(conn net.Conn) {
				_, _ = conn.Write([]byte(c.greeting))
				_ = conn.SetReadDeadline(time.Now().Add(time.Second))
				buffer := make([]byte, 4096)
				for {
					n, err := conn.Read(buffer)
					if received.Add(int64(n)); n > 0 || err != nil {
						return
					}
				}
			})
			try := open(t, strings.ReplaceAll(c.appliance, "ADDRESS", address), strings.ReplaceAll(c.sink, "ADDRESS", address))
			if err := try(lease.New(time.Minute, leasetest.NewClock())); err == nil || received.Load() > 0 {
				t.Errorf("without a lease %d bytes arrived: %v", received.Load(), err)
			}
			valid, _ := leasetest.NewLease(time.Minute)
			err := try(valid)
			assert.True(t, err != nil && received.Load() != 0, "with a lease nothing arrived", err)
		})
	}
}

// open returns a function that sends something to an appliance or to a sink.
func open(t *testing.T, appliance, sink string) func(*lease.Lease) error {
	given := appliance != ""
	if given {
		sink = "file: {path: '-'}"
	} else {
		appliance = `url: "https://sensor.example", api_key: key`
	}
	config, err := configs.Parse("test.yaml", fmt.Appendf(nil, "state: /none/state.db\nappliances: [{name: hq, %s}]\nsinks: [{name: s, %s}]\n", appliance, sink), nil)
	require.NoError(t, err)
	store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	return func(l *lease.Lease) error {
		if given {
			client, err := endpoint.NewClient(config.Appliances[0], endpoint.ClientOptions{Lease: l})
			require.NoError(t, err)
			defer client.Close()
			_, _, err = client.Ticketing(t.Context())
			return err
		}
		s, err := endpoint.OpenSink(config.Sinks[0], endpoint.SinkOptions{Memories: store, Log: slog.New(slog.DiscardHandler), Lease: l})
		require.NoError(t, err)
		defer s.Close()
		return s.Send(t.Context(), []transform.Event{detectionEvent(t, 1, 20)})
	}
}
