package configs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestExamplesLoad(t *testing.T) {
	for _, path := range []string{"example.yaml", "minimal.yaml"} {
		t.Run(path, func(t *testing.T) {
			config, err := Load(Source{Paths: []string{path}, Environ: []string{"NDRBRIDGE_APPLIANCES_0_API_KEY_FILE=" + writeFile(t, "a key")}})
			require.NoError(t, err)
			assert.True(t, len(config.Appliances) == 1 && len(config.Sinks) != 0, "has", len(config.Appliances), "appliances and", len(config.Sinks), "sinks")
		})
	}
}

func TestExampleIsItsFile(t *testing.T) {
	file := require.Value(os.ReadFile("example.yaml"))(t)
	assert.Equal(t, string(file), string(Example()), "Example gives something else")
}

// all is the example with the keys that are off put on. It is not a configuration,
// since some of them exclude each other.
func all(t *testing.T) []byte {
	t.Helper()
	off := regexp.MustCompile(`(?m)^( *)#([a-z-])`)
	require.True(t, off.Match(Example()), "no key is off")
	return off.ReplaceAll(Example(), []byte("$1$2"))
}

func TestExampleHasEveryKey(t *testing.T) {
	p, _, _ := decode([]file{{name: "example.yaml", data: all(t)}}, Source{})
	require.True(t, len(p.errors) == 0, p.errors)
	index := regexp.MustCompile(`\[\d+\]`)
	var shown []string
	for path := range p.at {
		shown = append(shown, index.ReplaceAllString(strings.ReplaceAll(path, ".rules[0]", ""), "[0]"))
	}
	for _, path := range keyPaths() {
		assert.True(t, slices.Contains(shown, strings.ReplaceAll(path, ".rules[0]", "")), path, "is not in the example")
	}
}

// What the example shows as a default is one.
func TestExampleShowsDefaults(t *testing.T) {
	key := writeFile(t, "a key")
	example, err := Parse("example.yaml", Example(), []string{"NDRBRIDGE_APPLIANCES_0_API_KEY_FILE=" + key})
	require.NoError(t, err)
	short := parse(t, `
appliances: [{name: hq, url: "https://sensor.example"}]
sinks:
  - {name: lake, kafka: {brokers: ["127.0.0.1:9092"]}}
  - {name: bus, nats: {url: "nats://127.0.0.1:4222", stream: NDR, create_stream: true}}
  - {name: soc, webhook: {url: "https://hooks.example/x"}, mode: batch}
  - {name: siem, syslog: {address: "siem.example:6514"}}
  - {name: log, file: {path: "-"}}
`, "NDRBRIDGE_APPLIANCES_0_API_KEY_FILE="+key)
	assert.DeepEqual(t, example, short, "the example", "the defaults are")
}
