package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// aCluster is the state of a cluster that runs well.
func aCluster(now time.Time) admin.Cluster {
	return admin.Cluster{
		Name: "prod", Member: "bridge-1",
		Members: []admin.ClusterMember{
			{Member: "bridge-1", Version: "1.9.0", Since: now.Add(-72 * time.Hour), Owns: []int{0}, Follows: []int{1}, Config: admin.ConfigSame},
			{Member: "bridge-2", Version: "1.9.0", Since: now.Add(-12 * time.Minute), Owns: []int{1}, Follows: []int{0}, Config: admin.ConfigSame},
		},
		Shards: []admin.ClusterShard{
			{
				Shard: 0, Appliances: []string{"hq", "lab"}, Owner: "bridge-1", LeaseSeconds: 5.14, Followers: []admin.ClusterFollower{{Member: "bridge-2", Behind: 3}},
				LogBytes: 12 << 20, Snapshot: now.Add(-4 * time.Hour), State: "owning",
			},
			{Shard: 1, Owner: "bridge-2", LeaseSeconds: 4, Followers: []admin.ClusterFollower{{Member: "bridge-1"}}, State: "following"},
		},
	}
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
			"cluster prod, as seen by bridge-1",
			"bridge-1 1.9.0 3d0h ago 1 1 same", "bridge-2 1.9.0 12m ago 1 1 same",
			"00 bridge-1 5.1s bridge-2 3 12.0 MiB 4h00m ago hq, lab, (bridge)", "01 bridge-2 4.0s bridge-1 0 0 B - -",
		}, "What to do"},
		{"a shard without an owner", func(s *admin.Cluster) {
			s.Shards[1] = admin.ClusterShard{Shard: 1, Appliances: []string{"a\x1b[2J"}, WithoutOwnerSeconds: 3.2, Next: "bridge-2", NextSeconds: 4.3}
		}, []string{
			"01 - - - - 0 B - a [2J no owner for 3s: bridge-2 takes it in 4s",
			"no member owns shard 01: the appliances there are not polled. If this lasts for more than 30 seconds, run ndrbridge check --connect; if NATS lost a part of a shard's log, run ndrbridge cluster recover",
		}, "\x1b"},
		{"a shard that nobody can take", func(s *admin.Cluster) {
			s.Shards[1] = admin.ClusterShard{Shard: 1, WithoutOwnerSeconds: 90}
		}, []string{"01 - - - - 0 B - - no owner for 1m"}, "takes it"},
		{"a shard without a follower", func(s *admin.Cluster) { s.Shards[1].Followers = nil }, []string{
			"01 bridge-2 4.0s - - 0 B - -",
			"no member follows shard 01: if this lasts for more than ten minutes, see the log output of the other members",
		}, "no member owns"},
		{"shards without owners", func(s *admin.Cluster) {
			s.Shards[0], s.Shards[1] = admin.ClusterShard{}, admin.ClusterShard{Shard: 1}
		}, []string{
			"no member owns shards 00, 01: the appliances there are not polled. If this lasts for more than 30 seconds, run ndrbridge check --connect; if NATS lost a part of a shard's log, run ndrbridge cluster recover",
		}, "no member follows"},
		{"a member alone", func(s *admin.Cluster) {
			s.Members, s.Shards[0].Followers, s.Shards[1].Followers = s.Members[:1], nil, nil
		}, []string{"there is no other member to take over if this one fails"}, "no member follows"},
		{"another configuration", func(s *admin.Cluster) { s.Members[1].Config = admin.ConfigDiffers }, []string{
			"bridge-2 1.9.0 12m ago 1 1 DIFFERS", "the configuration of bridge-2 differs from that of bridge-1: give all members the same one",
		}, ""},
		{"another version", func(s *admin.Cluster) { s.Members[1].Config = admin.ConfigUnknown }, []string{"bridge-2 1.9.0 12m ago 1 1 unknown"}, "What to do"},
		{"a shard that cannot be followed", func(s *admin.Cluster) { s.Shards[1].Error = "no space left on device" }, []string{
			"01 bridge-2 4.0s bridge-1 0 0 B - - cannot be followed here", "shard 01 at bridge-1: no space left on device",
		}, ""},
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
	state.Shards[1].Followers = nil
	var out bytes.Buffer
	(&command{stdout: &out}).printStatus(admin.Status{Running: true, Cluster: &state}, now)
	expectLines(t, out.String(), []string{
		"cluster prod: this is bridge-1, one of 2 members; it owns 1 and follows 1 of 2 shards",
		"no member follows shard 01: if this lasts for more than ten minutes, see the log output of the other members",
	}, "LEASE")
}

// expectLines checks that a text has lines, which are given with single blanks.
func expectLines(t *testing.T, text string, want []string, lacks string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(lines, "\n")+"\n", line+"\n") {
			t.Errorf("it lacks %q:\n%s", line, text)
		}
	}
	if lacks != "" && strings.Contains(text, lacks) {
		t.Errorf("it has %q:\n%s", lacks, text)
	}
}

// member is a running member of a cluster, for the commands.
type member struct {
	state     admin.Cluster
	handovers []admin.Handover
	recovered []admin.Recovery
	done      []string
}

