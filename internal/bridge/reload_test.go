package bridge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// reload has the bridge load another configuration.
func (r *running) reload(t *testing.T, yaml string) []string {
	t.Helper()
	r.yaml.Store(&yaml)
	changed := require.Value(r.Reload(t.Context(), admin.TriggerSignal))(t)
	return changed.Changes
}

func TestAReloadThatFailsChangesNothing(t *testing.T) {
	a, url := startAppliance(t, 10)
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	r := run(t, yaml)
	await(t, "the backlog", func() bool { return soc.count("") == 10 })
	folder := t.TempDir()
	notPEM := filepath.Join(folder, "not.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("no certificate"), 0o600))
	certFile, keyFile := writePair(t, folder, certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil))
	other := webhookSink("other", soc.URL)
	for _, c := range []struct{ name, yaml, want string }{
		{"an unknown key", yaml + other + "colour: red\n", "colour"},
		{"no appliance", "sinks:\n" + other, "appliances"},
		{"a secret that cannot be read", yaml + strings.Replace(other, "webhook: {", "webhook: {auth: {bearer_file: "+folder+"/none}, ", 1), "none"},
		{"a certificate that is not PEM", strings.Replace(yaml, "rate_limit: 1000", "rate_limit: 1000\n    tls: {ca_file: "+notPEM+"}", 1) + other, "no PEM certificate"},
		{"a sink that cannot be made", yaml + strings.Replace(other, "webhook: {", "webhook: {headers: {X-Large: "+strings.Repeat("x", 9<<10)+"}, ", 1), "sink other: "},
		{"another state", strings.Replace(yaml, "state.db", "other.db", 1) + other, "state cannot change while the bridge runs"},
		{"another address", strings.Replace(yaml, `"127.0.0.1:0"`, `"127.0.0.1:1"`, 1) + other, "admin.listen cannot change"},
		{"another token for reading", strings.Replace(yaml, `"127.0.0.1:0"`, `"127.0.0.1:0", token: a, read_token: b`, 1) + other, "admin.token, admin.read_token cannot change"},
		{"HTTPS", strings.Replace(yaml, `"127.0.0.1:0"`, `"127.0.0.1:0", tls: {cert_file: `+certFile+`, key_file: `+keyFile+`}`, 1) + other, "admin.tls cannot change"},
		{"a cluster", "cluster: {name: c, nats: {url: 'nats://127.0.0.1:4222'}}\n" + yaml + other, "cluster cannot change"},
		{"another form of log", "log: {format: json}\n" + yaml + other, "log.format cannot change"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.yaml.Store(&c.yaml)
			_, err := r.Reload(t.Context(), admin.TriggerSignal)
			assert.ErrorContains(t, err, c.want)
			status, err := r.control(t).Status(t.Context())
			assert.True(t, err == nil && len(status.Sinks) == 1 && len(status.Unconfigured) == 0, status, err)
		})
	}
	a.AddMany(5)
	await(t, "the new events", func() bool { return soc.count("") == 15 })
	soc.refuseDuplicates(t)
	assert.Empty(t, r.reload(t, yaml), "the same configuration changes")
}

func TestAReloadChangesWhatDiffersAndNothingElse(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 200)
	soc, log, extra := startInbox(t), startInbox(t), startInbox(t)
	first := webhookSink("soc", soc.URL)
	yaml := configuration(t, url, first+webhookSink("log", log.URL))
	r := run(t, yaml)
	all := 200
	for _, c := range []struct {
		name string
		yaml func(string) string
		want []string
	}{
		{"a sink changes", func(yaml string) string {
			return strings.Replace(yaml, first, strings.Replace(first, "max_events: 50", "max_events: 7", 1), 1)
		}, []string{"sink soc: changed"}},
		{"a sink comes", func(yaml string) string { return yaml + webhookSink("extra", extra.URL) }, []string{"sink extra: added"}},
		{"a sink gets another name", func(yaml string) string { return strings.Replace(yaml, "name: extra", "name: more", 1) },
			[]string{"sink more: added", "sink extra: removed"}},
		{"a sink goes", func(yaml string) string { return strings.Replace(yaml, webhookSink("more", extra.URL), "", 1) }, []string{"sink more: removed"}},
		{"an appliance changes", func(yaml string) string { return strings.Replace(yaml, "page_size: 200", "page_size: 50", 1) },
			[]string{"appliance hq: changed"}},
		{"what all share changes", func(yaml string) string {
			return "log: {level: debug}\njournal: {max_bytes: 32MiB}\ndead_letters: {max_bytes: 1MiB}\nevents: {heartbeat: 1h}\n" + yaml
		}, []string{"log.level: changed", "journal: changed", "dead_letters: changed", "events.heartbeat: changed"}},
	} {
		yaml = c.yaml(yaml)
		assert.EqualSlices(t, r.reload(t, yaml), c.want, c.name, "changed")
		a.AddMany(20)
		all += 20
	}
	for name, sink := range map[string]*inbox{"soc": soc, "log": log} {
		await(t, "everything at "+name, func() bool {
			return sink.count("io.ndrbridge.detection.created")+sink.count("io.ndrbridge.detection.updated") == all
		})
		sink.refuseDuplicates(t)
	}
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	assert.Contains(t, metrics, "ndrbridge_journal_max_bytes 3.3554432e+07", "the journal does not have its new limit")
	for _, sink := range []string{"extra", "more"} {
		assert.NotContains(t, metrics, fmt.Sprintf(`ndrbridge_sink_state{sink=%q}`, sink), "there are still metrics of the removed", sink)
	}
	assert.Contains(t, r.log.String(), "ndrbridge state forget NAME", "the log does not say what to do about the removed sinks")
	a.SetHazards(standin.Hazards{ServerError: 1})
	await(t, "a log line of the new level", func() bool { return strings.Contains(r.log.String(), "level=DEBUG") })
}

