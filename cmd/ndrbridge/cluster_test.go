package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// aCluster is the state of a cluster that runs well.
func aCluster(now time.Time) admin.Cluster {
	return admin.Cluster{
		Name: "prod", ID: "7e1f", Generation: 2, Member: "bridge-2", Owner: "bridge-1", LeaseSeconds: 5.14, LogBytes: 12 << 20, Snapshot: now.Add(-4 * time.Hour),
		Members: []admin.ClusterMember{
			{
				Member: "bridge-1", Version: "1.9.0", Since: now.Add(-72 * time.Hour), URL: "http://bridge-1:9600",
				State: admin.MemberOwning, Config: admin.ConfigSame, Generation: 2, Offset: 1203, Ready: true,
			},
			{
				Member: "bridge-2", Version: "1.9.0", Since: now.Add(-12 * time.Minute), URL: "http://bridge-2:9600",
				State: admin.MemberFollowing, Config: admin.ConfigSame, Generation: 2, Offset: 1200, Behind: 3, Ready: true,
			},
		},
	}
}

// withoutOwner is a cluster whose log NATS has lost.
func withoutOwner(now time.Time) admin.Cluster {
	s := aCluster(now)
	s.Owner, s.LeaseSeconds, s.WithoutOwnerSeconds = "", 0, 90
	s.Error = "NATS lost a part of the log: run ndrbridge cluster recover"
	for i := range s.Members {
		s.Members[i].State, s.Members[i].Ready, s.Members[i].Error = admin.MemberAway, false, "the log ends at 1100"
	}
	return s
}

func TestAClusterIsPrinted(t *testing.T) {
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change func(*admin.Cluster)
		want   []string // lines, with single blanks
		lacks  string
	}{
		{"a cluster where all is well", func(*admin.Cluster) {}, []string{
			"cluster prod, as seen by bridge-2", "log generation 2, 12.0 MiB, snapshot made 4h00m ago", "owner bridge-1; its lease lasts 5.1s unless it is renewed",
			"bridge-1 owning 1.9.0 3d0h ago 2 1203 0 same", "bridge-2 following 1.9.0 12m ago 2 1200 3 same",
		}, "What to do"},
		{"no owner", func(s *admin.Cluster) { *s = withoutOwner(now) }, []string{
			"owner none for 1m", "bridge-1 away 1.9.0 3d0h ago 2 1203 0 same the log ends at 1100",
			"no member owns the log, so that no appliance is polled: if this lasts for more than 30 seconds, run ndrbridge check --connect",
			"NATS lost a part of the log: run ndrbridge cluster recover",
		}, "can take over"},
		{"a member alone", func(s *admin.Cluster) { s.Members, s.Snapshot = s.Members[:1], time.Time{} }, []string{
			"log generation 2, 12.0 MiB, no snapshot yet", "there is no other member to take over if this one fails",
		}, "no other member can"},
		{"a standby that has not caught up", func(s *admin.Cluster) { s.Members[1].Ready = false }, []string{
			"bridge-2 following 1.9.0 12m ago 2 1200 3 same cannot take the log over yet",
			"no other member can take over: if this lasts for more than ten minutes, see the log output of the other members",
		}, "no member owns"},
		{"a standby that fails", func(s *admin.Cluster) { s.Members[1].Error = "no space\x1b[2J left" }, []string{
			"bridge-2 following 1.9.0 12m ago 2 1200 3 same no space [2J left",
		}, "\x1b"},
		{"another configuration", func(s *admin.Cluster) { s.Members[1].Config = admin.ConfigDiffers }, []string{
			"bridge-2 following 1.9.0 12m ago 2 1200 3 DIFFERS", "the configuration of bridge-2 differs from that of the owner: give all members the same one",
		}, ""},
		{"another version", func(s *admin.Cluster) { s.Members[1].Config = admin.ConfigUnknown }, []string{"bridge-2 following 1.9.0 12m ago 2 1200 3 unknown"}, "What to do"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := aCluster(now)
			c.change(&state)
			var out bytes.Buffer
			(&command{stdout: &out}).printCluster(state, now)
			expectLines(t, out.String(), c.want, c.lacks)
		})
	}
}

