package crash

import (
	"fmt"
	"path/filepath"
	"strings"
)

// memberConfiguration returns the configuration of a member, which differs from the others
// in its name, its folder and the addresses of its proxies. The journal retains everything
// for the evaluation.
func (s *clusterScene) memberConfiguration(m *clusterMember) string {
	var servers []string
	for _, p := range m.servers {
		servers = append(servers, "nats://"+p.Addr().String())
	}
	natsServers := fmt.Sprintf("{url: %q}", strings.Join(servers, ","))
	if s.embedded != nil {
		natsServers = s.embedded[len(s.members)]
	}
	appliances := s.appliances(m.appliances, "50ms", "150ms")
	return fmt.Sprintf(`
state: %s
admin: {listen: %q, advertise: "http://%s"}
journal: {max_bytes: 8GiB, retain: 24h}
shutdown_timeout: 10s
cluster:
  name: torture
  member: %s
  nats: %s
  replicas: %d
  lease: %s
appliances:%s
sinks:
  - name: %s
    webhook: {url: "http://%s", timeout: 1s}
    batch: &batch {%s, linger: 5ms}
    retry: &retry {initial: 10ms, max: 200ms}
    probe: 200ms
  - {name: %s, nats: {url: "nats://%s", stream: NDR, create_stream: true}, batch: *batch, retry: *retry, probe: 200ms}
  - {name: %s, kafka: {brokers: [%q]}, batch: *batch, retry: *retry, probe: 200ms}
tickets: {enabled: true}
`, filepath.Join(m.folder, "state.db"), m.admin, m.admin, m.name, natsServers, clusterServers, clusterLease, appliances,
		webhookSink, m.sinks[webhookSink].Addr(), batchOf(clusterBatch), natsSink, m.sinks[natsSink].Addr(), kafkaSink, m.sinks[kafkaSink].Addr())
}

// clusterBatch is the maximum number of events in a batch.
const clusterBatch = 20

// batchOf returns the setting of the size of batches.
func batchOf(events int) string { return fmt.Sprintf("max_events: %d", events) }
