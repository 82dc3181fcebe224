package bridge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// generously is far longer than any stop in these tests may take: half a second and
// the second on top. They must not fail on a busy machine.
const generously = 30 * time.Second

// stuck is an output that blocks until the test ends, like a pipe that nobody reads.
type stuck struct{ writing, free chan struct{} }

func newStuck(t *testing.T) *stuck {
	s := &stuck{make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(s.free) })
	return s
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.writing <- struct{}{}:
	case <-s.free:
	}
	<-s.free
	return len(p), nil
}

// ends cancels ctx and returns the error of Run, which must come.
func ends(t *testing.T, cancel func(), result <-chan error) error {
	t.Helper()
	cancel()
	select {
	case err := <-result:
		return err
	case <-time.After(generously):
		t.Fatal("Run did not return")
		return nil
	}
}

// begin makes and runs a bridge. end stops it and returns the error of Run, which must
// come.
func begin(t *testing.T, config *configs.Config, o bridge.Options) (b *bridge.Bridge, end func() error) {
	t.Helper()
	o.Version, o.Log = "test", bridge.NewLog(new(lines), config.Log)
	b = require.Value(bridge.New(t.Context(), config, o))(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- b.Run(ctx) }()
	return b, func() error {
		t.Helper()
		return ends(t, cancel, result)
	}
}

func parse(t *testing.T, yaml string) *configs.Config {
	t.Helper()
	config := require.Value(configs.Parse("ndrbridge.yaml", []byte(yaml), nil))(t)
	return config
}

func TestAStopEndsWhateverAPeerDoes(t *testing.T) {
	t.Parallel()
	tickets := func(source string) string { return "tickets: {enabled: true" + source + "}\n" }
	sasl := "sasl: {mechanism: plain, username: u, password: secret}"
	for _, c := range []struct {
		name string
		// yaml is added to a configuration with a file on standard output.
		yaml func(peer string) string
	}{
		{"an appliance that never answers", func(peer string) string {
			return tickets("") + "appliances:\n  - {name: mute, url: \"http://" + peer + "\", api_key: k3y}\n"
		}},
		{"a webhook that never answers", func(peer string) string { return "  - {name: hook, webhook: {url: \"http://" + peer + "\"}}\n" }},
		{"a Kafka broker that never answers", func(peer string) string {
			return "  - {name: lake, kafka: {brokers: [\"" + peer + "\"], topic: ndr, " + sasl + "}}\n"
		}},
		{"a NATS server that never answers", func(peer string) string {
			return "  - {name: bus, nats: {url: \"nats://" + peer + "\", stream: NDR}}\n"
		}},
		{"ticket commands from a Kafka broker that never answers", func(peer string) string {
			return tickets(", kafka: {brokers: [\"" + peer + "\"], topic: ndr, group: g, " + sasl + "}")
		}},
		{"ticket commands from a NATS server that never answers", func(peer string) string {
			return tickets(", nats: {url: \"nats://" + peer + "\", stream: NDR}")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, url := startAppliance(t, 10)
			_ = a
			yaml := configuration(t, url, "  - {name: log, file: {path: \"-\"}}\n")
			added := c.yaml(loopback.Silent(t))
			switch {
			case strings.HasPrefix(added, "  - "):
				yaml += added
			case strings.Contains(added, "appliances:\n"):
				before, after, _ := strings.Cut(added, "appliances:\n")
				yaml = strings.Replace(yaml, "appliances:\n", "appliances:\n"+after, 1) + before
			default:
				yaml += added
			}
			config := parse(t, "shutdown_timeout: 500ms\n"+yaml)
			b, end := begin(t, config, bridge.Options{Stdout: io.Discard})
			await(t, "the journal's end at the other sink", func() bool {
				status, err := clientOf(t, b).Status(t.Context())
				return err == nil && status.Sinks[0].Delivered >= 10
			})
			// What it does is irrelevant to the stop, except that it ends: a part that does
			// not end is named.
			err := end()
			assert.True(t, err == nil || strings.Contains(err.Error(), "did not stop"), err)
		})
	}
}

func TestAPartThatIgnoresTheStopIsAbandonedAndNamed(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 10)
	out := newStuck(t)
	soc := startInbox(t)
	config := parse(t, "shutdown_timeout: 2s\n"+configuration(t, url, "  - {name: pipe, file: {path: \"-\"}}\n"+webhookSink("soc", soc.URL)))
	_, end := begin(t, config, bridge.Options{Stdout: out})
	<-out.writing
	await(t, "all events at the other sink", func() bool { return soc.count("") >= 10 })
	err := end()
	assert.True(t, err != nil && strings.Contains(err.Error(), "sink pipe") && !strings.Contains(err.Error(), "soc"), err)
	again, err := bridge.New(t.Context(), config, bridge.Options{Version: "test", Log: bridge.NewLog(io.Discard, config.Log), Stdout: io.Discard})
	require.NoError(t, err, "the state cannot be opened again")
	assert.NoError(t, again.Close())
}