func TestAStatusHasAShortPartAboutTheCluster(t *testing.T) {
	now := time.Now()
	state := aCluster(now)
	state.Members[1].Ready = false
	var out bytes.Buffer
	(&command{stdout: &out}).printStatus(admin.Status{Running: true, Cluster: &state}, now)
	expectLines(t, out.String(), []string{
		"cluster prod: bridge-1 owns the log; 0 of 1 standby can take it over",
		"no other member can take over: if this lasts for more than ten minutes, see the log output of the other members",
	}, "GENERATION")
}

// expectLines checks that a text has lines, which are given with single blanks.
func expectLines(t *testing.T, text string, want []string, lacks string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, line := range want {
		assert.Contains(t, strings.Join(lines, "\n")+"\n", line+"\n", "it lacks", line, text)
	}
	if lacks != "" && strings.Contains(text, lacks) {
		t.Errorf("it has %q:\n%s", lacks, text)
	}
}

// member is a running member of a cluster, for the commands.
type member struct {
	state     admin.Cluster
	handovers int
	recovered []admin.Recovery
	copy      []byte // the copy of the state
	done      []string
	err       error // of GetStatus, HandOver and RecoverCluster
}

// client returns a client of the member.
func (m *member) client() *admin.Client {
	all := make(admin.Operations)
	admin.API.GetCluster.By(all, func(context.Context, admin.None) (admin.Cluster, error) { return m.state, nil })
	admin.API.HandOver.By(all, func(context.Context, admin.None) error {
		m.handovers++
		return m.err
	})
	admin.API.RecoverCluster.By(all, func(_ context.Context, what admin.Recovery) error {
		m.recovered = append(m.recovered, what)
		return m.err
	})
	admin.API.Backup.By(all, func(_ context.Context, r admin.BackupRequest) error {
		_, err := io.Copy(r.To, bytes.NewReader(m.copy))
		return err
	})
	admin.API.GetStatus.By(all, func(context.Context, admin.None) (admin.Status, error) {
		if m.err != nil {
			return admin.Status{}, m.err
		}
		return admin.Status{Running: true, Unconfigured: []admin.SinkStatus{{Name: "old", DeadLetters: 1}}}, nil
	})
	admin.API.ForgetSink.By(all, func(_ context.Context, r admin.OfSink) error { return m.do("forget " + r.Sink) })
	admin.API.RenameSink.By(all, func(_ context.Context, r admin.RenameRequest) error { return m.do("rename " + r.Sink + " to " + r.To) })
	admin.API.ForgetAppliance.By(all, func(_ context.Context, r admin.ForgetRequest) error {
		if r.Identity {
			return m.do("forget identity " + r.Appliance)
		}
		return m.do("forget appliance " + r.Appliance)
	})
	return admin.NewLocal(all)
}

func (m *member) do(what string) error {
	m.done = append(m.done, what)
	return nil
}

// inCluster returns the path of a configuration whose admin interface is at an address.
func inCluster(t *testing.T, listen string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	text := fmt.Sprintf(`
cluster: {name: prod, member: bridge-1, nats: {url: "nats://127.0.0.1:4222"}}
state: %s
admin: {listen: %q, token: s3cret-token}
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`, filepath.Join(t.TempDir(), "state.db"), listen)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// typed runs a command and returns what it printed and its exit code.
func typed(t *testing.T, args ...string) (text string, exit int) {
	t.Helper()
	exit, out, errs := new(command).try(t, "", args...)
	if text = out + errs; strings.Contains(text, "s3cret") {
		t.Errorf("%v prints a secret:\n%s", args, text)
	}
	return text, exit
}

// serve serves the member, and returns the path of its configuration.
func (m *member) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(admin.NewHandler(admin.Options{
		Token: "s3cret-token", NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(), Control: m.client,
	}))
	t.Cleanup(server.Close)
	return inCluster(t, server.Listener.Addr().String())
}

