package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// try runs a command and returns its exit code and what it printed.
func try(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return (&command{environ: []string{"GOGC=100"}}).try(t, "", args...)
}

// try runs a command of c with an input, and returns its exit code and what it printed.
func (c *command) try(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs locked.Buffer
	c.stdin, c.stdout, c.stderr = strings.NewReader(stdin), &out, &errs
	root := c.root()
	root.SetIn(c.stdin)
	code = commandline.Run(t.Context(), root, args, &out, &errs)
	return code, out.String(), errs.String()
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// delivered is the target of a running bridge, so that a check that sends something is noticed
// from it.
const delivered = "/delivered"

// working is a configuration of parts that all work.
func working(t *testing.T) string {
	t.Helper()
	_, appliance := goodAppliance(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.detections", "ndr.audit", "ndr.events", "ndr.tickets"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	bus := loopback.NATS(t, nil)
	js := loopback.JetStream(t, bus)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.>"}})
	require.NoError(t, err)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, r.URL.Path, delivered, "a request was sent to the webhook")
	}))
	t.Cleanup(hook.Close)
	folder := t.TempDir()
	return fmt.Sprintf(`
state: %[1]s/state.db
admin: {listen: "127.0.0.1:0", token: sesame-opens}
appliances: [{name: hq, url: %[2]q, api_key: %[3]s}]
sinks:
  - {name: lake, kafka: {brokers: [%[4]q]}}
  - {name: bus, nats: {url: %[5]q, stream: NDR}}
  - {name: soc, webhook: {url: %[6]q}}
  - {name: log, file: {path: %[1]s/events.jsonl}}
tickets:
  enabled: true
  nats: {url: %[5]q, stream: NDR}
  kafka: {brokers: [%[4]q]}
`, folder, appliance, standin.DefaultAPIKey, cluster.ListenAddrs()[0], bus.ClientURL(), hook.URL)
}

