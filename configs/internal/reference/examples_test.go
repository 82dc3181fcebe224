package main

import (
	"os"
	"path/filepath"
	"testing"
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
		files, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	if len(found) < 6 {
		t.Errorf("found %q", found)
	}
	for _, path := range found {
		t.Run(path, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			check(t, tree(t, string(text)))
		})
	}
}
