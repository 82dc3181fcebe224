// Command reference generates the JSON Schema and the reference of the configuration from
// the types of package configs, from their tags and doc comments. make reference runs it
// in the top folder of the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Input folder and generated files, relative to the top folder of the repository.
const (
	folder       = "configs"
	schemaFile   = "configs/schema.json"
	markdownFile = "docs/configuration.md"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write generates the files of the repository at top.
func write(top string) error {
	files, err := files(top)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files returns the expected contents of the generated files of the repository at top, by
// name.
func files(top string) (map[string][]byte, error) {
	s, err := readSource(filepath.Join(top, folder))
	if err != nil {
		return nil, err
	}
	schema, err := s.schema()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{schemaFile: schema, markdownFile: s.markdown()}, nil
}
