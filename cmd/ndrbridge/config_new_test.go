package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks/webhook/presets"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

// configNew runs config new and returns what it prints.
func configNew(t *testing.T, exit int, args ...string) string {
	t.Helper()
	got, out, errs := try(t, append([]string{"config", "new"}, args...)...)
	if got != exit {
		t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, exit, out, errs)
	}
	return out + errs
}

// newFlags returns flags with a value and a secret for each question of the examples.
func newFlags(t *testing.T, names ...string) (flags []string) {
	t.Helper()
	o := newConfig{name: "hq"}
	for _, e := range endpoint.Examples() {
		if slices.Contains(names, e.Name) {
			o.sinks = append(o.sinks, e)
		}
	}
	for _, e := range o.examples() {
		secrets := 0
		questions(e.YAML, func(q question) string {
			switch {
			case q.secret:
				secrets++
				text := "0123456789abcdef0123456789abcdef\n"
				if q.key == "url_file" {
					text = "https://hooks.example/a-hook\n"
				}
				flags = append(flags, "--secret-file", e.Name+"="+writeFile(t, q.value, text, 0o600))
			default:
				flags = append(flags, "--value", e.Name+"."+q.key+"="+ownValue(q.value))
			}
			return ""
		})
		assert.True(t, secrets <= 1, e.Name, "has", secrets, "secrets, and --secret-file gives one")
	}
	return flags
}

func TestNewConfigurationsLoadAndTheirSinksOpen(t *testing.T) {
	t.Parallel()
	all := exampleNames()
	for _, preset := range presets.Names() {
		assert.True(t, slices.Contains(all, preset), "there is no choice for the preset", preset)
	}
	choices := [][]string{all, append(all[:len(all):len(all)], "--tickets"), {"stdout", "--tickets", "--name", "dc-2"}}
	for _, name := range all {
		choices = append(choices, []string{name})
	}
	for _, args := range choices {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
			source := configs.Source{Paths: []string{file}}
			args := append(args, "--output", file)
			configNew(t, 0, args...)
			_, err := configs.Load(source)
			assert.ErrorContains(t, err, "appliances[0].url: is still the example that config new wrote; fill in your own value")
			assert.ErrorContains(t, err, ".key: no such file or directory", "without the secrets")
			configNew(t, 0, append(append(args, "--force"), newFlags(t, args...)...)...)
			config := require.Value(configs.Load(source))(t)
			for _, s := range config.Sinks {
				preset, _ := presets.Find(s.Preset())
				assert.Equal(t, s.Notified(), preset.Chat, "notify has", s.Name)
			}
			assert.NoError(t, errors.Join(bridge.Try(t.Context(), config, "test")...))
		})
	}
}

func TestTheCommentedKeysOfANewConfigurationAreValid(t *testing.T) {
	t.Parallel()
	for _, s := range endpoint.Examples() {
		text := regexp.MustCompile(`(?m)^( +)#([a-z_]+: )`).ReplaceAllString(configNew(t, 0, s.Name), "$1$2")
		text = strings.ReplaceAll(text, "dcr-REPLACE", "dcr-"+strings.Repeat("1", 32))
		source := configs.Source{Paths: []string{writeFile(t, "ndrbridge.yaml", text, 0o600)}, WithoutSecrets: true}
		if _, err := configs.Load(source); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestNewConfigurationsKeepTheOrderOfTheSinks(t *testing.T) {
	t.Parallel()
	printed := configNew(t, 0, "slack", "nats", "splunk_hec", "--value", "nats.url=nats://a.example,nats://b.example")
	found := regexp.MustCompile(`(?m)^  - name: (.*)$`).FindAllStringSubmatch(printed, -1)
	var names []string
	for _, f := range found {
		names = append(names, f[1])
	}
	assert.EqualSlices(t, names, []string{"hq", "slack", "nats", "splunk-hec"})
	assert.Contains(t, printed, `url: "nats://a.example,nats://b.example"`)
}

func TestNewConfigurationsSendPeopleNothingOld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, start string
		sinks       []string
	}{
		{"a pager, a chat and tickets alone begin now", "now", []string{"pagerduty", "slack", "teams", "discord", "jira", "servicenow", "rt", "redmine"}},
		{"a chat beside a log platform begins now", "now", []string{"splunk_hec slack"}},
		{"log platforms and buses begin with yesterday", "-1d", []string{"splunk_hec", "kafka", "stdout", "webhook", "sentinel nats"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, sinks := range c.sinks {
				assert.Contains(t, configNew(t, 0, strings.Fields(sinks)...), "detections: {start: "+c.start+"}")
			}
		})
	}
}

