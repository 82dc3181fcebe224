package preflight_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// inCluster is a configuration with a cluster and these keys.
func inCluster(t *testing.T, keys string) string {
	t.Helper()
	return fmt.Sprintf("state: %s/state.db\ncluster: {name: prod, member: a, %s}\n", t.TempDir(), keys) +
		`appliances: [{name: hq, url: "http://` + loopback.Closed(t) + `", api_key: k}]` + "\n" + `sinks: [{name: log, file: {path: "-"}}]`
}

// ofCluster returns the findings about the servers of the cluster.
func ofCluster(t *testing.T, keys string) []finding.Finding {
	t.Helper()
	return slices.DeleteFunc(check(t, inCluster(t, keys), 2*time.Second), func(f finding.Finding) bool { return f.Target != "cluster" })
}

func TestCheckCluster(t *testing.T) {
	t.Parallel()
	row := func(step string, result finding.Result, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: step, Result: result, Detail: detail, Advice: advice}
	}
	nothing := func(*testing.T, jetstream.JetStream) {}
	without := func(stream string) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) { require.NoError(t, js.DeleteStream(t.Context(), stream)) }
	}
	const three = `nats: {url: "nats://ADDRESS"}`
	const one = "replicas: 1, " + three
	for name, test := range map[string]struct {
		server  func(*server.Options)
		prepare func(*testing.T, jetstream.JetStream) // once the cluster is created; nil: it is not
		keys    string
		want    []findingtest.Row
	}{
		"a server for a test": {keys: one, want: []findingtest.Row{
			row("version", finding.OK, "nats-server "+server.VERSION, ""), row("jetstream", finding.OK, "enabled", ""),
			row("streams", finding.Remark, "does not exist: ndrbridge cluster init", ""),
			row("sync_interval", finding.Untried, "cannot be seen from outside", "sync_interval: always"),
		}},
		"a cluster that has run": {keys: one, prepare: nothing, want: []findingtest.Row{
			row("streams", finding.OK, "the log exist", ""),
		}},
		"a cluster that lacks its log": {keys: one, prepare: without("NDR_prod_1"), want: []findingtest.Row{
			row("streams", finding.Failed, "NATS has lost NDR_prod_1", "ndrbridge cluster recover"),
		}},
		"a cluster that lacks its settings and snapshots": {keys: one, prepare: without("NDR_prod_meta"), want: []findingtest.Row{
			row("streams", finding.Failed, "NATS has lost NDR_prod_meta", "ndrbridge cluster recover"),
		}},
		"a cluster that lacks its settings": {keys: one, prepare: func(t *testing.T, js jetstream.JetStream) {
			meta, err := js.Stream(t.Context(), "NDR_prod_meta")
			require.NoError(t, err)
			require.NoError(t, meta.Purge(t.Context(), jetstream.WithPurgeSubject("ndr.prod.meta.settings")))
		}, want: []findingtest.Row{
			row("streams", finding.Failed, "NATS has lost its data: restore it, or continue from a copy with 'ndrbridge cluster recover'", "docs/cluster.md"),
		}},
		"fewer servers than replicas": {keys: three, prepare: nothing, want: []findingtest.Row{
			row("servers", finding.Failed, "not part of a cluster of servers, and cluster.replicas is 3", "cluster.replicas: 1"),
			row("settings", finding.Failed, "NDR_prod_meta could lose records, or cannot be used: replicas is 1, less than cluster.replicas, 3", "nats stream edit NDR_prod_meta"),
		}},
		"a server without JetStream": {server: func(o *server.Options) { o.JetStream = false }, keys: three, want: []findingtest.Row{
			row("jetstream", finding.Failed, "no JetStream", "jetstream block"),
		}},
		"a user without rights": {
			server: func(o *server.Options) {
				o.Users = []*server.User{{Username: "ana", Password: "sesame", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{"$JS.API.INFO"}},
				}}}
			},
			keys: `replicas: 1, nats: {url: "nats://ADDRESS", username: ana, password: sesame}`,
			want: []findingtest.Row{row("streams", finding.Failed, "Permissions Violation", "docs/cluster.md")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loopback.NATS(t, test.server)
			if test.prepare != nil {
				js := loopback.JetStream(t, s)
				require.NoError(t, start(t, js))
				test.prepare(t, js)
			}
			keys := strings.Replace(test.keys, "ADDRESS", s.Addr().String(), 1)
			found := ofCluster(t, keys)
			for _, want := range test.want {
				findingtest.Expect(t, found, want)
			}
			assert.NotContains(t, findingtest.Lines(found), "sesame", "a secret is shown")
			if again := ofCluster(t, keys); findingtest.Lines(again) != findingtest.Lines(found) {
				t.Errorf("the check changed something: now it finds\n%s\nand before\n%s", findingtest.Lines(again), findingtest.Lines(found))
			}
		})
	}
}

