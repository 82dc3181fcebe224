package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// installation is an appliance, a configuration, and perhaps a bridge that runs
// with it.
type installation struct {
	t         *testing.T
	appliance *standin.Appliance
	config    string // the path of the file
	events    string // what the file sink writes
	admin     string // where the admin API listens
}

// install makes an appliance and a configuration with a file sink log, and others
// where they are given.
func install(t *testing.T, sinks ...string) *installation {
	t.Helper()
	folder := t.TempDir()
	i := &installation{
		t: t, appliance: standin.New(standin.Options{Seed: 1}),
		config: filepath.Join(folder, "ndrbridge.yaml"), events: filepath.Join(folder, "events.jsonl"),
	}
	server := httptest.NewServer(i.appliance)
	t.Cleanup(server.Close)
	// A port that is free now; the admin API has to be found by the configuration.
	i.admin = loopback.Free(t)
	text := fmt.Sprintf(`
state: %s
admin: {listen: %q, token: s3cret-token}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: 20ms}
    audit: {start: beginning, interval: 20ms}
    records: [{name: all, start: -1h, interval: 20ms, delay: 100ms}]
sinks:
  - {name: log, file: {path: %q}, start: beginning, batch: {linger: 1ms}}
  %s
`, filepath.Join(folder, "state.db"), i.admin, server.URL, standin.DefaultAPIKey, i.events, strings.Join(sinks, "\n  "))
	require.NoError(t, os.WriteFile(i.config, []byte(text), 0o600))
	return i
}

// takeCommands lets the installation accept commands, on rules too if rules is true.
func (i *installation) takeCommands(rules bool) {
	i.t.Helper()
	text := string(require.Value(os.ReadFile(i.config))(i.t)) + "tickets: {enabled: true}\n"
	if rules {
		text = strings.Replace(text, "rate_limit:", "rules: {enabled: true, interval: 20ms, write: true, max_expiration: 3d}\n    rate_limit:", 1)
	}
	require.NoError(i.t, os.WriteFile(i.config, []byte(text), 0o600))
}

// start runs a bridge until stop is called.
func (i *installation) start() (stop func()) {
	i.t.Helper()
	load := func() (*configs.Config, error) { return configs.Load(configs.Source{Paths: []string{i.config}}) }
	config, err := load()
	require.NoError(i.t, err)
	b, err := bridge.New(i.t.Context(), config, bridge.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Load: load})
	require.NoError(i.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			i.t.Error(err)
		}
	})
	i.t.Cleanup(stop)
	return stop
}

// run runs a command and returns what it printed.
func (i *installation) run(exit int, args ...string) (stdout, stderr string) {
	i.t.Helper()
	got, out, errs := new(command).try(i.t, "", args...)
	if got != exit {
		i.t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, exit, out, errs)
	}
	if strings.Contains(out+errs, "s3cret") {
		i.t.Errorf("%v prints a secret:\n%s%s", args, out, errs)
	}
	return out, errs
}

// await waits until the file holds so many events of a source.
func (i *installation) await(source string, events int) {
	i.t.Helper()
	var n int
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(i.events) // it may not be there yet
		if n = strings.Count(string(b), `"source":"ndrbridge://hq/`+source+`"`); n >= events {
			return
		}
	}
	i.t.Fatalf("%d events of %s arrived, want %d", n, source, events)
}

func TestStreamsAreRewoundAndVerified(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.appliance.AddBacklog(20, time.Hour)
	i.appliance.AddAudit(10)
	i.appliance.AddRecordsAt(30, time.Now().Add(-10*time.Minute).UnixMicro())

	_, text := i.run(1, "rewind", "hq", "detections", "--to", "-1d", "--yes", "--config", i.config)
	assert.Contains(t, text, "there is no state at ", "before the first run")
	stop := i.start()
	i.await("detections", 20)
	i.await("audit", 10)
	i.await("records/all", 30)

	t.Run("through a bridge that runs", func(t *testing.T) {
		i.run(0, "rewind", "hq", "detections", "--to", "-2h", "--yes", "--config", i.config)
		i.await("detections", 40)
		i.run(0, append([]string{"rewind", "hq", "audit", "--to", "beginning", "--yes"}, i.byAddress()...)...)
		i.await("audit", 20)
		i.run(0, append([]string{"rewind", "hq", "records/all", "--to", "-2h", "--yes"}, i.byAddress()...)...)
		i.await("records/all", 60)
		out, _ := i.run(0, "verify", "hq", "--since", "-2h", "--config", i.config)
		for _, want := range []string{"detections since", "20 compared, 20 identical", "audit since", "10 compared, 10 identical", "records/all since", "30 compared, 30 identical", "no difference"} {
			assert.Contains(t, out, want)
		}
	})
	t.Run("errors are reported", func(t *testing.T) {
		address := i.byAddress()
		for _, c := range []struct {
			exit int
			want string
			args []string
		}{
			{1, `unknown appliance "branch": the configuration has hq`, append([]string{"rewind", "branch", "detections", "--to", "-1h", "--yes"}, address...)},
			{1, `unknown stream "dns": appliance hq has detections, audit, records/all`, append([]string{"rewind", "hq", "dns", "--to", "-1h", "--yes"}, address...)},
			{1, "unknown appliance", append([]string{"verify", "branch", "--since", "-1h"}, address...)},
			{2, "--to is missing", []string{"rewind", "hq", "detections"}},
			{2, "Read hq/detections again from 1970-01-01T00:00:07Z on", []string{"rewind", "hq", "detections", "--to", "1970-01-01T00:00:07Z"}},
			{2, `"now" is not a time in the past`, []string{"rewind", "hq", "detections", "--to", "now"}},
			{2, "requires APPLIANCE STREAM", []string{"rewind", "hq", "--to", "-1h"}},
			{1, "requires a token: give a file that contains it with --token-file", []string{"rewind", "hq", "detections", "--to", "-1h", "--yes", "--admin", "http://" + i.admin}},
			{2, "must be a URL", []string{"verify", "hq", "--since", "-1h", "--admin", i.admin}},
		} {
			if _, text := i.run(c.exit, append(c.args, "--config", i.config)...); !strings.Contains(text, c.want) {
				t.Errorf("%v: %s\nwant %s", c.args, text, c.want)
			}
		}
	})
	stop()
	t.Run("on the state of one that does not", func(t *testing.T) {
		i.appliance.Hide(i.appliance.History()[3].ID)
		late := i.appliance.AddLate(30 * time.Minute)
		news := i.appliance.AddMany(1)[0]
		out, text := i.run(1, "verify", "hq", "--since", "-2h", "--config", i.config)
		for _, want := range []string{
			fmt.Sprintf("missing   detections %d", late.ID), fmt.Sprintf("pending   detections %d", news.ID), "19 identical",
		} {
			assert.Contains(t, out, want)
		}
		assert.Contains(t, text, "1 object missing from the journal", "verify ends with")
		out, _ = i.run(1, "verify", "hq", "--since", "-2h", "--json", "--config", i.config)
		if !strings.Contains(out, fmt.Sprintf(`{"difference":{"kind":"missing","stream":"detections","id":"%d"`, late.ID)) {
			t.Errorf("verify --json prints\n%s", out)
		}
		i.run(0, "rewind", "hq", "detections", "--to", "-2h", "--yes", "--config", i.config)
		i.start()
		i.await("detections", 40+21)
	})
}
