//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/test/ledger"
)

// TestSyslog tests the syslog sink and the bridge that runs it with rsyslog and syslog-ng.
func TestSyslog(t *testing.T) {
	program := buildBridge(t)
	for _, server := range []string{"rsyslogd", "syslog-ng"} {
		for _, network := range []string{"tls", "tcp"} {
			t.Run(fmt.Sprintf("%s that is restarted three times over %s has every event", server, network), func(t *testing.T) {
				t.Parallel()
				restartedSyslog(t, program, server, network)
			})
		}
	}
}

func restartedSyslog(t *testing.T, program, server, network string) {
	const events, restarts = 20_000, 3
	a := newAuthority(t)
	cert, key, secured := "", "", ""
	if network == "tls" {
		cert, key, _ = a.issue(t, "syslog")
		secured = fmt.Sprintf(", tls: {ca_file: %q}", a.file())
	}
	s := startSyslog(t, server, cert, key)
	sensor, url := startAppliance(t)
	sensor.AddBacklog(events, time.Minute)
	// The rate makes the drain last long enough to be interrupted.
	b := startBridge(t, program, url, fmt.Sprintf("syslog: {address: %q, network: %s%s}\nbatch: {max_events: 200}\nrate_limit: 4000", s.address, network, secured))
	for range restarts {
		b.awaitMore(t, events/(restarts+2))
		s.running.terminate(t)
		s.start(t)
	}
	b.awaitDrained(t, sensor)
	b.noDeadLetters(t)
	b.terminate(t)
	repeated := judge(t, ledger.VersionsOf(sensor, 0), s.received(t))
	t.Logf("%d events, %d repeated", events, repeated)
}
