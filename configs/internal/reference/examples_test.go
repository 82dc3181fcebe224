package main

import (
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// check holds a configuration against Load and the schema.
func check(t *testing.T, config any) {
	t.Helper()
	config = writeFiles(t).replace(config)
	if _, err := load(t, config); err != nil {
		t.Error("Load:", err)
	}
	if err := wholeSchema().Validate(config); err != nil {
		t.Error("the schema:", err)
	}
}

func TestConfigurationsOfTheRepositoryAreValid(t *testing.T) {
	var found []string
	for _, pattern := range []string{"configs/example.yaml", "configs/minimal.yaml", "deploy/*/ndrbridge.yaml", "deploy/*/*/ndrbridge.yaml"} {
		files := require.Value(filepath.Glob(filepath.Join(top, pattern)))(t)
		found = append(found, files...)
	}
	assert.True(t, len(found) >= 6, "found", found)
	for _, path := range found {
		t.Run(path, func(t *testing.T) {
			text := require.Value(os.ReadFile(path))(t)
			check(t, tree(t, string(text)))
		})
	}
}
