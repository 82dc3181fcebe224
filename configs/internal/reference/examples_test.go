package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
)

// check holds a configuration against Load and the schema.
func check(t *testing.T, config any) {
	t.Helper()
	config = writeFiles(t).replace(copied(config))
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

func TestExamplesInTheCommentsAreValid(t *testing.T) {
	s, err := readSource(filepath.Join(top, folder))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range s.blocks {
		if b.example == "" {
			continue
		}
		t.Run("that of "+name, func(t *testing.T) {
			config, is := wholeFrom(tree(t, b.example))
			if !is {
				t.Fatal("is no piece of a configuration")
			}
			check(t, config)
		})
	}
}

// keysOf are the keys of a struct.
func keysOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		names = append(names, name, name+"_file")
	}
	return names
}

// wholeFrom makes a configuration of a piece of one: some keys of the file, of an
// appliance, or a list of sinks. It reports whether the piece is one.
func wholeFrom(piece any) (config any, is bool) {
	rest, err := trees([]byte(valid))
	if err != nil {
		panic(err)
	}
	whole := rest[0].(map[string]any)
	switch piece := piece.(type) {
	case map[string]any:
		top, appliance := keysOf(reflect.TypeFor[configs.Config]()), keysOf(reflect.TypeFor[configs.Appliance]())
		ofTop, ofAppliance := 0, 0
		for key := range piece {
			if slices.Contains(top, key) {
				ofTop++
			} else if slices.Contains(appliance, key) {
				ofAppliance++
			}
		}
		switch {
		case ofTop > 0:
			for key, value := range piece {
				whole[key] = value
			}
			return whole, true
		case ofAppliance == len(piece) && ofAppliance > 0:
			for key, value := range piece {
				whole["appliances"].([]any)[0].(map[string]any)[key] = value
			}
			return whole, true
		}
	case []any:
		for _, item := range piece {
			sink, _ := item.(map[string]any)
			for _, kind := range []string{"kafka", "nats", "webhook", "file"} {
				is = is || sink[kind] != nil && sink["name"] != nil
			}
		}
		whole["sinks"] = piece
		// A piece that links tickets needs what the page tells elsewhere.
		whole["tickets"] = map[string]any{"enabled": true}
		return whole, is
	}
	return nil, false
}

var yamlBlock = regexp.MustCompile("(?ms)^ *```ya?ml\n(.*?)^ *```$")

func TestConfigurationsInThePagesAreValid(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			all, err := trees([]byte(dedent(block[1])))
			if err != nil || len(all) != 1 {
				continue // of something else
			}
			if config, is := wholeFrom(all[0]); is {
				found++
				t.Run(fmt.Sprintf("%s, block %d", filepath.Base(page), i+1), func(t *testing.T) { check(t, config) })
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d", found)
	}
}

// dedent takes the blanks away that every line begins with.
func dedent(text string) string {
	least := len(text)
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimLeft(line, " "); strings.TrimSpace(line) != "" {
			least = min(least, len(line)-len(trimmed))
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(line[min(least, len(line)-1):])
	}
	return b.String()
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