func TestCommandsOfACluster(t *testing.T) {
	m := &member{state: aCluster(time.Now())}
	config := m.serve(t)
	text, exit := typed(t, "cluster", "status", "--config", config)
	assert.Equal(t, exit, 0, "exit")
	assert.Contains(t, text, "cluster prod, as seen by bridge-2")
	var got admin.Cluster
	text, exit = typed(t, "cluster", "status", "--json", "--config", config)
	if err := json.Unmarshal([]byte(text), &got); err != nil || exit != 0 || got.Owner != "bridge-1" {
		t.Errorf("exit %d (%v):\n%s", exit, err, text)
	}
	if text, exit := typed(t, "cluster", "handover", "--config", config); exit != 0 || text != "the log is handed over to another member\n" || m.handovers != 1 {
		t.Errorf("exit %d, %d handovers: %q", exit, m.handovers, text)
	}
	if text, exit := typed(t, "cluster", "recover", "--yes", "--config", config); exit != 1 || !strings.Contains(text, "bridge-1 owns the log of the cluster prod: there is nothing to recover") {
		t.Errorf("exit %d: %q", exit, text)
	}
	for _, args := range []string{"state forget old --yes", "state rename old new", "state forget --appliance hq --yes", "state forget --appliance hq --identity"} {
		if text, exit := typed(t, append(strings.Fields(args), "--config", config)...); exit != 0 {
			t.Errorf("%s: exit %d: %s", args, exit, text)
		}
	}
	if want := []string{"forget old", "rename old to new", "forget appliance hq", "forget identity hq"}; !slices.Equal(m.done, want) {
		t.Errorf("the member did %q, want %q", m.done, want)
	}
	if text, exit := typed(t, "state", "forget", "old", "--config", config); exit != 2 || !strings.Contains(text, "Delete the cursor, 1 dead letter") {
		t.Errorf("without --yes: exit %d: %s", exit, text)
	}
	m.err = errors.New("no other member follows the log")
	if text, exit := typed(t, "cluster", "handover", "--config", config); exit != 1 || !strings.Contains(text, "no other member follows the log") {
		t.Errorf("exit %d: %s", exit, text)
	}
}

func TestAClusterWithoutAnOwner(t *testing.T) {
	m := &member{state: withoutOwner(time.Now()), err: fmt.Errorf("no member owns the log: %w", admin.ErrUnavailable)}
	config := m.serve(t)
	t.Run("has a status nevertheless", func(t *testing.T) {
		text, exit := typed(t, "status", "--config", config)
		if exit != 1 || !strings.Contains(text, "no member owns the log: not available now") || !strings.Contains(text, "NATS lost a part of the log") {
			t.Errorf("exit %d: %s", exit, text)
		}
		if text, exit := typed(t, "status", "--json", "--config", config); exit != 1 || strings.Contains(text, "NATS lost") {
			t.Errorf("exit %d: %s", exit, text)
		}
	})
	m.err = nil
	t.Run("is recovered from the furthest copy", func(t *testing.T) {
		text, exit := typed(t, "cluster", "recover", "--config", config)
		expectLines(t, text, []string{"bridge-1 away 2 1203 the furthest", "bridge-2 away 2 1200"}, "")
		if exit != 2 || !strings.Contains(text, "Continue the log of the cluster prod with the copy of bridge-1? What the log has beyond it is lost.") || len(m.recovered) > 0 {
			t.Errorf("exit %d: %s", exit, text)
		}
		m.state.Members[1].Generation = 3
		text, exit = typed(t, "cluster", "recover", "--yes", "--config", config)
		if exit != 0 || !strings.Contains(text, "the log continues with the copy of bridge-2\n") || !reflect.DeepEqual(m.recovered, []admin.Recovery{{From: "bridge-2"}}) {
			t.Errorf("exit %d, %+v: %s", exit, m.recovered, text)
		}
	})
	t.Run("is not recovered without a copy", func(t *testing.T) {
		m.state.Members = m.state.Members[:1]
		m.state.Members[0].Offset = 0
		if text, exit := typed(t, "cluster", "recover", "--yes", "--config", config); exit != 1 || !strings.Contains(text, "no member that can be reached has a copy of the state") {
			t.Errorf("exit %d: %s", exit, text)
		}
	})
}

// aCopy writes the copy of a log, and returns its path.
func aCopy(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	store, err := checkpoint.Open(filepath.Join(folder, "state.db"), checkpoint.Options{})
	require.NoError(t, err)
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	copied := require.Value(checkpoint.OpenReplica(filepath.Join(folder, "copy.db"), -1))(t)
	_, err = store.Dump(t.Context(), 1<<20, func(record []byte) error {
		return copied.Apply([][]byte{record}, checkpoint.Point{Offset: 17, Trail: "x prod 1"})
	})
	require.NoError(t, errors.Join(err, store.Close(), copied.Close()))
	return filepath.Join(folder, "copy.db")
}

