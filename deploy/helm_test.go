package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestTheReferenceOfTheChartsValuesIsCurrent rewrites the schema of the chart's values if
// UPDATE is set: helm/schema.json, and that of the configuration for the value config.
func TestTheReferenceOfTheChartsValuesIsCurrent(t *testing.T) {
	const file = "helm/ndrbridge/values.schema.json"
	decode := func(data []byte) (schema map[string]any) {
		require.NoError(t, json.Unmarshal(data, &schema))
		return schema
	}
	values, configuration := decode([]byte(read(t, "helm/schema.json"))), decode(configs.Schema())
	definitions := map[string]any{"configuration": configuration}
	maps.Copy(definitions, configuration["$defs"].(map[string]any))
	delete(configuration, "$defs")
	delete(configuration, "$schema")
	values["$defs"] = definitions
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(values))
	isCurrent(t, file, want.String())
}

// TestTheReferenceOfTheChartsRulesIsCurrent rewrites the chart's copy of the rules if UPDATE is set: a
// chart cannot contain files outside of its folder.
func TestTheReferenceOfTheChartsRulesIsCurrent(t *testing.T) {
	rules := read(t, "prometheus/rules.yaml")
	isCurrent(t, "helm/ndrbridge/files/rules.yaml", rules[strings.Index(rules, "groups:"):])
}

// isCurrent writes want to file if UPDATE is set, and checks that the file contains it.
func isCurrent(t *testing.T, file, want string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	assert.Equal(t, read(t, file), want, file, "is stale: run make reference")
}

// TestTheMemoryLimitIsTheSameEverywhere compares what limits the memory of a bridge.
func TestTheMemoryLimitIsTheSameEverywhere(t *testing.T) {
	const want = "512"
	for file, pattern := range map[string]string{
		"systemd/ndrbridge.service":           `^MemoryMax=(\d+)M$`,
		"compose/compose.yaml":                `^    mem_limit: (\d+)m$`,
		"compose/cluster/compose.yaml":        `^  mem_limit: (\d+)m$`,
		"kubernetes/base/deployment.yaml":     `limits: {memory: (\d+)Mi}$`,
		"kubernetes/cluster/statefulset.yaml": `limits: {memory: (\d+)Mi}$`,
		"helm/ndrbridge/values.yaml":          `limits: {memory: (\d+)Mi}$`,
		"../docs/operations.md":               `A\s+limit\s+of\s+(\d+)\s+MiB`,
	} {
		assert.Equal(t, find(t, file, pattern), want, file, "limits the memory to", "MiB, others to")
	}
}

// TestTheChartRunsWhatTheManifestsRun compares the settings of the container, line by line.
func TestTheChartRunsWhatTheManifestsRun(t *testing.T) {
	normal := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	chart := normal(read(t, "helm/ndrbridge/templates/_helpers.tpl"))
	base := read(t, "kubernetes/base/deployment.yaml")
	_, base, _ = strings.Cut(base, "    spec:\n")
	own := regexp.MustCompile(`serviceAccountName|containerPort|terminationGracePeriodSeconds|image:|httpGet|requests:|limits:|resources:|volumes:|claimName|name: (ndrbridge|state)|configMap|secretName|^#|- name:`)
	compared := 0
	for line := range strings.Lines(base) {
		if line = strings.TrimSpace(line); own.MatchString(line) {
			continue
		}
		compared++
		assert.Contains(t, chart, normal(line), "the chart lacks", line, "of kubernetes/base/deployment.yaml")
	}
	assert.True(t, compared >= 20, "compared only", compared, "lines")
}

// TestTheChartsConfigurationsAreValid loads the value config of each file of values.
func TestTheChartsConfigurationsAreValid(t *testing.T) {
	files := require.Value(filepath.Glob("helm/values/*.yaml"))(t)
	require.True(t, len(files) >= 3)
	for _, file := range append(files, "helm/ndrbridge/values.yaml") {
		t.Run(file, func(t *testing.T) {
			text := read(t, file)
			_, block, found := strings.Cut(text, "\nconfig:\n")
			require.True(t, found, "it has no config")
			var config strings.Builder
			for line := range strings.Lines(block) {
				if !strings.HasPrefix(line, "  ") && strings.TrimSpace(line) != "" {
					break
				}
				config.WriteString(strings.TrimPrefix(line, "  "))
			}
			load(t, file, config.String())
		})
	}
}