func TestCheckConnectReportsSuccess(t *testing.T) {
	t.Parallel()
	text := working(t)
	config := writeFile(t, "ndrbridge.yaml", text, 0o600)
	check := []string{"check", "--connect", "--config", config}
	code, out, errs := try(t, check...)
	if code != 0 || !strings.Contains(out, "it would work, with 2 warnings") || errs != "" { // http to the appliance and to the webhook
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	// In the order of the configuration.
	rest := out
	for _, target := range []string{"appliance hq", "sink lake", "sink bus", "sink soc", "sink log", "tickets from nats", "tickets from kafka"} {
		_, after, found := strings.Cut(rest, "\n"+target+" ")
		if !found {
			t.Errorf("%s is not where it belongs:\n%s", target, out)
			continue
		}
		rest = after
	}
	t.Run("beside a bridge that runs", func(t *testing.T) {
		running := strings.Replace(text, `"}}
  - {name: log`, delivered+`"}}
  - {name: log`, 1)
		if running == text {
			t.Fatal("nothing was changed")
		}
		s := serve(t, confidential{file: writeFile(t, "ndrbridge.yaml", running, 0o600)})
		defer s.stop()
		if code, out, errs := try(t, check...); code != 0 {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
	})
	t.Run("in JSON, an object for each finding", func(t *testing.T) {
		code, out, _ := try(t, append(check, "--json")...)
		assert.Equal(t, code, 0, "exit code")
		for line := range strings.Lines(out) {
			var f finding.Finding
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&f); err != nil || f.Target == "" || f.Step == "" || f.Result == "" || f.Detail == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
	})
}

func TestCheckConnectReportsFailures(t *testing.T) {
	t.Parallel()
	text := working(t)
	for name, test := range map[string]struct{ from, to, want string }{
		"a wrong key":                        {"api_key: stand-in-key", "api_key: wrong", "failed"},
		"a topic that nobody made":           {"kafka: {brokers", "kafka: {topic: other, brokers", "topic other"},
		"a topic for events of our own":      {"kafka: {brokers", `kafka: {topic: "ndr.{stream}.{action}", brokers`, "topic ndr.events.unreachable"},
		"a stream with other subjects":       {"stream: NDR}}\n  - {name: soc", "stream: NDR, subject: other}}\n  - {name: soc", "do not include other"},
		"a folder that is not there":         {"/events.jsonl", "/nowhere/events.jsonl", "does not exist"},
		"an intake to a topic that is none":  {"]}\n", "], topic: none}\n", "topic none"},
		"an intake to a stream that is none": {"stream: NDR}\n  kafka", "stream: NONE}\n  kafka", "stream NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(text, test.from, test.to, 1)
			if name == "an intake to a topic that is none" {
				at := strings.LastIndex(text, test.from)
				changed = text[:at] + test.to
			}
			if changed == text {
				t.Fatal("nothing was changed")
			}
			code, out, _ := try(t, "check", "--connect", "--config", writeFile(t, "ndrbridge.yaml", changed, 0o600))
			if code != 1 || !strings.Contains(out, test.want) || !strings.Contains(out, "it would not work: ") || !strings.Contains(out, "-> ") {
				t.Errorf("exit code %d, and not %q in\n%s", code, test.want, out)
			}
		})
	}
	t.Run("a topic that only what does not match would need is a warning", func(t *testing.T) {
		t.Parallel()
		changed := strings.Replace(text, "- {name: lake, kafka: {brokers", `- {name: lake, match: 'event.type.startsWith("io.ndrbridge.detection")', kafka: {topic: "{stream}", brokers`, 1)
		changed = strings.Replace(changed, `topic: "{stream}"`, `topic: "ndr.{stream}x"`, 1)
		_, out, _ := try(t, "check", "--connect", "--config", writeFile(t, "ndrbridge.yaml", changed, 0o600))
		for topic, result := range map[string]string{"topic ndr.detectionsx": "failed", "topic ndr.auditx": "warning", "topic ndr.eventsx": "warning"} {
			_, line, _ := strings.Cut(out, topic)
			if line, _, _ = strings.Cut(line, "\n"); !strings.HasPrefix(strings.TrimSpace(line), result) {
				t.Errorf("%s is not %s:\n%s", topic, result, out)
			}
		}
	})
	t.Run("a secret that everybody may read is a warning", func(t *testing.T) {
		t.Parallel()
		key := writeFile(t, "key", standin.DefaultAPIKey, 0o644)
		changed := strings.Replace(text, "api_key: "+standin.DefaultAPIKey, "api_key_file: "+key, 1)
		code, out, _ := try(t, "check", "--connect", "--config", writeFile(t, "ndrbridge.yaml", changed, 0o600))
		if code != 0 || !strings.Contains(out, "appliances[0].api_key_file") || !strings.Contains(out, "-> chmod g-w,o= "+key) {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

func TestCheckWarnsOfExposedAndShortSecrets(t *testing.T) {
	key := writeFile(t, "key", "s3cret-key", 0o600)
	open := writeFile(t, "key", "s3cret-key", 0o600)
	require.NoError(t, os.Chmod(open, 0o666))
	replaceable := writeFile(t, "key", "s3cret-key", 0o600)
	require.NoError(t, os.Chmod(filepath.Dir(replaceable), 0o777))
	for _, test := range []struct {
		name, key string
		mode      os.FileMode
		warning   string // empty: none
	}{
		{"a file of its own", "api_key_file: " + key, 0o600, ""},
		{"a file that everybody may write", "api_key_file: " + open, 0o600, "warning: appliances[0].api_key_file: everybody on this machine may write " + open},
		{"a folder that everybody may write", "api_key_file: " + replaceable, 0o600, "warning: appliances[0].api_key_file: everybody on this machine may replace " + replaceable},
		{"a secret in a configuration that everybody may read", "api_key: s3cret-key", 0o644, "may read"},
		{"a secret in a configuration that only its owner may read", "api_key: s3cret-key", 0o600, ""},
		{"no secret in a configuration that everybody may read", "api_key_file: " + key, 0o644, ""},
		{"a short secret", "api_key: s3cret", 0o600, "warning: appliances[0].api_key: the secret has less than 8 characters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := fmt.Sprintf("state: %s\nadmin: {listen: '127.0.0.1:0'}\nappliances: [{name: hq, url: 'https://sensor.example', %s}]\nsinks: [{name: out, file: {path: '-'}}]\n", filepath.Join(t.TempDir(), "state.db"), test.key)
			code, _, errs := try(t, "check", "--config", writeFile(t, "ndrbridge.yaml", text, test.mode))
			if code != 0 || !strings.Contains(errs, test.warning) || (errs == "") != (test.warning == "") || strings.Contains(errs, "s3cret") {
				t.Errorf("exit code %d: %q, want %q", code, errs, test.warning)
			}
		})
	}
}

func TestCheckRejectsConflictingFlags(t *testing.T) {
	config := writeFile(t, "ndrbridge.yaml", good, 0o600)
	for name, args := range map[string][]string{
		"json without connect":    {"--json"},
		"timeout without connect": {"--timeout", "1s"},
		"no time":                 {"--connect", "--timeout", "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, errs := try(t, append([]string{"check", "--config", config}, args...)...); code != 2 || !strings.Contains(errs, "--timeout") {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
}

func TestCheckConnectShowsNoSecret(t *testing.T) {
	t.Parallel()
	_, good := goodAppliance(t)
	// A check waits for what says nothing, so that some run at a time.
	for part := range slices.Chunk(attacks(), 9) {
		t.Run("beginning with "+part[0].name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{t: t, asked: make(map[string]int)}
			h.begin(part[0])
			c := confide(t, good, addresses{scheme: "http://", http: h.serve, kafka: hostileKafka(t), nats: hostileNATS(t), cluster: true})
			formats := []string{"--json=false", "--json"}
			for i, m := range part {
				h.begin(m)
				_, out, errs := try(t, "check", "--connect", "--config", c.file, "--timeout", "2s", formats[i%2])
				expectNone(t, m.name, out+errs, c.needles)
				if !strings.Contains(out, "sink datadog") {
					t.Fatalf("%s: nothing was tried: %s%s", m.name, out, errs)
				}
			}
		})
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, host := range map[string]string{"nobody listens": closed.Listener.Addr().String(), "the name does not resolve": "no-such-host.invalid:443"} {
		c := confide(t, good, addresses{scheme: "https://", http: func(string) string { return host }, kafka: host, nats: host, login: 2, cluster: true})
		_, out, errs := try(t, "check", "--connect", "--config", c.file)
		expectNone(t, name, out+errs, c.needles)
	}
}

func TestCheckReportsStateThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, test := range map[string]struct {
		state string
		code  int
		want  string // on stderr
	}{
		"a state that can be created":         {filepath.Join(folder, "state.db"), 0, ""},
		"a state in a folder that is missing": {filepath.Join(folder, "none", "state.db"), 1, "does not exist; create it"},
		"a state that is a folder":            {folder, 1, "is a folder; correct state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "admin: {listen: \"127.0.0.1:0\"}\nstate: " + test.state + "\nappliances: [{name: hq, url: \"https://sensor.example\", api_key: stand-in}]\nsinks: [{name: log, file: {path: \"-\"}}]\n"
			code, _, errs := try(t, "check", "--config", writeFile(t, "ndrbridge.yaml", text, 0o600))
			if code != test.code || !strings.Contains(errs, test.want) || test.want == "" && errs != "" {
				t.Errorf("exit code %d: %s", code, errs)
			}
			if _, err := os.Stat(filepath.Join(folder, "state.db")); err == nil {
				t.Error("the check has made the state")
			}
		})
	}
}

// A start and both checks say of a configuration the same, in the same words.
func TestCheckAndRunAgree(t *testing.T) {
	t.Parallel()
	empty := writeFile(t, "empty.pem", "no certificate", 0o600)
	taken := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { taken.Close() })
	const sensor, soc = `name: hq, url: "http://127.0.0.1:1", api_key: stand-in`, `name: soc, webhook: {url: "http://127.0.0.1:1"`
	const noCertificate = "tls.ca_file: "
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "none.db"), link))
	cut := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()/2)
		}
		require.NoError(t, err)
	}
	for name, test := range map[string]struct {
		appliance, sink, rest string // the default: all of it can be made
		listen, state         string
		change                func(t *testing.T, path string) // a state that was closed in order
		part                  string
		want                  string // of the part; empty: it starts
	}{
		"nothing, if all of it can be made":              {},
		"a state that was closed in order":               {change: func(*testing.T, string) {}},
		"an appliance whose ca_file has no certificate":  {appliance: sensor + ", tls: {ca_file: " + empty + "}", want: noCertificate + empty},
		"an appliance whose client certificate is none":  {appliance: sensor + ", tls: {cert_file: " + empty + ", key_file: " + empty + "}", want: "tls.cert_file: " + empty},
		"a webhook whose ca_file has no certificate":     {sink: soc + ", tls: {ca_file: " + empty + "}}", want: noCertificate + empty},
		"a Kafka sink whose ca_file has no certificate":  {sink: `name: lake, kafka: {brokers: ["127.0.0.1:1"], tls: {ca_file: ` + empty + "}}", want: noCertificate + empty},
		"a NATS sink whose client certificate is none":   {sink: `name: bus, nats: {url: "nats://127.0.0.1:1", tls: {cert_file: ` + empty + ", key_file: " + empty + "}}", want: "tls.cert_file: " + empty},
		"a header that is larger than servers take":      {sink: soc + ", headers: {X-Large: " + strings.Repeat("x", 9<<10) + "}}", part: "sink soc", want: "webhook: the header field"},
		"a header that HTTP owns":                        {sink: soc + ", headers: {Content-Length: 1}}", want: "Content-Length"},
		"a syslog sink whose ca_file has no certificate": {sink: `name: siem, syslog: {address: "127.0.0.1:1", tls: {ca_file: ` + empty + "}}", want: noCertificate + empty},
		"a sink of a ticket system":                      {sink: `name: soc, webhook: {url: "http://127.0.0.1:1", tls: {ca_file: ` + empty + "}, ticket: {system: jira, project: SOC, link: false}}", want: noCertificate + empty},
		"a preset":                                       {sink: `name: soc, webhook: {url: "http://127.0.0.1:1/index", preset: elasticsearch, tls: {ca_file: ` + empty + "}}", want: noCertificate + empty},
		"a match that does not compile":                  {sink: soc + "}, match: nothing.of(", want: "sinks[0].match"},
		"a template that does not compile":               {sink: soc + ", template: '{{'}", want: "sinks[0].webhook.template"},
		"a redaction that is not a path":                 {sink: soc + "}, redact: [a..b]", want: "sinks[0].redact[0]"},
		"tickets from NATS, where ca_file has none":      {rest: `tickets: {enabled: true, nats: {url: "nats://127.0.0.1:1", stream: T, tls: {ca_file: ` + empty + "}}}\n", want: noCertificate + empty},
		"tickets from Kafka, where ca_file has none":     {rest: `tickets: {enabled: true, kafka: {brokers: ["127.0.0.1:1"], tls: {ca_file: ` + empty + "}}}\n", want: noCertificate + empty},
		"tickets that are off, where ca_file has none":   {rest: `tickets: {kafka: {brokers: ["127.0.0.1:1"], tls: {ca_file: ` + empty + "}}}\n", want: noCertificate + empty},
		"a ticket webhook that maps to no status":        {rest: "tickets: {enabled: true, webhooks: {jira: {map: {statuses: {Done: none}}}}}\n", want: "tickets.webhooks.jira.map"},
		"an address that something else has":             {listen: taken.Addr().String(), part: "admin.listen", want: taken.Addr().String() + ": address already in use"},
		"an address that this machine does not have":     {listen: "192.0.2.1:9600", part: "admin.listen", want: "listen tcp 192.0.2.1:9600: "},
		"a state in a folder that is missing":            {state: filepath.Join(t.TempDir(), "none", "state.db"), part: "state", want: "the folder "},
		"a state that is a folder":                       {state: t.TempDir(), part: "state", want: "is a folder"},
		"a state that is a link to nothing":              {state: link, part: "state", want: link + " is a link to a file that does not exist"},
		"a state that is a device":                       {state: "/dev/null", want: "/dev/null is not a file"},
		"a state that is an empty file":                  {state: writeFile(t, "state.db", "", 0o600), want: "the file is empty"},
		"a state that is another file":                   {state: writeFile(t, "state.db", strings.Repeat("text ", 20_000), 0o600), want: "open the state: "},
		"a state that was cut short":                     {change: cut, want: "damaged"},
		"a state of a newer version":                     {change: makeNewer, want: "newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := cmp.Or(test.state, filepath.Join(t.TempDir(), "state.db"))
			if test.change != nil {
				s, err := checkpoint.Open(state, checkpoint.Options{})
				if err == nil {
					err = s.Close()
				}
				require.NoError(t, err)
				test.change(t, state)
			}
			text := fmt.Sprintf("state: %s\nadmin: {listen: %q, token: sesame-opens}\nappliances: [{%s}]\nsinks: [{%s}]\n%s",
				state, cmp.Or(test.listen, "127.0.0.1:0"), cmp.Or(test.appliance, sensor), cmp.Or(test.sink, soc+"}"), test.rest)
			config := writeFile(t, "ndrbridge.yaml", text, 0o600)
			failed := commandline.ExitFailed
			if _, err := configs.Load(configs.Source{Paths: []string{config}}); err != nil {
				failed = commandline.ExitConfig
			}
			if code, _, errs := try(t, "check", "--config", config); test.want == "" {
				assert.Equal(t, code, 0, "check", "exit code")
				assert.Equal(t, errs, "", "check")
				serve(t, confidential{file: config}).stop()
				return
			} else if code != failed || !strings.Contains(errs, test.want) || !strings.Contains(errs, test.part) {
				t.Errorf("check: exit code %d: %s", code, errs)
			}
			code, out, errs := try(t, "check", "--connect", "--timeout", "2s", "--config", config)
			if out += errs; code != failed || !strings.Contains(out, test.want) || !strings.Contains(out, test.part) {
				t.Errorf("check --connect: exit code %d: %s", code, out)
			}
			if code, _, errs := try(t, "run", "--config", config); code != failed || !strings.Contains(errs, test.want) || !strings.Contains(errs, test.part) {
				t.Errorf("run: exit code %d: %s", code, errs)
			}
		})
	}
}