func TestTheStateOfAClusterIsExported(t *testing.T) {
	copied := aCopy(t)
	m := &member{state: aCluster(time.Now())}
	m.copy = require.Value(os.ReadFile(copied))(t)
	for name, args := range map[string][]string{"from the owner": {"--config", m.serve(t)}, "from a copy": {"--from", copied}} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "single.db")
			if text, exit := typed(t, append([]string{"cluster", "export", to}, args...)...); exit != 0 || !strings.HasPrefix(text, to+": ") {
				t.Fatalf("exit %d: %s", exit, text)
			}
			store := require.Value(checkpoint.Open(to, checkpoint.Options{}))(t)
			if _, err := store.Cursor(t.Context(), "lake"); err != nil {
				t.Error(err)
			}
			require.NoError(t, store.Close())
			if text, exit := typed(t, append([]string{"cluster", "export", to}, args...)...); exit != 1 || !strings.Contains(text, "exists already") {
				t.Errorf("exit %d: %s", exit, text)
			}
		})
	}
	t.Run("not from a copy that is in use", func(t *testing.T) {
		open := require.Value(checkpoint.OpenReplica(copied, -1))(t)
		defer open.Close()
		to := filepath.Join(t.TempDir(), "single.db")
		if text, exit := typed(t, "cluster", "export", to, "--from", copied); exit != 1 || !strings.Contains(text, "is in use by a running bridge") {
			t.Errorf("exit %d: %s", exit, text)
		}
		assert.Empty(t, require.Value(os.ReadDir(filepath.Dir(to)))(t), "it left")
	})
}

func TestCommandsWithoutARunningMember(t *testing.T) {
	config := inCluster(t, loopback.Free(t))
	for _, args := range []string{"cluster status", "cluster handover", "cluster recover", "cluster export none.db", "status", "state show", "pause log", "state forget old", "state forget --appliance hq --identity", "state rename old new"} {
		text, exit := typed(t, append(strings.Fields(args), "--config", config)...)
		if exit != 1 || !strings.Contains(text, "no member of the cluster runs at admin.listen of this configuration: start it, or give the address of another member with --admin") {
			t.Errorf("%s: exit %d:\n%s", args, exit, text)
		}
	}
	if text, exit := typed(t, "send", "log", "--config", config); exit != 0 || !strings.Contains(text, `"type":"io.ndrbridge.sink.test"`) {
		t.Errorf("send: exit %d:\n%s", exit, text)
	}
	if text, exit := typed(t, "state", "compact", "--config", config); exit != 1 || !strings.Contains(text, "the state of a cluster is in NATS") {
		t.Errorf("exit %d: %s", exit, text)
	}
}

func TestAdoptionsAndRecoveriesAreConfirmedAndChecked(t *testing.T) {
	config := inCluster(t, loopback.Free(t))
	missing := filepath.Join(t.TempDir(), "none.db")
	for _, c := range []struct {
		name, args string
		exit       int
		want       string
	}{
		{"an adoption without a confirmation", "cluster init --adopt " + missing, 2, "Make " + missing + " the state of the cluster prod?"},
		{"an adoption without a state", "cluster init --yes --adopt " + missing, 1, "there is no state at " + missing},
		{"an argument", "cluster init " + missing, 2, "takes no arguments"},
		{"a recovery from a file at a running member", "cluster recover --admin http://127.0.0.1:1 --token-file none --from " + missing, 2, "use it without --admin and --token-file"},
		{"a recovery from no file", "cluster recover --yes --from " + missing, 1, "there is no state at "},
		{"an export from a file and a running member", "cluster export x.db --admin http://127.0.0.1:1 --token-file none --from " + missing, 2, "use it without --admin and --token-file"},
		{"an export from no file", "cluster export " + missing + ".new --from " + missing, 1, "there is no state at "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text, exit := typed(t, append(strings.Fields(c.args), "--config", config)...); exit != c.exit || !strings.Contains(text, c.want) {
				t.Errorf("exit %d: %s", exit, text)
			}
		})
	}
}

func TestCommandsOfAClusterNeedOne(t *testing.T) {
	i := install(t)
	if text, exit := typed(t, "cluster", "status", "--config", i.config); exit != 2 || !strings.Contains(text, "the configuration has no cluster") {
		t.Errorf("exit %d: %s", exit, text)
	}
}
