package bridge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// lines is a log that can be read while it is written.
type lines struct{ locked.Buffer }

// hasLine reports whether a line contains all of the words.
func (l *lines) hasLine(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// running is a bridge that a test runs.
type running struct {
	*bridge.Bridge
	log  *lines
	stop func()
	yaml atomic.Pointer[string] // the configuration that a reload loads
}

// run runs a bridge with a configuration until the test ends, or stop is called.
func run(t *testing.T, yaml string, change ...func(*bridge.Options)) *running {
	t.Helper()
	r := &running{log: new(lines)}
	r.yaml.Store(&yaml)
	b, err := newBridge(t, yaml, r.log, func() (*configs.Config, error) {
		return configs.Parse("ndrbridge.yaml", []byte(*r.yaml.Load()), nil)
	}, change...)
	require.NoError(t, err)
	r.Bridge = b
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	t.Cleanup(r.stop)
	return r
}

func newBridge(t *testing.T, yaml string, log io.Writer, load func() (*configs.Config, error), change ...func(*bridge.Options)) (*bridge.Bridge, error) {
	t.Helper()
	config, err := configs.Parse("ndrbridge.yaml", []byte(yaml), nil)
	if err != nil {
		return nil, err
	}
	o := bridge.Options{Version: "test", Log: bridge.NewLog(log, config.Log), Stdout: io.Discard, Load: load}
	for _, change := range change {
		change(&o)
	}
	return bridge.New(t.Context(), config, o)
}

// control is the admin API's client.
func (r *running) control(t *testing.T) *admin.Client {
	t.Helper()
	return clientOf(t, r.Bridge)
}

func clientOf(t *testing.T, b *bridge.Bridge) *admin.Client {
	t.Helper()
	client := require.Value(admin.NewClient("http://"+b.AdminAddress(), ""))(t)
	return client
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "gave up waiting", what)
	}
}

// startAppliance serves a stand-in with n detections.
func startAppliance(t *testing.T, n int) (*standin.Appliance, string) {
	t.Helper()
	a := standin.New(standin.Options{Seed: 1})
	a.AddBacklog(n, time.Hour)
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, s.URL
}

func configuration(t *testing.T, appliance, sinks string) string {
	t.Helper()
	return fmt.Sprintf(`
state: %s
admin: {listen: "127.0.0.1:0"}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    retry: {initial: 10ms, max: 50ms}
    detections: {start: beginning, interval: 20ms, page_size: 200}
sinks:
%s`, filepath.Join(t.TempDir(), "state.db"), appliance, standin.DefaultAPIKey, sinks)
}

func webhookSink(name, url string) string {
	return fmt.Sprintf("  - {name: %s, webhook: {url: %q}, batch: {max_events: 50, linger: 0}, retry: {initial: 10ms, max: 50ms}}\n", name, url)
}

func history(a *standin.Appliance) []ledger.Version {
	var all []ledger.Version
	for _, v := range a.History() {
		all = append(all, ledger.Version{ID: v.ID, ModTime: v.ModTime, Object: string(v.JSON)})
	}
	return all
}

func TestASinkThatIsDownOrSlowDelaysNoOther(t *testing.T) {
	t.Parallel()
	const backlog = 600
	a, url := startAppliance(t, backlog)
	fast, slow, down := startInbox(t), startInbox(t), startInbox(t)
	slow.Delay(2 * time.Millisecond)
	down.Answer(http.StatusServiceUnavailable)
	r := run(t, configuration(t, url, webhookSink("fast", fast.URL)+webhookSink("slow", slow.URL)+webhookSink("down", down.URL)))

	await(t, "everything at the fast sink", func() bool { return fast.count("") == backlog })
	if down.count("") > 0 || slow.count("") == backlog {
		t.Errorf("the fast sink had everything when the slow one had %d events and the one that is down %d", slow.count(""), down.count(""))
	}
	down.Answer(0)
	await(t, "the rest at the sink that is back", func() bool { return down.count("") == backlog })
	await(t, "the rest at the slow sink", func() bool { return slow.count("") == backlog })
	r.stop()
	for _, sink := range []*inbox{fast, slow, down} {
		sink.judge(t, a)
	}
}

func TestABridgeThatStopsCleanlyRepeatsNothing(t *testing.T) {
	a, url := startAppliance(t, 300)
	soc := startInbox(t)
	soc.Delay(time.Millisecond)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	for i := range 4 {
		r := run(t, yaml)
		await(t, "some events", func() bool { return soc.count("") >= (i+1)*60 })
		r.stop()
	}
	r := run(t, yaml)
	await(t, "all events", func() bool { return soc.count("") >= 300 })
	r.stop()
	soc.judge(t, a)
}

func TestAFullJournalPausesPollingAndLosesNothing(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 0)
	soc := startInbox(t)
	soc.Answer(http.StatusServiceUnavailable)
	yaml := "journal: {max_bytes: 16MiB}\n" + configuration(t, url, webhookSink("soc", soc.URL))
	r := run(t, strings.Replace(yaml, "page_size: 200", "page_size: 4", 1))
	const large = 20
	for range large {
		a.AddHuge(1 << 20)
	}
	await(t, "the journal to be full", func() bool {
		status, err := r.control(t).Status(t.Context())
		return err == nil && status.State.Journal.Full
	})
	soc.Answer(0)
	await(t, "everything", func() bool { return soc.count("") >= large })
	r.stop()
	soc.judge(t, a)
}