// makeNewer makes a state one of a version that does not exist yet.
func makeNewer(t *testing.T, path string) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err == nil {
		err = errors.Join(db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte("1000"))
		}), db.Close())
	}
	require.NoError(t, err)
}

func TestCheckAndRunReportEveryInvalidPart(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(`
state: %[1]s/state.db
admin: {listen: "127.0.0.1:0", token: sesame-opens}
appliances: [{name: hq, url: "http://127.0.0.1:1", api_key: stand-in}]
sinks:
  - {name: soc, webhook: {url: "http://127.0.0.1:1", headers: {X-Large: %[2]s}}}
  - {name: noc, webhook: {url: "http://127.0.0.1:1", headers: {X-Large: %[2]s}}}
`, t.TempDir(), strings.Repeat("x", 9<<10))
	config := writeFile(t, "ndrbridge.yaml", text, 0o600)
	for _, command := range []string{"check", "run"} {
		code, _, errs := try(t, command, "--config", config)
		for _, part := range []string{"sink soc", "sink noc"} {
			if line := part + ": webhook: the header field"; code != 1 || !strings.Contains(errs, line) {
				t.Errorf("%s: exit code %d, and not %q in\n%s", command, code, line, errs)
			}
		}
	}
}

func TestCheckBesideABridgeThatHasTheAddress(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	configure := func(listen, state, more string) string {
		return writeFile(t, "ndrbridge.yaml", fmt.Sprintf("state: %s/%s\nadmin: {listen: %q, token: sesame-opens%s}\n"+
			"appliances: [{name: hq, url: \"http://127.0.0.1:1\", api_key: stand-in}]\nsinks: [{name: log, file: {path: %s/events.jsonl}}]\n", folder, state, listen, more, folder), 0o600)
	}
	pair := certificate.New(t, "ndr.example", time.Now().Add(time.Hour), nil)
	certFile, keyFile := certificate.Files(t, folder, "admin", pair)
	withTLS := fmt.Sprintf(", tls: {cert_file: %s, key_file: %s}", certFile, keyFile)
	s := serve(t, confidential{file: configure("127.0.0.1:0", "state.db", "")})
	defer s.stop()
	address := strings.TrimPrefix(s.address, "http://")
	for _, c := range []struct{ name, state, more, result, says string }{
		{"the bridge of this configuration is only mentioned", "state.db", "", "remark", "the bridge that runs with this configuration listens at " + address},
		{"another one is a warning", "other.db", "", "warning", "a bridge runs there"},
		{"one that was started without TLS must be restarted", "state.db", withTLS, "warning", "a bridge without TLS runs there: restart it"},
	} {
		config := configure(address, c.state, c.more)
		warned := c.result == "warning"
		if code, _, errs := try(t, "check", "--config", config); code != 0 || warned != strings.Contains(errs, "warning: admin.listen: ") || warned != strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d: %s", c.name, code, errs)
		}
		_, out, _ := try(t, "check", "--connect", "--timeout", "2s", "--config", config)
		if _, at, _ := strings.Cut(out, "admin.listen"); !strings.HasPrefix(strings.TrimSpace(at), c.result) || !strings.Contains(at, c.says) {
			t.Errorf("%s: %s", c.name, out)
		}
	}
}