func TestNewConfigurationsHaveTheirSecretsInFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, folder, path, printed string
		mode                        os.FileMode
	}{
		{"beside it", ".", "hq.key", "api_key_file: ./hq.key", 0o600},
		{"in the folder of the package", "secrets", "secrets/hq.key", `api_key_file: "${NDR_SECRETS:-./secrets/}hq.key"`, 0o644},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(folder, c.folder), 0o700))
			file := filepath.Join(folder, "ndrbridge.yaml")
			args := []string{"config", "new", "stdout", "--output", file, "--appliance", "https://sensor.example", "--api-key-file", "-"}
			code, out, errs := new(command).try(t, "first-api-key\n", args...)
			require.Equal(t, code, 0, out, errs)
			assert.NotContains(t, out+errs, "first-api-key")
			text := string(require.Value(os.ReadFile(file))(t))
			assert.Contains(t, text, c.printed)
			assert.NotContains(t, text, "first-api-key")
			secret := filepath.Join(folder, c.path)
			for path, mode := range map[string]os.FileMode{file: c.mode, secret: 0o600} {
				assert.Equal(t, require.Value(os.Stat(path))(t).Mode().Perm(), mode, path, "has the mode")
			}
			config := require.Value(configs.Load(configs.Source{Paths: []string{file}}))(t)
			assert.Equal(t, require.Value(config.Appliances[0].APIKey.Read())(t), "first-api-key")

			require.NoError(t, os.Remove(file))
			code, _, errs = new(command).try(t, "second-api-key\n", args...)
			assert.Equal(t, code, 1, "the exit code where the secret exists")
			assert.Contains(t, errs, secret+" exists; choose another file, or overwrite it with --force")
			assert.Equal(t, string(require.Value(os.ReadFile(secret))(t)), "first-api-key\n")
			code, _, errs = new(command).try(t, "", append(args[:len(args)-1:len(args)-1], secret)...)
			assert.Equal(t, code, 0, "the exit code where the file given is the secret's own", errs)
			require.NoError(t, os.Chmod(file, 0o640))
			code, _, errs = new(command).try(t, "second-api-key\n", append(args, "--force")...)
			require.Equal(t, code, 0, errs)
			assert.Equal(t, string(require.Value(os.ReadFile(secret))(t)), "second-api-key\n")
			assert.Equal(t, require.Value(os.Stat(file))(t).Mode().Perm(), 0o640, "overwriting changed the mode to")
			left := require.Value(os.ReadDir(folder))(t)
			assert.Equal(t, len(left), 2, "files that are left:", left)
		})
	}
}

// On a terminal the command asks for what is missing and tries the result.
func TestNewConfigurationsAreAskedForOnATerminal(t *testing.T) {
	t.Parallel()
	appliance := httptest.NewServer(standin.New(standin.Options{Seed: 1}))
	t.Cleanup(appliance.Close)
	var posted locked.Buffer
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&posted, r.Body) }))
	t.Cleanup(chat.Close)
	file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	typed := strings.Join([]string{appliance.URL, standin.DefaultAPIKey, chat.URL + "/a-hook", "y", "n"}, "\n") + "\n"
	code, out, errs := (&command{interactive: true}).try(t, typed, "config", "new", "slack", "stdout", "--output", file)
	require.Equal(t, code, 0, out, errs)
	for _, want := range []string{
		"appliance url (only scheme and host), such as https://sensor.example.com: ",
		"appliance api_key (the API key and nothing else), not shown: ",
		"Slack: create an app with an incoming webhook", "slack url (the URL of the incoming webhook, which is a secret), not shown: ",
		"wrote " + file, "ndrbridge check --connect --config " + file + "\n",
	} {
		assert.Contains(t, errs, want)
	}
	assert.Contains(t, out, "it would work")
	assert.Contains(t, errs, "Send a test message to slack? [y/N] Send a test message to stdout? [y/N] next:\n")
	assert.Contains(t, posted.String(), "Test event of ndrbridge", "the chat has no test message")
	config := require.Value(configs.Load(configs.Source{Paths: []string{file}}))(t)
	assert.Equal(t, require.Value(config.Sinks[0].Webhook.ReadURL())(t).Value(), chat.URL+"/a-hook")

	require.NoError(t, os.Remove(file))
	code, out, errs = (&command{interactive: true}).try(t, "\n", "config", "new", "slack", "--output", file)
	assert.Equal(t, code, 78, "the exit code after no answer", out, errs)
	assert.Contains(t, errs, "hq.key exists and is kept")
	assert.Contains(t, errs, "appliances[0].url: is still the example that config new wrote")
}

func TestNewConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	configNew(t, 0, "stdout", "--output", there)
	for _, c := range []struct {
		name string
		args []string
		exit int
		want string
	}{
		{"no sink", nil, 2, "name the sinks: stdout, file, kafka"},
		{"an unknown sink", []string{"carrier-pigeon"}, 2, `there is no sink "carrier-pigeon"; choose from stdout`},
		{"a sink twice", []string{"nats", "nats"}, 2, "nats is named twice"},
		{"an appliance with a path", []string{"nats", "--appliance", "https://sensor.example/api"}, 2, "--appliance must be a scheme and a host"},
		{"an appliance on two lines", []string{"nats", "--appliance", "https://sensor.example\nsinks: []"}, 2, "appliance.url has no value, or one with a control character"},
		{"a name with capitals", []string{"nats", "--name", "HQ"}, 2, "--name must be 1 to 63 of"},
		{"a name that is too long", []string{"nats", "--name", strings.Repeat("a", 64)}, 2, "--name must be 1 to 63 of"},
		{"the name of the bridge's own events", []string{"nats", "--name", "bridge"}, 2, "and not bridge"},
		{"a file that exists", []string{"nats", "--output", there}, 1, "exists; choose another file, or overwrite it with --force"},
		{"overwriting standard output", []string{"nats", "--force"}, 2, "--force, --api-key-file and --secret-file require --output"},
		{"a folder that does not exist", []string{"nats", "--output", there + "/x/y"}, 1, "write " + there + "/x/y: "},
		{"a key that the sink does not have", []string{"nats", "--value", "nats.stream=X"}, 2, `there is no "nats.stream"; choose from appliance.url, nats.url`},
		{"a value without a text", []string{"nats", "--value", "nats.url"}, 2, "nats.url has no value"},
		{"a secret of a sink that has none", []string{"nats", "--output", there + "2", "--secret-file", "nats=f"}, 2, `"nats" has no secret; choose from appliance`},
		{"a secret's file that does not exist", []string{"slack", "--output", there + "2", "--secret-file", "slack=/nonexistent"}, 1, "secret of slack: "},
		{"an empty secret", []string{"slack", "--output", there + "2", "--api-key-file", "-"}, 1, "secret of appliance: standard input is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Contains(t, configNew(t, c.exit, c.args...), c.want, "it prints")
		})
	}
	configNew(t, 0, "nats", "--output", there, "--force")
	assert.Contains(t, string(require.Value(os.ReadFile(there))(t)), "nats:", "it was not overwritten")
}

// A URL in a file is like other secrets: the file is read again when the URL is rejected.
func TestURLInAFileIsReadAgainWhenItIsRejected(t *testing.T) {
	t.Parallel()
	old, current := receive(t), receive(t)
	old.forbidden.Store(true)
	file := writeFile(t, "soc.url", old.url+"\n", 0o600)
	i := install(t, fmt.Sprintf(`- {name: soc, webhook: {url_file: %s}, start: beginning, probe: 20ms, batch: {linger: 1ms}}`, file))
	i.appliance.AddMany(1)
	i.start()
	i.awaitSink("halted", func(s admin.SinkStatus) bool { return s.State == "halted" })
	require.NoError(t, os.WriteFile(file, []byte(current.url+"\n"), 0o600))
	await(t, "the event at the new URL", func() bool { return current.taken.Load() == 1 })
	status, _ := i.run(0, append([]string{"status", "--json"}, i.byAddress()...)...)
	assert.Contains(t, status, strings.TrimPrefix(current.url, "http://"), "the status has the sink's host")
}

func TestStartWarnsOfAConfigurationWithSecretsThatOthersMayRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		mode   os.FileMode
		warned bool
	}{{"others may read it", 0o644, true}, {"only the owner may", 0o600, false}} {
		t.Run(c.name, func(t *testing.T) {
			i := install(t)
			require.NoError(t, os.Chmod(i.config, c.mode))
			ctx, stop := context.WithCancel(t.Context())
			var log locked.Buffer
			done := make(chan error, 1)
			go func() {
				done <- (&command{environ: []string{"GOGC=100"}, stdin: strings.NewReader(""), stdout: io.Discard, stderr: &log, configFiles: []string{i.config}}).serve(ctx)
			}()
			await(t, "the start", func() bool { return strings.Contains(log.String(), "msg=running") || len(done) > 0 })
			stop()
			require.NoError(t, <-done)
			warning := "everybody on this machine may read " + i.config + ", and it contains secrets, such as "
			assert.Equal(t, strings.Contains(log.String(), warning), c.warned, log.String())
		})
	}
}
