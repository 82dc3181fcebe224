// Command reference makes the JSON Schema and the reference of the configuration from
// the types of package configs: their tags and their doc comments. It is run from the
// top of the repository, by make reference.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The files that are made, from the top of the repository.
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

// write makes the files of the repository at top.
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

// files is what the files of the repository at top should hold, by name.
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
