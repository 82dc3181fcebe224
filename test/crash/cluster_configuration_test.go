package crash

import (
	"fmt"
	"path/filepath"
	"strings"

	standin "ndrbridge/test/appliance"
)

// memberConfiguration returns the configuration of a member, which differs from the others
// in its name, its folder and the addresses of its proxies. The journal retains everything
// for the evaluation.
func (s *clusterScene) memberConfiguration(m *clusterMember) string {
	var servers []string
	for _, p := range m.servers {
		servers = append(servers, "nats://"+p.Addr().String())
	}
	var appliances strings.Builder
	for i, sensor := range s.sensors {
		interval := "50ms"
		if i > 0 {
			interval = "150ms"
		}
		fmt.Fprintf(&appliances, `
  - name: %s
    url: http://%s
    api_key: %s
    rate_limit: 1000
    timeout: 1s
    retry: {initial: 10ms, max: 200ms}
    detections: {start: beginning, interval: %s, overlap: 10s, page_size: 100, reconcile: {every: 5s, back: 1h}}
    audit: {start: beginning, interval: %[4]s, page_size: 40}
    records:
      - {name: all, start: beginning, interval: %[4]s, window: 2s, delay: 100ms, recheck: 3s, page_size: 50, max_window_records: 300}`,
			sensor.name, m.appliances[i].Addr(), standin.DefaultAPIKey, interval)
	}
	return fmt.Sprintf(`
state: %s
admin: {listen: %q}
journal: {max_bytes: 8GiB, retain: 24h}
shutdown_timeout: 10s
cluster:
  name: torture
  member: %s
  nats: {url: %q}
  shards: %d
  replicas: %d
  lease: %s
appliances:%s
sinks:
  - name: %s
    webhook: {url: "http://%s", timeout: 1s}
    batch: &batch {max_events: %d, linger: 5ms}
    retry: &retry {initial: 10ms, max: 200ms}
    probe: 200ms
  - {name: %s, nats: {url: "nats://%s", stream: NDR, create_stream: true}, batch: *batch, retry: *retry, probe: 200ms}
  - {name: %s, kafka: {brokers: [%q]}, batch: *batch, retry: *retry, probe: 200ms}
tickets: {enabled: true}
`, filepath.Join(m.folder, "state.db"), m.admin, m.name, strings.Join(servers, ","), clusterShards, clusterServers, clusterLease, appliances.String(),
		webhookSink, m.sinks[webhookSink].Addr(), clusterBatch, natsSink, m.sinks[natsSink].Addr(), kafkaSink, m.sinks[kafkaSink].Addr())
}

// clusterBatch is the maximum number of events in a batch.
const clusterBatch = 20