// start opens what NATS stores of a cluster as a member does at its start. It creates the cluster
// if there is none.
func start(t *testing.T, js jetstream.JetStream) error {
	t.Helper()
	j, err := replicated.OpenJetStream(t.Context(), js.Conn(), replicated.JetStreamOptions{Name: "prod", Replicas: 1})
	if err != nil {
		return err
	}
	defer j.Close()
	open := func(ctx context.Context, generation uint64, create bool) (s cluster.Storage, err error) {
		s.Stream, s.Snapshots, err = j.Generation(ctx, generation, create)
		return s, err
	}
	generation, err := cluster.Generation(t.Context(), j, "prod")
	if err == nil {
		_, err = open(t.Context(), generation, false)
		return err
	}
	g := cluster.Generations{Name: "prod", Registry: j, Storage: open, Clock: lease.System(), Term: time.Second}
	return g.Init(t.Context(), nil, func(int64) {})
}

// TestCheckAndStartAgree checks that the check finds what the start refuses, in its words.
func TestCheckAndStartAgree(t *testing.T) {
	t.Parallel()
	stream := func(name string, change func(*jetstream.StreamConfig)) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			s := require.Value(js.Stream(t.Context(), name))(t)
			c := s.CachedInfo().Config
			change(&c)
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		server  func(*server.Options)
		prepare func(*testing.T, jetstream.JetStream)
		step    string
	}{
		"a small max_payload":        {server: func(o *server.Options) { o.MaxPayload = 8192 }, step: "max_payload"},
		"a log that forgets":         {prepare: stream("NDR_prod_1", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), step: "settings"},
		"a log of other subjects":    {prepare: stream("NDR_prod_1", func(c *jetstream.StreamConfig) { c.Subjects = []string{"x"} }), step: "settings"},
		"snapshots that are limited": {prepare: stream("NDR_prod_meta", func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }), step: "settings"},
		"settings that vanish":       {prepare: stream("NDR_prod_meta", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), step: "settings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loopback.NATS(t, test.server)
			js := loopback.JetStream(t, s)
			if test.prepare != nil {
				require.NoError(t, start(t, js))
				test.prepare(t, js)
			}
			err := start(t, js)
			if err == nil {
				t.Fatal("a member starts")
			}
			i := slices.IndexFunc(ofCluster(t, `replicas: 1, nats: {url: "nats://`+s.Addr().String()+`"}`), func(f finding.Finding) bool {
				return f.Step == test.step && f.Result == finding.Failed && f.Detail+": "+f.Advice == err.Error()
			})
			assert.True(t, i >= 0, "the check does not find", err)
		})
	}
}

// oldServer is a NATS server of a version, in a cluster, that answers no request.
func oldServer(t *testing.T, version string) string {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		fmt.Fprintf(c, `INFO {"server_id":"A","version":%q,"max_payload":1048576,"cluster":"c","headers":true,"proto":1}`+"\r\n", version)
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "PING") {
				fmt.Fprint(c, "PONG\r\n")
			}
		}
	})
}