// client returns a client of the member.
func (m *member) client() *admin.Client {
	all := make(admin.Operations)
	admin.API.GetCluster.By(all, func(context.Context, admin.None) (admin.Cluster, error) { return m.state, nil })
	admin.API.HandOver.By(all, func(_ context.Context, what admin.Handover) error {
		if what.Member == "bridge-9" {
			return fmt.Errorf("%w member %q", admin.ErrUnknown, what.Member)
		}
		m.handovers = append(m.handovers, what)
		return nil
	})
	admin.API.RecoverShard.By(all, func(_ context.Context, what admin.Recovery) error {
		if *what.Shard > 1 {
			return errors.New("member bridge-2 owns it")
		}
		m.recovered = append(m.recovered, what)
		return nil
	})
	admin.API.GetStatus.By(all, func(context.Context, admin.None) (admin.Status, error) {
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

func TestCommandsOfACluster(t *testing.T) {
	m := &member{state: aCluster(time.Now())}
	server := httptest.NewServer(admin.NewHandler(admin.Options{
		Token: "s3cret-token", NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(),
		Control: m.client,
	}))
	defer server.Close()
	config := inCluster(t, server.Listener.Addr().String())

	text, exit := typed(t, "cluster", "status", "--config", config)
	if exit != 0 || !strings.Contains(text, "cluster prod, as seen by bridge-1") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	var got admin.Cluster
	text, exit = typed(t, "cluster", "status", "--json", "--config", config)
	if err := json.Unmarshal([]byte(text), &got); err != nil || exit != 0 || got.Shards[0].Owner != "bridge-1" {
		t.Errorf("exit %d (%v):\n%s", exit, err, text)
	}
	for _, c := range []struct{ what, want string }{
		{"bridge-1", "the shards of bridge-1 are handed over"}, {"03", "shard 03 is handed over"}, {"3", "shard 03 is handed over"},
	} {
		if text, exit := typed(t, "cluster", "handover", c.what, "--config", config); exit != 0 || text != c.want+"\n" {
			t.Errorf("exit %d: %q, want %q", exit, text, c.want)
		}
	}
	if want := []admin.Handover{{Member: "bridge-1"}, {Shard: new(3)}, {Shard: new(3)}}; !reflect.DeepEqual(m.handovers, want) {
		t.Errorf("the member got %+v, want %+v", m.handovers, want)
	}
	if text, exit := typed(t, "cluster", "recover", "01", "--from", "bridge-2", "--yes", "--config", config); exit != 0 || text != "shard 01 is recovered from the copy of bridge-2\n" {
		t.Errorf("exit %d: %q", exit, text)
	}
	if text, exit := typed(t, "cluster", "recover", "02", "--from", "bridge-2", "--yes", "--config", config); exit != 1 || !strings.Contains(text, "member bridge-2 owns it") {
		t.Errorf("exit %d: %q", exit, text)
	}
	if want := []admin.Recovery{{Shard: new(1), From: "bridge-2"}}; !reflect.DeepEqual(m.recovered, want) {
		t.Errorf("the member got %+v, want %+v", m.recovered, want)
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
	if text, exit := typed(t, "cluster", "handover", "bridge-9", "--config", config); exit != 1 || !strings.Contains(text, `unknown member "bridge-9"`) {
		t.Errorf("exit %d: %s", exit, text)
	}
}

func TestCommandsWithoutARunningMember(t *testing.T) {
	config := inCluster(t, loopback.Free(t))
	for _, args := range []string{"cluster status", "cluster handover 03", "status", "state show", "pause log", "state forget old", "state forget --appliance hq --identity", "state rename old new"} {
		text, exit := typed(t, append(strings.Fields(args), "--config", config)...)
		if exit != 1 || !strings.Contains(text, "no member of the cluster runs at admin.listen of this configuration: start it, or give the address of another member with --admin") {
			t.Errorf("%s: exit %d:\n%s", args, exit, text)
		}
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
		{"without a confirmation", "cluster adopt " + missing, 2, "Make " + missing + " the state of the cluster prod?"},
		{"without a state", "cluster adopt " + missing + " --yes", 1, "there is no state at " + missing},
		{"without an argument", "cluster adopt", 2, "requires STATE"},
		{"a recovery of no shard", "cluster recover three --from bridge-1", 2, `"three" is not a shard`},
		{"a recovery from nothing", "cluster recover 03 --yes", 2, "either --from MEMBER or --from-file FILE"},
		{"a recovery from two copies", "cluster recover 03 --yes --from bridge-1 --from-file " + missing, 2, "either --from MEMBER or --from-file FILE"},
		{"a recovery without a confirmation", "cluster recover 03 --from bridge-1", 2, "Continue shard 03 from the copy of bridge-1?"},
		{"a recovery while no member runs", "cluster recover 03 --from bridge-1 --yes", 1, "no member of the cluster runs"},
		{"a recovery of all shards from a member", "cluster recover all --from bridge-1 --yes", 2, "--from continues one shard"},
		{"a recovery of all shards from no files", "cluster recover all --yes --from-file " + missing, 1, "there is no state at "},
		{"a recovery of no shard from a file", "cluster recover 16 --from-file " + missing, 2, "16 is not a shard; write 00 to 15"},
		{"a recovery from a file at a running member", "cluster recover 03 --admin http://127.0.0.1:1 --token-file none --from-file " + missing, 2, "use it without --admin and --token-file"},
		{"a recovery from no file", "cluster recover 03 --yes --from-file " + missing, 1, "there is no state at "},
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
