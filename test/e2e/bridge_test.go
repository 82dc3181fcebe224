//go:build e2e

// Package e2e tests the bridge's program and its sinks with real brokers and OpenSearch:
// those that the environment names, or ones that the tests start on free loopback ports. The
// build tag e2e excludes it from go test ./... because it needs more than Go. make e2e runs
// it. It needs Linux.
package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// buildBridge builds the bridge's program.
func buildBridge(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ndrbridge")
	text, err := exec.Command("go", "build", "-o", program, "ndrbridge/cmd/ndrbridge").CombinedOutput()
	require.NoError(t, err, "build the bridge", string(text))
	return program
}

// startAppliance starts a stand-in appliance without objects.
func startAppliance(t testing.TB) (a *appliance.Appliance, url string) {
	t.Helper()
	a = appliance.New(appliance.Options{Seed: 1})
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

// bridge is a running bridge with one sink.
type bridge struct {
	*process
	admin string // the admin interface's URL
}

// startBridge runs the program and waits until it is ready. It has one sink, whose keys are
// the lines of sink, such as kafka: {…}. Its retries and probes are short.
func startBridge(t testing.TB, program, applianceURL, sink string) *bridge {
	t.Helper()
	return runBridge(t, program, writeConfig(t, applianceURL, 50*time.Millisecond, `
sinks:
  - name: sink
    start: beginning
    retry: {initial: 50ms, max: 500ms}
    probe: 500ms
    `+strings.ReplaceAll(strings.TrimSpace(sink), "\n", "\n    ")))
}

// writeConfig writes a configuration with a state of its own. Its bridge reads only an
// appliance's detections, from the beginning and at an interval; rest is appended.
func writeConfig(t testing.TB, applianceURL string, interval time.Duration, rest string) (path string) {
	t.Helper()
	folder := t.TempDir()
	path = filepath.Join(folder, "ndrbridge.yaml")
	text := fmt.Sprintf(`
state: %q
log: {format: json}
admin: {listen: "127.0.0.1:0"}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: %s}
    audit: {enabled: false}
%s
`, filepath.Join(folder, "state.db"), applianceURL, appliance.DefaultAPIKey, interval, strings.TrimSpace(rest))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// runBridge runs the program with a configuration and waits until it is ready.
func runBridge(t testing.TB, program, config string) *bridge {
	t.Helper()
	b := &bridge{process: start(t, exec.Command(program, "run", "--config", config))}
	eventually(t, 30*time.Second, func() error {
		if !b.running() {
			t.Fatalf("the bridge ended at once\n%s", b.output.end())
		}
		for line := range strings.Lines(b.output.String()) {
			var entry struct{ Msg, Admin string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "running" {
				b.admin = entry.Admin
				return nil
			}
		}
		return fmt.Errorf("the bridge is not running yet\n%s", b.output.end())
	})
	return b
}

// status returns the status of a bridge with one sink.
func (b *bridge) status() (admin.Status, error) { return b.statusOf(1) }

// statusOf returns the status of a bridge with a number of sinks.
func (b *bridge) statusOf(sinks int) (status admin.Status, err error) {
	answer, err := http.Get(b.admin + "/api/v1/status")
	if err != nil {
		return status, fmt.Errorf("%w\n%s", err, b.output.end())
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return status, err
	}
	if len(status.Sinks) != sinks {
		return status, fmt.Errorf("the bridge has %d sinks", len(status.Sinks))
	}
	return status, nil
}

// intake returns the status of the bridge's only ticket intake.
func (b *bridge) intake() (admin.IntakeStatus, error) {
	status, err := b.status()
	if err != nil {
		return admin.IntakeStatus{}, err
	}
	if len(status.Intakes) != 1 {
		return admin.IntakeStatus{}, fmt.Errorf("the bridge has %d intakes", len(status.Intakes))
	}
	return status.Intakes[0], nil
}

// sink returns the status of the bridge's only sink.
func (b *bridge) sink() (admin.SinkStatus, error) {
	status, err := b.status()
	if err != nil {
		return admin.SinkStatus{}, err
	}
	return status.Sinks[0], nil
}

// awaitState waits until the sink has a state such as halted.
func (b *bridge) awaitState(t testing.TB, state string) admin.SinkStatus {
	t.Helper()
	var now admin.SinkStatus
	eventually(t, time.Minute, func() (err error) {
		if now, err = b.sink(); err == nil && now.State != state {
			err = fmt.Errorf("the sink is %s, not %s: %s", now.State, state, now.Error)
		}
		return err
	})
	return now
}

// awaitDrained waits until the bridge has read all detections of the appliance and its sink
// has completed them: some polls found nothing new, and the lag is 0.
func (b *bridge) awaitDrained(t testing.TB, a *appliance.Appliance) {
	t.Helper()
	const poll, enough = "POST /detections/search", 5
	var journalled uint64
	since := a.Requests()[poll]
	eventually(t, 2*time.Minute, func() error {
		polls := a.Requests()[poll]
		status, err := b.status()
		if err != nil {
			return err
		}
		now, events := status.Sinks[0], status.State.Journal.Events
		switch {
		case now.LagEvents > 0 || events != journalled:
			journalled, since = events, polls
			return fmt.Errorf("the sink is %s, with %d events of %d to go: %s", now.State, now.LagEvents, events, now.Error)
		case polls < since+enough:
			return errors.New("the bridge polls no more")
		}
		return nil
	})
}

// awaitMore waits until the sink has delivered a number of further events.
func (b *bridge) awaitMore(t testing.TB, n int) {
	t.Helper()
	before, err := b.delivered()
	require.NoError(t, err)
	eventually(t, time.Minute, func() error {
		now, err := b.delivered()
		if err == nil && now < before+n {
			err = fmt.Errorf("%d events delivered, before %d\n%s", now, before, b.output.end())
		}
		return err
	})
}

// delivered counts the events that the sink has delivered since the bridge was
// started.
func (b *bridge) delivered() (n int, err error) {
	answer, err := http.Get(b.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, `ndrbridge_sink_events_total{result="delivered",sink="sink"} `); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
			return int(f), err
		}
	}
	return 0, nil // none yet
}

// judge compares the received events, in order and in structured mode, with all versions of
// an appliance's detections, and reports differences as errors of the test. It returns the
// number of repeated events.
func judge(t testing.TB, shown []ledger.Version, arrived [][]byte) (repeated int) {
	t.Helper()
	const sink = "sink"
	book := ledger.New()
	for _, body := range arrived {
		e, err := transform.Parse(body)
		require.NoError(t, err, string(body))
		book.Receive(sink, e)
	}
	for _, fault := range book.Judge(sink, shown).Faults {
		t.Error(fault)
	}
	return book.Repeated(sink)
}
