package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
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

func TestNewConfigurationsLoadAndTheirSinksOpen(t *testing.T) {
	t.Parallel()
	var all []string
	for _, s := range endpoint.Examples() {
		all = append(all, s.Name)
	}
	for _, preset := range presets.Names() {
		assert.Contains(t, " "+strings.Join(all, " ")+" ", " "+preset+" ", "there is no choice for the preset", preset)
	}
	choices := [][]string{all, append(all[:len(all):len(all)], "--tickets"), {"stdout", "--tickets", "--name", "dc-2", "--appliance", "https://10.0.0.1:8443"}}
	for _, name := range all {
		choices = append(choices, []string{name})
	}
	for _, args := range choices {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
			configNew(t, 0, append(args, "--output", file)...)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source := configs.Source{Paths: []string{file}}
			if _, err := configs.Load(source); err == nil || !strings.Contains(err.Error(), ".key") {
				t.Errorf("without the secrets: %v", err)
			}
			for _, secret := range regexp.MustCompile(`_file: \./([a-z0-9_-]+\.(?:key|creds))`).FindAllStringSubmatch(string(text), -1) {
				require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), secret[1]), []byte("0123456789abcdef0123456789abcdef"), 0o600))
			}
			config, err := configs.Load(source)
			require.NoError(t, err, string(text))
			assert.NoError(t, errors.Join(bridge.Try(t.Context(), config, "test")...), string(text))
		})
	}
}

func TestTheCommentedKeysOfANewConfigurationAreValid(t *testing.T) {
	t.Parallel()
	for _, s := range endpoint.Examples() {
		text := regexp.MustCompile(`(?m)^( +)#([a-z_]+: )`).ReplaceAllString(configNew(t, 0, s.Name), "$1$2")
		source := configs.Source{Paths: []string{writeFile(t, "ndrbridge.yaml", text, 0o600)}, WithoutSecrets: true}
		if _, err := configs.Load(source); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
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
		{"an appliance on two lines", []string{"nats", "--appliance", "https://sensor.example\nsinks: []"}, 2, "--appliance must be"},
		{"a name with capitals", []string{"nats", "--name", "HQ"}, 2, "--name must be 1 to 63 of"},
		{"a name that is too long", []string{"nats", "--name", strings.Repeat("a", 64)}, 2, "--name must be 1 to 63 of"},
		{"the name of the bridge's own events", []string{"nats", "--name", "bridge"}, 2, "and not bridge"},
		{"a file that exists", []string{"nats", "--output", there}, 1, "exists; choose another file, or overwrite it with --force"},
		{"overwriting standard output", []string{"nats", "--force"}, 2, "--force requires --output"},
		{"a folder that does not exist", []string{"nats", "--output", there + "/x/y"}, 1, "write the configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Contains(t, configNew(t, c.exit, c.args...), c.want, "it prints")
		})
	}
	configNew(t, 0, "nats", "--output", there, "--force")
	assert.Contains(t, string(require.Value(os.ReadFile(there))(t)), "nats:", "it was not overwritten")
}
