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

func TestExampleFilesAreValid(t *testing.T) {
	for _, name := range []string{"example.yaml", "minimal.yaml"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(top, folder, name))
			if err != nil {
				t.Fatal(err)
			}
			check(t, tree(t, string(text)))
		})
	}
}

func TestConfigurationsOfDeploymentsAreValid(t *testing.T) {
	root := filepath.Join(top, "deploy")
	var found []string
	for _, pattern := range []string{"*/ndrbridge.yaml", "*/*/ndrbridge.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	if len(found) < 4 {
		t.Errorf("found %q", found)
	}
	for _, path := range found {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			check(t, tree(t, string(text)))
		})
	}
}