func TestAReloadAddsAndRemovesAppliances(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 10)
	_, branch := startAppliance(t, 10)
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	r := run(t, yaml)
	both := strings.Replace(yaml, "appliances:\n", fmt.Sprintf("appliances:\n  - {name: branch, url: %q, api_key: k3y, rate_limit: 1000, detections: {start: beginning, interval: 20ms}}\n", branch), 1)
	both = strings.Replace(both, "k3y", standin.DefaultAPIKey, 1)
	assert.EqualSlices(t, r.reload(t, both), []string{"appliance branch: added"}, "changed")
	await(t, "what both have", func() bool { return soc.count("") == 20 })
	assert.EqualSlices(t, r.reload(t, yaml), []string{"appliance branch: removed"}, "changed")
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	for _, name := range []string{"ndrbridge_appliance_up", "ndrbridge_appliance_clock_skew_seconds"} {
		assert.Contains(t, metrics, name+`{appliance="hq"}`, "there is no", name, "of the appliance that stays")
	}
	assert.NotContains(t, metrics, `appliance="branch"`, "there are still metrics of the removed appliance")
	// It continues at its positions.
	r.reload(t, both)
	await(t, "the appliance to be read again", func() bool {
		status, _ := get(t, "http://"+r.AdminAddress()+"/readyz")
		return status == 200
	})
	soc.refuseDuplicates(t)
}

func TestAChangedSecretFileCountsAsAChange(t *testing.T) {
	_, url := startAppliance(t, 1)
	soc := startInbox(t)
	secret := filepath.Join(t.TempDir(), "bearer")
	write := func(text string) {
		require.NoError(t, os.WriteFile(secret, []byte(text), 0o600))
	}
	write("one")
	yaml := configuration(t, url, strings.Replace(webhookSink("soc", soc.URL), "webhook: {", "webhook: {auth: {bearer_file: "+secret+"}, ", 1))
	r := run(t, yaml)
	assert.Empty(t, r.reload(t, yaml), "changed")
	write("two")
	assert.EqualSlices(t, r.reload(t, yaml), []string{"sink soc: changed"}, "changed")
}

func TestReloadsAreSequential(t *testing.T) {
	a, url := startAppliance(t, 100)
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	var loads, under atomic.Int64
	r := run(t, yaml, func(o *bridge.Options) {
		o.Load = func() (*configs.Config, error) {
			assert.True(t, under.Add(1) <= 1, "two reloads run at once")
			defer under.Add(-1)
			text := yaml
			if loads.Add(1)%2 > 0 {
				text = strings.Replace(yaml, "max_events: 50", "max_events: 5", 1)
			}
			return configs.Parse("ndrbridge.yaml", []byte(text), nil)
		}
	})
	const reloads = 10
	results := make(chan error, reloads)
	for range reloads {
		go func() {
			_, err := r.Reload(context.Background(), admin.TriggerSignal)
			results <- err
		}()
	}
	for range reloads {
		assert.NoError(t, <-results)
	}
	a.AddMany(10)
	await(t, "everything", func() bool { return soc.count("") == 110 })
	soc.refuseDuplicates(t)
	r.stop()
	_, err := r.Reload(context.Background(), admin.TriggerSignal)
	assert.ErrorIs(t, err, admin.ErrNotRunning, "a bridge that has stopped reloads")
}

func TestABridgeAnswersWhileAReloadWaitsForABatchInFlight(t *testing.T) {
	_, url := startAppliance(t, 1)
	sending, goOn := make(chan struct{}, 1), make(chan struct{})
	var requests atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		sending <- struct{}{}
		<-goOn
	}))
	t.Cleanup(slow.Close)
	yaml := configuration(t, url, webhookSink("soc", slow.URL))
	r := run(t, yaml)
	<-sending
	changed := strings.Replace(yaml, "max_events: 50", "max_events: 5", 1)
	r.yaml.Store(&changed)
	reloaded := make(chan error, 1)
	go func() {
		_, err := r.Reload(context.Background(), admin.TriggerSignal)
		reloaded <- err
	}()
	status, body := get(t, "http://"+r.AdminAddress()+"/readyz")
	assert.True(t, status == http.StatusOK || strings.Contains(body, "not been read yet"), status, body)
	s := sinkStatus(t, r.control(t), "soc")
	assert.Equal(t, s.LagEvents, 1, s)
	close(goOn)
	assert.NoError(t, <-reloaded)
	await(t, "the cursor", func() bool { return sinkStatus(t, r.control(t), "soc").LagEvents == 0 })
	assert.Equal(t, requests.Load(), 1, "requests with the event")
}