func TestCheckReportsOldServersOfACluster(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]findingtest.Row{
		"2.9.30":        {Result: finding.Failed, Detail: "can lose a stream", Advice: "2.10.23 or newer"},
		"2.10.22":       {Result: finding.Failed, Detail: "can lose a stream", Advice: "2.10.23 or newer"},
		"2.10.23":       {Result: finding.Warning, Detail: "while servers join or leave", Advice: "2.12.3"},
		"2.12.2-beta.1": {Result: finding.Warning, Detail: "while servers join or leave", Advice: "2.12.3"},
		"2.12.3":        {Result: finding.OK, Detail: "nats-server 2.12.3"},
		"2.14.0-RC.1":   {Result: finding.OK, Detail: "nats-server 2.14.0-RC.1"},
		"3.0.0":         {Result: finding.OK, Detail: "nats-server 3.0.0"},
		"custom":        {Result: finding.Warning, Detail: `reports the version "custom"`, Advice: "2.12.3"},
		"2.100.0":       {Result: finding.OK, Detail: "nats-server 2.100.0"},
		"3":             {Result: finding.Warning, Detail: `reports the version "3"`, Advice: "2.12.3"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			want.Step = "version"
			found := ofCluster(t, `nats: {url: "nats://`+oldServer(t, version)+`"}`)
			findingtest.Expect(t, found, want)
			findingtest.Expect(t, found, findingtest.Row{Step: "servers", Result: finding.Remark, Detail: "has 1 of at least 3 servers"})
			findingtest.Expect(t, found, findingtest.Row{Step: "jetstream", Result: finding.Failed, Detail: "do not answer", Advice: "most of the servers"})
		})
	}
}

func TestCheckReportsServersOfAClusterThatCannotBeReached(t *testing.T) {
	t.Parallel()
	findingtest.Expect(t, ofCluster(t, `nats: {url: "nats://`+loopback.Closed(t)+`"}`),
		findingtest.Row{Step: "connect", Result: finding.Failed, Detail: "refuses connections", Advice: "url"})
}

func TestCheckReportsAMemberThatTheOthersCannotReach(t *testing.T) {
	t.Parallel()
	yaml := inCluster(t, `replicas: 1, nats: {url: "nats://`+loopback.Closed(t)+`"}`)
	findingtest.Expect(t, check(t, yaml, 2*time.Second), findingtest.Row{
		Step: "admin.advertise", Result: finding.Warning, Detail: "cannot pass requests on to this one", Advice: "set admin.advertise",
	})
	reached := check(t, "admin: {advertise: 'http://bridge.example:9600'}\n"+yaml, 2*time.Second)
	if slices.ContainsFunc(reached, func(f finding.Finding) bool { return f.Step == "admin.advertise" }) {
		t.Errorf("found\n%s", findingtest.Lines(reached))
	}
}

func TestCheckReportsAFolderThatArchivesCannotBeWrittenTo(t *testing.T) {
	t.Parallel()
	yaml := inCluster(t, fmt.Sprintf(`replicas: 1, archive: {folder: %q}, nats: {url: "nats://%s"}`, t.TempDir(), loopback.Closed(t)))
	const key = "cluster.archive.folder"
	findingtest.Expect(t, check(t, yaml, 2*time.Second), findingtest.Row{Step: key, Result: finding.OK, Detail: "ndrbridge-prod.db can be written"})
	findingtest.Expect(t, check(t, strings.Replace(yaml, "folder: \"", "folder: \"/none", 1), 2*time.Second), findingtest.Row{
		Step: key, Result: finding.Warning, Detail: "the folder /none", Advice: "create it, writable for the user that the bridge runs as",
	})
}

func TestCheckDoesNotTryServersThatMembersRun(t *testing.T) {
	t.Parallel()
	cert, key := certificate.Files(t, t.TempDir(), "member", certificate.New(t, "a.example", time.Now().Add(time.Hour), nil))
	keys := fmt.Sprintf(`nats: {embedded: {peers: ["a.example:6222", "b.example:6222", "c.example:6222"], tls: {cert_file: %s, key_file: %s, ca_file: %[1]s}}}`, cert, key)
	findingtest.Expect(t, ofCluster(t, keys), findingtest.Row{
		Step: "connect", Result: finding.Untried, Detail: "parts of running members", Advice: "cluster status",
	})
}