func TestTheBridgeIsReadyOnceEveryStreamWasRead(t *testing.T) {
	a, url := startAppliance(t, 10)
	a.SetHazards(standin.Hazards{ServerError: 1, ServerErrorStatus: http.StatusInternalServerError})
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	// An event about an unreachable appliance would be counted below.
	r := run(t, strings.Replace(yaml, "rate_limit: 1000", "rate_limit: 1000\n    unreachable_after: 1000000", 1))
	status, body := get(t, "http://"+r.AdminAddress()+"/readyz")
	assert.True(t, status == http.StatusServiceUnavailable && strings.Contains(body, "hq/detections"), status, body)
	await(t, "a failed poll of detections", func() bool { return r.log.hasLine("stream=detections", "500") })
	a.SetHazards(standin.Hazards{})
	await(t, "readiness", func() bool {
		status, _ := get(t, "http://"+r.AdminAddress()+"/readyz")
		return status == http.StatusOK
	})
	await(t, "events", func() bool { return soc.count("") == 10 })
	missing := ""
	defer func() {
		if t.Failed() {
			t.Log("missing:", missing)
		}
	}()
	await(t, "the metrics of what happened", func() bool {
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		for _, want := range []string{
			`ndrbridge_source_events_total{appliance="hq",stream="detections"} 10`,
			`ndrbridge_sink_events_total{result="delivered",sink="soc"} 10`,
			`ndrbridge_sink_lag_events{sink="soc"} 0`,
			`ndrbridge_sink_lag_bytes{sink="soc"} 0`,
			`ndrbridge_dead_letters{sink="soc"} 0`,
			`ndrbridge_sink_retries_total{class="halted",sink="soc"} 0`,
			`ndrbridge_source_gaps_total{appliance="hq",stream="audit"} 0`,
			`ndrbridge_journal_events 10`,
			`ndrbridge_source_lag_seconds{appliance="hq",stream="detections"} 0`,
			`ndrbridge_source_polls_total{appliance="hq",class="failed",stream="detections"}`,
			`ndrbridge_source_requests_total{appliance="hq",code="200"}`,
			`ndrbridge_delivery_seconds_count{sink="soc"} 10`,
		} {
			if missing = want; !strings.Contains(metrics, want) {
				return false
			}
		}
		return true
	})
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	problems := require.Value(promlint.New(strings.NewReader(metrics)).Lint())(t)
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	body := require.Value(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(body)
}

func TestErrorsThatTheLogExplains(t *testing.T) {
	cluster := require.Value(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	_, good := startAppliance(t, 1)
	old := httptest.NewServer(standin.New(standin.Options{Firmware: "9.2.7.1"}))
	t.Cleanup(old.Close)

	discard := "  - {name: log, file: {path: \"-\"}}\n"
	for _, c := range []struct {
		name, yaml string
		says       []string
	}{
		{
			"a wrong key",
			strings.Replace(configuration(t, good, discard), standin.DefaultAPIKey, "wrong-key", 1),
			[]string{"401", "check the API key"},
		},
		{
			"firmware that is too old",
			configuration(t, old.URL, discard),
			[]string{"9.2.7.1", "upgrade the appliance to 9.3"},
		},
		{
			"no such topic",
			configuration(t, good, fmt.Sprintf("  - {name: lake, kafka: {brokers: [%q], topic: nothing}}\n", cluster.ListenAddrs()[0])),
			[]string{"halted", "nothing", "create"},
		},
		{
			"nobody listens at the NATS server's address",
			configuration(t, good, fmt.Sprintf("  - {name: bus, nats: {url: \"nats://%s\", stream: NDR}}\n", loopback.Closed(t))),
			[]string{"refuses connections", "next_attempt"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, c.yaml)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the log, which should have %q:\n%s", c.says, r.log)
				}
			})
			await(t, "the log to say it", func() bool {
				text := r.log.String()
				return !slices.ContainsFunc(c.says, func(word string) bool { return !strings.Contains(text, word) })
			})
			assert.NotContains(t, r.log.String(), "wrong-key", "the log holds the key", r.log)
		})
	}
}

func TestABrokerThatIsDownAtTheStartGetsItsEventsLater(t *testing.T) {
	_, url := startAppliance(t, 50)
	port := loopback.FreePorts(t, 1)[0]
	address := fmt.Sprintf("127.0.0.1:%d", port)
	r := run(t, configuration(t, url, fmt.Sprintf("  - {name: lake, kafka: {brokers: [%q]}, retry: {initial: 10ms, max: 50ms}}\n", address)))
	await(t, "the sink to try", func() bool { return strings.Contains(r.log.String(), "sink is retrying") })

	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(1, "ndr.detections"))
	require.NoError(t, err)
	defer cluster.Close()
	await(t, "the events", func() bool {
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		return strings.Contains(metrics, `ndrbridge_sink_events_total{result="delivered",sink="lake"} 50`)
	})
	r.stop()
}

func TestTwoBridgesDoNotShareAState(t *testing.T) {
	yaml := configuration(t, "http://"+loopback.Closed(t), "  - {name: log, file: {path: \"-\"}}\n")
	run(t, yaml)
	b, err := newBridge(t, yaml, io.Discard, nil)
	if err == nil {
		t.Fatal("a second one started", b.Close())
	}
	path := statePath(t, yaml)
	assert.True(t, strings.Contains(err.Error(), "another ndrbridge") && strings.Contains(err.Error(), path), err)
}

func statePath(t *testing.T, yaml string) string {
	t.Helper()
	for line := range strings.Lines(yaml) {
		if path, ok := strings.CutPrefix(line, "state: "); ok {
			return strings.TrimSpace(path)
		}
	}
	t.Fatal("no state")
	return ""
}
