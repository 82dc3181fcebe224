package crash

import (
	"fmt"
	"strings"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
)

// configuration returns a configuration with short intervals, so that a run of half a
// second covers much of the code: the overlap is shorter than the lateness of detections,
// so that the sweep finds some. The journal is small, so that it is full while a sink is
// behind, and retains all it can for the evaluation.
func (s *scene) configuration() string {
	var proxies []*fault.Proxy
	for _, sensor := range s.sensors {
		proxies = append(proxies, sensor.proxy)
	}
	address := func(proxy string) string { return s.proxies[proxy].Addr().String() }
	return fmt.Sprintf(`
state: %s
log: {level: warn}
admin: {listen: "127.0.0.1:0"}
journal: {max_bytes: 16MiB, retain: 1h}
appliances:%s
sinks:
  - name: %s
    webhook: {url: "http://%s", concurrency: 4, timeout: 1s}
    batch: &batch {max_events: %d, linger: 5ms}
    retry: &retry {initial: 10ms, max: 100ms}
    probe: 200ms
  - name: %s
    nats: {url: "nats://%s", stream: NDR, create_stream: true}
    batch: *batch
    retry: *retry
    probe: 200ms
  - name: %s
    nats: {url: "nats://%s", stream: NDR, subject: "`+mirrorPrefix+`{appliance}.{stream}.{action}"}
    batch: *batch
    retry: *retry
    probe: 200ms
  - name: %s
    kafka: {brokers: [%q]}
    batch: *batch
    retry: *retry
    probe: 200ms
  - name: %s
    file: {path: %q, rotate: {max_bytes: 0}}
    batch: *batch
    retry: *retry
    probe: 200ms
`, s.state, s.appliances(proxies, "20ms", "100ms"),
		webhookSink, address(webhookSink), maxEvents,
		natsSink, address(natsSink), mirrorSink, address(mirrorSink), kafkaSink, address(kafkaSink), fileSink, s.file)
}

// appliances returns the list of the fleet, whose appliances a bridge reaches by proxies. All
// but the first are polled less often, since they share its two cores.
func (s *site) appliances(proxies []*fault.Proxy, interval, others string) string {
	var list strings.Builder
	sweeps, more := "", ""
	if s.followUps {
		sweeps, more = report, followUpKeys
	}
	for i, sensor := range s.sensors {
		fmt.Fprintf(&list, `
  - name: %s
    url: http://%s
    api_key: %s
    rate_limit: 1000
    timeout: 1s
    retry: {initial: 10ms, max: 50ms}
    detections:
      start: beginning
      interval: %s
      overlap: 2s
      page_size: 100
      reconcile: {every: 3s, back: 1h%s}
    audit: {start: beginning, interval: %[4]s, page_size: 40}%[6]s
    records:
      - {name: all, start: beginning, interval: %[4]s, window: 2s, delay: 100ms, recheck: 3s, page_size: 50, max_window_records: 300}`,
			sensor.name, proxies[i].Addr(), standin.DefaultAPIKey, interval, sweeps, more)
		interval = others
		if i == 0 && s.followUps {
			more = singleKeys + followUpKeys
		}
	}
	return list.String()
}
