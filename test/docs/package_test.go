//go:build e2e

package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/docs"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// nfpm builds packages, as a part of goreleaser.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0"

// TestThePackageDeliversAsThePageShows installs the Debian package in a root of its own, verifies
// its unit, and types the commands of a page in docs/start, with stand-ins for the appliance,
// Splunk and Slack. It starts the unit's command as systemd would, and prints every command with
// its output.
func TestThePackageDeliversAsThePageShows(t *testing.T) {
	t.Parallel()
	const page, key = "docs/start/splunk-and-slack.md", "a-long-token"
	w := &world{t: t, folder: t.TempDir(), home: t.TempDir()}
	splunk := &collector{key: key}
	index := presettest.Serve(t, splunk.answer)
	channel := presettest.Serve(t, func(presettest.Request) presettest.Reply {
		return presettest.Reply{Status: http.StatusOK, Body: "ok"}
	})
	w.names = append(w.names, "https://splunk.example:8088", index.URL, "https://hooks.slack.com", channel.URL)
	w.serve("https://sensor.example", "127.0.0.1:9600")
	cards := func(text string) (n int) {
		for _, r := range channel.Requests() {
			var card struct{ Text string }
			require.NoError(t, json.Unmarshal(r.Body, &card), "Slack received", string(r.Body))
			if r.Path == "/services/T0/B0/a-hook" && card.Text != "" && strings.Contains(string(r.Body), text) {
				n++
			}
		}
		return n
	}
	w.write(w.home+"/hq.key", standin.DefaultAPIKey)
	w.write(w.home+"/splunk.key", key)
	w.write(w.home+"/slack.url", w.place("https://hooks.slack.com/services/T0/B0/a-hook"))

	s := newSession(t, w.home, w.environment(w.home))
	run := func(heading, text string) string {
		t.Helper()
		output, err := s.run(w.place(text))
		output = w.shown(output)
		fmt.Fprintf(t.Output(), "\n== %s\n$ %s\n%s", heading, strings.ReplaceAll(text, "\n", "\n> "), output)
		require.NoError(t, err, text, output, w.log())
		return output
	}
	// Within the root there is only the package. The port may be taken by another bridge.
	run("Prepare", `ROOT=`+w.folder+`
mkdir -p $ROOT/var/lib/dpkg $ROOT/root && touch $ROOT/var/lib/dpkg/status && mv *.key slack.url $ROOT/root/
enter=($(command -v chroot) $ROOT); [ $(id -u) = 0 ] || enter=($(command -v unshare) --map-root-user --root=$ROOT)
ndrbridge() { "${enter[@]}" /usr/bin/ndrbridge "$@"; }
export NDRBRIDGE_ADMIN_LISTEN=127.0.0.1:9600`)

	var start, reload string
	for _, next := range typedIn(t, pageAt(t, page)) {
		text := strings.TrimSpace(remark.ReplaceAllString(next.text, ""))
		switch words := strings.Fields(text); {
		case words[0] == "apt":
			deb := words[len(words)-1]
			buildPackage(t, filepath.Join(w.home, deb))
			assert.Contains(t, run("The package", "dpkg-deb --info "+deb+"; dpkg-deb --contents "+deb), " Package: ndrbridge\n Version: 1.0.0\n", "the control file is")
			run("Its scripts", "dpkg-deb --control "+deb+" control && sh -n control/postinst && sh -n control/prerm && cat control/postinst control/prerm")
			run("Install", "dpkg --root=$ROOT --force-not-root --force-bad-path --force-script-chrootless --install "+deb+" && ndrbridge version")
			// It reports unknown settings and still succeeds.
			assert.Equal(t, run("The unit", `cp /usr/lib/systemd/system/*.target $ROOT/usr/lib/systemd/system/ && cp /usr/bin/env $ROOT/usr/bin/
systemd-analyze --root=$ROOT verify ndrbridge.service`), "", "systemd reports")
		case strings.HasPrefix(text, "ndrbridge config new"):
			assert.Contains(t, run("Configure", text+` \
  --appliance https://sensor.example --api-key-file /root/hq.key \
  --value splunk_hec.url=https://splunk.example:8088 --secret-file splunk_hec=/root/splunk.key --secret-file slack=/root/slack.url`),
				"  ndrbridge check --connect\n  ndrbridge send splunk-hec   # a test message\n  systemctl enable --now ndrbridge\n", "next")
			run("The configuration", "cat $ROOT/etc/ndrbridge/ndrbridge.yaml")
			// The user of the service reads the file, but not the secrets.
			assert.Equal(t, run("Its files", "cd $ROOT/etc/ndrbridge && stat -c '%a %n' ndrbridge.yaml secrets secrets/* && cd"),
				"644 ndrbridge.yaml\n700 secrets\n600 secrets/hq.key\n600 secrets/slack.url\n600 secrets/splunk_hec.key\n", "modes")
		case text == "systemctl enable --now ndrbridge":
			start, reload = serviceOf(t, w)
			run("Run", start)
		default:
			run("Check", text)
		}
	}
	assert.Equal(t, len(splunk.of("ndrbridge:event", transform.TestTitle)), 1, "test events in Splunk")
	assert.Equal(t, cards(transform.TestTitle), 1, "test cards in Slack")

	began := time.Now()
	for len(splunk.of("ndrbridge:detection", `"type":"io.ndrbridge.detection.`)) == 0 || cards(`"blocks"`) < 2 {
		if time.Since(began) > patience {
			t.Fatalf("after %s Splunk has %d detections and Slack %d cards beside the test's\n%s",
				patience, len(splunk.of("ndrbridge:detection", "")), cards("")-1, w.log())
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Fprintf(t.Output(), "\nSplunk has indexed the first detection:\n%s\nSlack has received the first card:\n%s\n",
		splunk.of("ndrbridge:detection", "")[0], channel.Requests()[1].Body)
	run("Is it healthy", "mv $ROOT/etc/ndrbridge/secrets.unreadable $ROOT/etc/ndrbridge/secrets; ndrbridge status --exit-code")
	run("Status", "ndrbridge status")
	run("Reload", reload)
	run("Stop", "kill -TERM $bridge && wait $bridge")
}

func pageAt(t *testing.T, path string) docs.Document {
	t.Helper()
	all := read(t)
	i := slices.IndexFunc(all, func(d docs.Document) bool { return d.Path == path })
	require.True(t, i >= 0, "there is no", path)
	return all[i]
}

// buildPackage builds the Debian package of a release, with the hooks, the flags and the contents
// that .goreleaser.yaml has.
func buildPackage(t *testing.T, deb string) {
	t.Helper()
	run := func(environment []string, name string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir, command.Env = root, append(os.Environ(), environment...)
		output, err := command.CombinedOutput()
		require.NoError(t, err, name, args, string(output))
	}
	var text bytes.Buffer
	source := require.Value(os.ReadFile(filepath.Join(root, ".goreleaser.yaml")))(t)
	parsed := require.Value(template.New("").Option("missingkey=error").Parse(string(source)))(t)
	require.NoError(t, parsed.Execute(&text, map[string]string{
		"Version": "1.0.0", "FullCommit": "unknown", "CommitDate": "2026-01-02T03:04:05Z", "CommitTimestamp": "1767323045",
	}))
	var release struct {
		ProjectName string `yaml:"project_name"`
		Before      struct{ Hooks []string }
		Builds      []struct {
			Main                string
			Env, Flags, Ldflags []string
		}
		Packages []map[string]any `yaml:"nfpms"`
	}
	require.NoError(t, yaml.Unmarshal(text.Bytes(), &release))
	for _, hook := range release.Before.Hooks {
		run(nil, "sh", "-c", hook)
	}
	build, config := release.Builds[0], release.Packages[0]
	binary := filepath.Join(t.TempDir(), release.ProjectName)
	run(build.Env, "go", slices.Concat([]string{"build", "-o", binary, "-ldflags", strings.Join(build.Ldflags, " ")}, build.Flags, []string{build.Main})...)

	// What goreleaser adds.
	delete(config, "formats")
	config["name"], config["version"], config["arch"] = release.ProjectName, "1.0.0", runtime.GOARCH
	config["contents"] = append(config["contents"].([]any), map[string]any{"src": binary, "dst": "/usr/bin/" + release.ProjectName})
	file := filepath.Join(t.TempDir(), "nfpm.yaml")
	require.NoError(t, os.WriteFile(file, require.Value(yaml.Marshal(config))(t), 0o600))
	run(nil, "go", "run", nfpm, "package", "--config", file, "--packager", "deb", "--target", deb)
}

// serviceOf returns the statements that start the command of the installed unit, with its
// environment and credentials, in place of systemd, and those that reload it.
func serviceOf(t *testing.T, w *world) (start, reload string) {
	t.Helper()
	const credentials = "/run/credentials/ndrbridge.service"
	unit := string(require.Value(os.ReadFile(w.folder + "/usr/lib/systemd/system/ndrbridge.service"))(t))
	values := func(key string) (all []string) {
		for _, found := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(unit, -1) {
			all = append(all, strings.NewReplacer("%S", "/var/lib", "%d", credentials).Replace(found[1]))
		}
		require.True(t, len(all) > 0, "the unit has no", key)
		return all
	}
	environment := "env -i " + strings.Join(values("Environment"), " ") + " NDRBRIDGE_ADMIN_LISTEN=127.0.0.1:9600"
	id, folder, _ := strings.Cut(values("LoadCredential")[0], ":")
	// Whoever runs the service cannot read the secrets themselves.
	start = fmt.Sprintf(`mkdir -p -m 700 $ROOT%[1]s
for file in $ROOT%[2]s/*; do install -m 400 $file $ROOT%[1]s/%[3]s_${file##*/}; done
mv $ROOT%[2]s $ROOT%[2]s.unreadable
%[4]s "${enter[@]}" %[5]s >>bridge.out 2>>bridge.log & bridge=$!`, credentials, folder, id, environment, values("ExecStart")[0])
	var commands []string
	for _, command := range values("ExecReload") {
		settings, program, _ := strings.Cut(strings.TrimPrefix(command, "+/usr/bin/env "), " /usr/bin/")
		commands = append(commands, environment+" "+settings+` "${enter[@]}" /usr/bin/`+program)
	}
	return start, strings.Join(commands, " &&\n")
}

// collector is Splunk's HTTP Event Collector, for a token with indexer acknowledgement. Events
// are indexed when the second query asks for them.
type collector struct {
	key string

	mu      sync.Mutex
	batches [][]indexed
	asked   []int // queries, by batch
}

type indexed struct {
	SourceType string
	Event      json.RawMessage
}

func (c *collector) answer(r presettest.Request) presettest.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := func(status int, body string, args ...any) presettest.Reply {
		return presettest.Reply{Status: status, Body: fmt.Sprintf(body, args...)}
	}
	switch {
	case r.Path == "/services/collector/health":
		return reply(http.StatusOK, `{"text":"HEC is healthy","code":17}`)
	case r.Header.Get("Authorization") != "Splunk "+c.key:
		return reply(http.StatusForbidden, `{"text":"Invalid token","code":4}`)
	case r.Header.Get("X-Splunk-Request-Channel") == "":
		return reply(http.StatusBadRequest, `{"text":"Data channel is missing","code":10}`)
	case r.Path == "/services/collector/ack":
		var query struct{ Acks []int }
		if err := json.Unmarshal(r.Body, &query); err != nil || len(query.Acks) != 1 {
			return reply(http.StatusBadRequest, `{"text":"Invalid data format","code":6}`)
		}
		id, done := query.Acks[0], false
		if id < len(c.asked) {
			c.asked[id]++
			done = c.asked[id] > 1
		}
		return reply(http.StatusOK, `{"acks":{"%d":%t}}`, id, done)
	case r.Path != "/services/collector/event":
		return reply(http.StatusNotFound, `{"text":"The requested URL was not found on this server.","code":404}`)
	}
	var batch []indexed
	for decoder := json.NewDecoder(bytes.NewReader(r.Body)); decoder.More(); {
		var e indexed
		if err := decoder.Decode(&e); err != nil || len(e.Event) == 0 {
			return reply(http.StatusBadRequest, `{"text":"Invalid data format","code":6}`)
		}
		batch = append(batch, e)
	}
	c.batches, c.asked = append(c.batches, batch), append(c.asked, 0)
	return reply(http.StatusOK, `{"text":"Success","code":0,"ackId":%d}`, len(c.asked)-1)
}

// of returns the events of a source type that are indexed and have a text.
func (c *collector) of(sourceType, text string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, batch := range c.batches {
		for _, e := range batch {
			if c.asked[id] > 1 && e.SourceType == sourceType && bytes.Contains(e.Event, []byte(text)) {
				found = append(found, string(e.Event))
			}
		}
	}
	return found
}