func TestAReloadThatHangsStopsNoOtherCommandAndNoStop(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 1)
	loading, free := make(chan struct{}), make(chan struct{})
	config := parse(t, "shutdown_timeout: 500ms\n"+configuration(t, url, "  - {name: log, file: {path: \"-\"}}\n"))
	b, end := begin(t, config, bridge.Options{
		Stdout: io.Discard,
		Load: func() (*configs.Config, error) { // a file on a share that is gone
			close(loading)
			<-free
			return config, nil
		},
	})
	reloaded := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := b.Reload(ctx, admin.TriggerSignal)
		reloaded <- err
	}()
	<-loading
	for _, command := range []admin.Action[admin.OfSink]{admin.API.PauseSink, admin.API.ResumeSink} {
		assert.NoError(t, command.Do(t.Context(), clientOf(t, b), admin.OfSink{Sink: "log"}))
	}
	assert.NoError(t, end())
	cancel()
	select {
	case err := <-reloaded:
		assert.Error(t, err, "a reload that was abandoned succeeded")
	case <-time.After(generously):
		t.Error("the caller of Reload still waits")
	}
	close(free)
}

func TestAReloadGivesUpOnASinkThatDoesNotStop(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 10)
	out := newStuck(t)
	soc := startInbox(t)
	yaml := "shutdown_timeout: 500ms\n" + configuration(t, url, "  - {name: pipe, file: {path: \"-\"}}\n"+webhookSink("soc", soc.URL))
	next := parse(t, strings.Replace(yaml, `{name: pipe, file: {path: "-"}}`, `{name: pipe, file: {path: "-"}, batch: {max_events: 7}}`, 1))
	config := parse(t, yaml)
	b, end := begin(t, config, bridge.Options{Stdout: out, Load: func() (*configs.Config, error) { return next, nil }})
	<-out.writing
	reloaded := make(chan []string, 1)
	go func() {
		r, err := b.Reload(t.Context(), admin.TriggerSignal)
		reloaded <- append(r.Changes, fmt.Sprint(err))
	}()
	select {
	case changes := <-reloaded:
		got := strings.Join(changes, "; ")
		assert.True(t, strings.Contains(got, "sink pipe: changed") && strings.Contains(got, "has not stopped"), got)
	case <-time.After(generously):
		t.Fatal("the reload does not end")
	}
	// Commands work, and the new one does not deliver beside the old one.
	assert.NoError(t, admin.API.PauseSink.Do(t.Context(), clientOf(t, b), admin.OfSink{Sink: "soc"}))
	select {
	case <-out.writing:
		t.Error("the new sink delivers beside the old one")
	case <-time.After(100 * time.Millisecond):
	}
	assert.ErrorContains(t, end(), "sink pipe")
}

func TestAStopDoesNotWaitForRequests(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 10)
	config := parse(t, "shutdown_timeout: 10s\n"+configuration(t, url, "  - {name: log, file: {path: \"-\"}}\n"))
	b, end := begin(t, config, bridge.Options{Stdout: io.Discard})
	for _, path := range []string{"/api/v1/events?last=10"} {
		answer := require.Value(http.Get("http://" + b.AdminAddress() + path))(t)
		defer answer.Body.Close()
	}
	body, write := io.Pipe() // which never ends
	defer write.Close()
	go func() {
		if answer, err := http.Post("http://"+b.AdminAddress()+"/api/v1/rewind", "application/json", body); err == nil {
			answer.Body.Close()
		}
	}()
	assert.NoError(t, end())
}

func TestAStartThatHangsEndsWithTheSignal(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 1)
	log := new(lines)
	yaml := "shutdown_timeout: 500ms\n" + configuration(t, url, "  - {name: first, file: {path: \"-\"}}\n")
	config := parse(t, yaml)
	b, err := bridge.New(t.Context(), config, bridge.Options{Version: "test", Log: bridge.NewLog(log, config.Log), Stdout: io.Discard})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	// The start has something to log, and nobody reads the log.
	out := newStuck(t)
	other := parse(t, strings.Replace(yaml, "first", "second", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := bridge.New(ctx, other, bridge.Options{Version: "test", Log: bridge.NewLog(out, config.Log), Stdout: io.Discard})
		result <- err
	}()
	<-out.writing
	assert.ErrorContains(t, ends(t, cancel, result), "start-up did not finish")
}
