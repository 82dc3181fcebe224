package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// Whatever Load takes the schema takes: configurations are the example and everything
// with some of their keys changed, added and dropped, or with none, which Load always takes.
func TestSchemaAcceptsGeneratedConfigurations(t *testing.T) {
	files := writeFiles(t)
	text := require.Value(os.ReadFile(filepath.Join(top, folder, "example.yaml")))(t)
	bases := []any{files.replace(tree(t, string(text))), tree(t, everything), tree(t, valid)}
	keys := allKeys()
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		config := copied(rapid.SampledFrom(bases).Draw(t, "base"))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			k := rapid.SampledFrom(keys).Draw(t, "key")
			var values []any
			if tag := k.field.Tag.Get("oneof"); tag != "" {
				for _, value := range presets.Expand(tag) {
					values = append(values, value, []any{value})
				}
			}
			values = append(values, nil, "", "a", "x.example", "https://h.example/a", "nats://h:4222", "h:9092", "{}", aSecret,
				"1h", "2m", "0s", 0, 1, 5, 500, 0.5, 1024, "64MiB", "now", "-7d", true, false, []any{}, []any{"a"}, []any{"a:1"},
				map[string]any{}, map[string]any{"high": "1"}, map[string]any{"field": "a", "operator": "=", "operand": 1})
			value := rapid.SampledFrom(values).Draw(t, "value")
			if strings.HasSuffix(k.path, "_file") && value != nil && value != "" {
				value = files.secret
			}
			put(config, k.path, value)
			// Kinds exclude each other, and so do half of the keys of a webhook.
			if drop := rapid.SampledFrom(keys).Draw(t, "dropped"); rapid.Bool().Draw(t, "drop") {
				put(config, drop.path, nil)
			}
		}
		if _, err := load(t, config); err != nil {
			return
		}
		taken++
		assert.NoError(t, wholeSchema().Validate(config), "Load takes it")
	})
	if taken == 0 {
		t.Error("Load took none")
	}
}
