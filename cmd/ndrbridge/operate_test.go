package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

// receiver is a webhook target that can be switched to reject the audit log.
type receiver struct {
	url       string
	refusing  atomic.Bool
	refusal   string
	taken     atomic.Int64
	taken2nd  atomic.Int64 // of them, those that were redelivered
	forbidden atomic.Bool  // it answers everything with 403
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{refusal: "no\x1b[2J audit log here"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		switch {
		case err != nil || r.forbidden.Load():
			http.Error(w, "not you", http.StatusForbidden)
		case r.refusing.Load() && bytes.Contains(body, []byte(`"type":"io.ndrbridge.audit.logged"`)):
			http.Error(w, r.refusal, http.StatusUnprocessableEntity)
		default:
			r.taken.Add(1)
			if bytes.Contains(body, []byte(`"redelivered":true`)) {
				r.taken2nd.Add(1)
			}
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) sink() string {
	return fmt.Sprintf(`- {name: soc, webhook: {url: %q}, start: beginning, probe: 20ms, batch: {linger: 1ms}}`, r.url)
}

// startDelivered starts a bridge, and returns when the sink soc has completed this many detections
// and everything else.
func startDelivered(t *testing.T, detections int) (*receiver, *installation, func()) {
	t.Helper()
	r := receive(t)
	i := install(t, r.sink())
	i.appliance.AddMany(detections)
	stop := i.start()
	await(t, "all detections", func() bool { return r.taken.Load() == int64(detections) })
	i.awaitSink("one that has completed everything", func(s admin.SinkStatus) bool { return s.LagEvents == 0 })
	return r, i, stop
}

// byAddress are the flags that name a bridge that runs: a command need not find
// out that it does.
func (i *installation) byAddress() []string {
	i.t.Helper()
	token := filepath.Join(filepath.Dir(i.config), "token")
	require.NoError(i.t, os.WriteFile(token, []byte("s3cret-token\n"), 0o600))
	return []string{"--admin", "http://" + i.admin, "--token-file", token}
}

// awaitSink waits until a status of the sink soc is as wanted.
func (i *installation) awaitSink(what string, wanted func(admin.SinkStatus) bool) {
	i.t.Helper()
	i.awaitStatus("the sink is "+what, func(status admin.Status) bool {
		return slices.ContainsFunc(status.Sinks, func(s admin.SinkStatus) bool { return s.Name == "soc" && wanted(s) })
	})
}

// awaitStatus waits until a status is as wanted.
func (i *installation) awaitStatus(what string, wanted func(admin.Status) bool) {
	i.t.Helper()
	var last string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		last, _ = i.run(0, append([]string{"status", "--json"}, i.byAddress()...)...)
		var status admin.Status
		require.NoError(i.t, json.Unmarshal([]byte(last), &status))
		if wanted(status) {
			return
		}
	}
	i.t.Fatalf("timed out waiting until %s:\n%s", what, last)
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("timed out waiting for %s", what)
}

// expect runs commands in turn and looks for texts in what they print.
func (i *installation) expect(flags []string, commands []expected) {
	i.t.Helper()
	for _, c := range commands {
		out, errs := i.run(c.exit, append(c.args, flags...)...)
		for _, want := range c.want {
			if !strings.Contains(out+errs, want) {
				i.t.Errorf("%v lacks %q:\n%s%s", c.args, want, out, errs)
			}
		}
		if strings.Contains(out+errs, "\x1b") {
			i.t.Errorf("%v prints an escape character:\n%q", c.args, out+errs)
		}
	}
}

type expected struct {
	args []string
	exit int
	want []string
}

// keysOf are those of the dead letters of soc.
func (i *installation) keysOf(flags []string) (keys []string) {
	i.t.Helper()
	out, _ := i.run(0, append([]string{"dead", "list", "soc", "--json"}, flags...)...)
	for line := range strings.Lines(out) {
		var deadLetter struct {
			Key, Class, Reason string
			EventID            string `json:"event_id"`
			Body               struct{ Data json.RawMessage }
		}
		require.NoError(i.t, json.Unmarshal([]byte(line), &deadLetter))
		if deadLetter.Key == "" || deadLetter.Class != "rejected" || deadLetter.EventID == "" || deadLetter.Body.Data == nil || !strings.Contains(deadLetter.Reason, "422") {
			i.t.Errorf("dead list --json prints %s", line)
		}
		keys = append(keys, deadLetter.Key)
	}
	return keys
}

func TestDeadLettersAreListedRequeuedAndDropped(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.refusing.Store(true)
	i := install(t, r.sink())
	i.appliance.AddMany(2)
	i.appliance.AddAudit(5)
	stop := i.start()
	i.awaitSink("one with five dead letters", func(s admin.SinkStatus) bool { return s.DeadLetters == 5 })
	keys := i.keysOf(i.byAddress())
	if len(keys) != 5 {
		t.Fatalf("keys %v", keys)
	}
	t.Run("through a bridge that runs", func(t *testing.T) {
		i.expect(i.byAddress(), []expected{
			{[]string{"dead", "list", "soc"}, 0, []string{"KEY", "rejected", keys[0], keys[4], "no [2J audit log here"}},
			{[]string{"dead", "list", "soc", "--limit", "2"}, 0, []string{keys[1], "ndrbridge dead list soc --after " + keys[1]}},
			{[]string{"dead", "list", "log"}, 0, []string{"log has no dead letters"}},
			{[]string{"dead", "list", "hq/detections"}, 0, []string{"hq/detections has no dead letters"}},
			{[]string{"dead", "list"}, 0, []string{"OWNER", "soc    rejected  5", keys[4], ": 422 Unprocessable Entity: no "}},
			{[]string{"dead", "list", "nobody"}, 1, []string{"unknown sink", "soc"}},
			{[]string{"dead", "list", "hq/none"}, 1, []string{"unknown stream", "records/all"}},
			{[]string{"dead", "show", "soc", keys[0]}, 0, []string{"key     " + keys[0], "class   rejected", "reason  ", `"type": "io.ndrbridge.audit.logged"`}},
			{[]string{"dead", "show", "soc", keys[0], "--json"}, 0, []string{`{"key":"` + keys[0] + `","class":"rejected"`}},
			{[]string{"dead", "show", "soc", "none"}, 1, []string{"none"}},
			{[]string{"dead", "drop", "soc", keys[0]}, 0, []string{"1 dead letter of soc dropped"}},
			{[]string{"dead", "drop", "soc", keys[0], keys[1], "--json"}, 1, []string{`{"dropped":1}`, "1 of 2 keys do not exist"}},
			{[]string{"dead", "drop", "soc", "--all"}, 2, []string{"(3 now)", "--yes is required"}},
		})
		r.refusing.Store(false)
		i.expect(i.byAddress(), []expected{{[]string{"dead", "requeue", "soc", keys[2]}, 0, []string{"1 dead letter of soc requeued"}}})
		await(t, "the one that was requeued", func() bool { return r.taken2nd.Load() == 1 })
	})
	stop()
	t.Run("on the state of one that does not", func(t *testing.T) {
		offline := []string{"--config", i.config}
		i.expect(offline, []expected{
			{[]string{"dead", "show", "soc", keys[3]}, 0, []string{"key     " + keys[3]}},
			{[]string{"dead", "drop", "soc", keys[3]}, 0, []string{"1 dead letter of soc dropped"}},
			{[]string{"dead", "requeue", "soc", "--all"}, 2, []string{"without a terminal to confirm on, --yes is required: Deliver all dead letters of soc again (1 now)?"}},
			{[]string{"dead", "requeue", "soc", "--all", "--json", "--yes"}, 0, []string{`{"requeued":1}`}},
			{[]string{"dead", "drop", "soc", "--all", "--yes"}, 0, []string{"0 dead letters of soc dropped"}},
		})
		i.start()
		await(t, "the one that was requeued", func() bool { return r.taken2nd.Load() == 2 })
	})
}

func TestDeliveryIsReplayedPausedAndResumed(t *testing.T) {
	t.Parallel()
	r, i, stop := startDelivered(t, 6)
	i.expect(i.byAddress(), []expected{
		{[]string{"replay", "soc", "log", "--since", "-1h", "--dry-run"}, 0, []string{"6 events would be queued to be delivered to soc again", "6 events would be queued to be delivered to log again"}},
		{[]string{"replay", "--all", "--since", "-1h", "--dry-run", "--json"}, 0, []string{`{"sink":"soc","replayed":6,"dry_run":true}`}},
		{[]string{"replay", "soc", "--since", "-2h", "--until", "-1h", "--dry-run"}, 0, []string{"0 events would be queued to be delivered to soc again"}},
		{[]string{"replay", "soc", "--since", "-1h"}, 2, []string{"Deliver what was journalled since ", "again: 6 events to soc, as far as their match selects it?", "without a terminal to confirm on, --yes is required: "}},
		{[]string{"replay", "soc", "--since", "-1h", "--until", "-2h"}, 2, []string{"--until must be after --since"}},
		{[]string{"replay", "--since", "-1h"}, 2, []string{"give either the names of sinks or --all"}},
		{[]string{"replay", "soc", "--all", "--since", "-1h"}, 2, []string{"give either the names of sinks or --all"}},
		{[]string{"replay", "soc", "--since", "-1h", "--yes"}, 0, []string{"6 events queued to be delivered to soc again"}},
		{[]string{"replay", "soc", "nobody", "--since", "-1h", "--yes"}, 1, []string{"unknown sink", "soc"}},
		{[]string{"replay", "soc"}, 2, []string{"--since is missing"}},
	})
	await(t, "the replay", func() bool { return r.taken2nd.Load() == 6 })

	i.expect(i.byAddress(), []expected{
		{[]string{"pause", "soc"}, 0, []string{"sink soc is paused"}},
		{[]string{"pause", "nobody"}, 1, []string{"unknown sink"}},
		{[]string{"status"}, 0, []string{"running for", "soc is paused: resume it with ndrbridge resume soc"}},
	})
	i.appliance.AddMany(1)
	i.await("detections", 7) // through the other sink
	stop()
	offline := []string{"--config", i.config}
	i.expect(offline, []expected{
		{[]string{"status"}, 0, []string{"ndrbridge is not running", "paused"}},
		{[]string{"resume", "soc", "--json"}, 0, []string{`{"sink":"soc","paused":false}`}},
		{[]string{"replay", "soc", "--since", "beginning", "--dry-run"}, 0, []string{"6 events would be queued to be delivered to soc again"}},
		{[]string{"replay", "soc", "--since", "beginning", "--json", "--yes"}, 0, []string{`{"sink":"soc","replayed":6}`}},
	})
	if r.taken.Load() != 12 {
		t.Errorf("%d events were taken while the sink was paused", r.taken.Load()-12)
	}
	i.start()
	await(t, "what came meanwhile, and the replay", func() bool { return r.taken.Load() == 12+1+6 })
}

func TestStatusGivesAdvice(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.forbidden.Store(true)
	i := install(t, r.sink())
	i.appliance.AddMany(1)
	i.expect([]string{"--config", i.config}, []expected{{[]string{"status"}, 1, []string{"there is no state at ", "no bridge answers at ", "start a bridge with ndrbridge run"}}})
	i.start()
	i.awaitSink("halted", func(s admin.SinkStatus) bool { return s.State == "halted" })
	i.expect(i.byAddress(), []expected{
		{[]string{"status"}, 0, []string{"halted", "403", "soc is halted until this is fixed: "}},
	})
	r.forbidden.Store(false)
	i.expect(i.byAddress(), []expected{{[]string{"resume", "soc"}, 0, []string{"sink soc is resumed"}}})
	i.awaitSink("well", func(s admin.SinkStatus) bool { return s.State == "running" && s.LagEvents == 0 })
}

// tailedTo checks what tail prints of the journal: one detection, then audit entries.
func (i *installation) tailedTo(t *testing.T, name string) {
	t.Helper()
	count := func(args ...string) (detections, audit int) {
		t.Helper()
		out, errs := i.run(0, append([]string{"tail", "--config", i.config}, args...)...)
		assert.Equal(t, errs, "", name, args, "reports")
		detections, audit = strings.Count(out, " detections "), strings.Count(out, " audit ")
		if lines := strings.Count(out, "\n"); lines != detections+audit {
			t.Errorf("%s: %v prints other lines:\n%s", name, args, out)
		}
		return detections, audit
	}
	_, all := count("--since", "beginning", "--no-follow")
	for _, c := range []struct {
		args              []string
		detections, audit int
	}{
		{[]string{"--no-follow", "-n", "0"}, 0, 0},
		{[]string{"--no-follow", "-n", "2"}, 0, 2},
		{[]string{"--no-follow", "-n", "2", "--stream", "detections"}, 1, 0},
		{[]string{"--no-follow", "--stream", "detections"}, 1, 0},
		{[]string{"--no-follow", "--since", "-1h"}, 1, all},
		{[]string{"--no-follow", "--since", "-1h", "-n", "1"}, 0, 1},
		{[]string{"--until", "0.001s"}, 1, all},
		{[]string{"--until", "-1h"}, 0, 0},
		{[]string{"--no-follow", "-n", "1000", "--match", `event.stream == "detections"`}, 1, 0},
		{[]string{"--no-follow", "-n", "1000", "--sink", "log"}, 1, all},
		{[]string{"--no-follow", "-n", "1000", "--sink", "soc"}, 0, all},
		{[]string{"--no-follow", "-n", "3", "--sink", "soc", "--match", `event.stream == "detections"`}, 0, 0},
	} {
		if detections, audit := count(c.args...); detections != c.detections || audit != c.audit {
			t.Errorf("%s: %v prints %d detections and %d audit entries, want %d and %d", name, c.args, detections, audit, c.detections, c.audit)
		}
	}
}

func TestEventsAreTailed(t *testing.T) {
	t.Parallel()
	r := receive(t)
	i := install(t, strings.Replace(r.sink(), "{", `{match: 'event.stream == "audit"', `, 1))
	i.appliance.AddMany(1)
	stop := i.start()
	i.await("detections", 1)
	entries := 0
	for _, c := range []struct {
		name  string
		args  []string
		want  string
		lacks string
	}{
		{"from now on", nil, "audit      logged", "detections"},
		{"with what the journal holds", []string{"--since", "-1h"}, "detections created", ""},
		{"one stream alone", []string{"--since", "beginning", "--stream", "audit"}, "audit      logged", "detections"},
		{"as they are", []string{"--since", "-1h", "--json"}, `{"specversion":"1.0","id":"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var out, errs locked.Buffer
			tail := &command{stdout: &out, stderr: &errs}
			exit := make(chan int, 1)
			go func() {
				exit <- commandline.Run(ctx, tail.root(), append(append([]string{"tail"}, c.args...), i.byAddress()...), &out, &errs)
			}()
			await(t, c.want, func() bool {
				entries++
				i.appliance.AddAudit(1) // the tail may begin behind the one before
				return strings.Contains(out.String(), c.want)
			})
			interrupt()
			if code := <-exit; code != 0 || errs.String() != "" {
				t.Errorf("Ctrl-C ends it with %d: %s", code, &errs)
			}
			if c.lacks != "" && strings.Contains(out.String(), c.lacks) {
				t.Errorf("it prints %q:\n%s", c.lacks, &out)
			}
		})
	}
	i.await("audit", entries)
	i.tailedTo(t, "through a running bridge")
	stop()
	i.tailedTo(t, "of a bridge that does not run")
	i.expect([]string{"--config", i.config}, []expected{
		{[]string{"tail"}, 1, []string{"start it with ndrbridge run", "--no-follow"}},
		{[]string{"tail", "-n", "1", "--stream", "detections"}, 1, []string{"detections created", "start it with ndrbridge run"}},
		{[]string{"tail", "--stream", "dns"}, 2, []string{"records/NAME"}},
		{[]string{"tail", "-n", "-1"}, 2, []string{"--lines: must be 0 to 10000"}},
		{[]string{"tail", "-n", "10001"}, 2, []string{"--lines: must be 0 to 10000"}},
		{[]string{"tail", "--since", "-1h", "--until", "-2h"}, 2, []string{"--until is before --since"}},
		{[]string{"tail", "--match", "detection.risk_score ="}, 2, []string{"--match: ", "column 22"}},
		{[]string{"tail", "--sink", "lake"}, 1, []string{`the configuration has no sink "lake": it has log, soc`}},
		{[]string{"tail", "--since", "now"}, 2, []string{"not a time in the past"}},
	})
}
