//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/require"
	"ndrbridge/test/siem"
)

// TestParsersOfOthersReadCEFAndLEEF reads the lines in transform/format/testdata, which are
// those of every kind of event, with the package cefp and with Vector's remap language. They
// find what the strict reader finds, except that Vector removes quotes around a value, and
// takes \r for \n.
func TestParsersOfOthersReadCEFAndLEEF(t *testing.T) {
	var names, lines []string
	for _, file := range []string{"cef.txt", "leef.txt"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "transform", "format", "testdata", file))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if name, found := strings.CutPrefix(line, "# "); found {
				names = append(names, file+": "+strings.TrimSpace(name))
			} else {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) < 100 || len(names) != len(lines) {
		t.Fatalf("there are %d lines with %d names", len(lines), len(names))
	}
	answers := parseLines(t, lines)
	if len(answers) != len(lines) {
		t.Fatalf("%d of %d lines were parsed", len(answers), len(lines))
	}
	for i, line := range lines {
		read := siem.ReadCEF
		if strings.HasPrefix(line, "LEEF:") {
			read = siem.ReadLEEF
		}
		want, err := read(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
		for parser, got := range answers[i] {
			expected := want
			if parser == "vrl" {
				expected = byVector(want)
			}
			if !slices.Equal(got.Header, expected.Header) {
				t.Errorf("%s: %s reads the header %q, not %q", names[i], parser, got.Header, expected.Header)
			}
			if !maps.Equal(got.Keys, expected.Keys) {
				for key, value := range expected.Keys {
					if got.Keys[key] != value {
						t.Errorf("%s: %s reads %s as %q, not %q", names[i], parser, key, got.Keys[key], value)
					}
				}
				for key := range got.Keys {
					if _, expects := expected.Keys[key]; !expects {
						t.Errorf("%s: %s reads a key %s", names[i], parser, key)
					}
				}
			}
		}
	}
}

// byVector returns a document as Vector reads it.
func byVector(d siem.Document) siem.Document {
	keys := make(map[string]string)
	for key, value := range d.Keys {
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		keys[key] = strings.ReplaceAll(value, "\r", "\n")
	}
	return siem.Document{Header: d.Header, Keys: keys}
}

// parseLines returns what each parser reads in each line.
func parseLines(t *testing.T, lines []string) (answers []map[string]siem.Document) {
	t.Helper()
	parse := exec.Command(filepath.Join(installPython(t, "siem.txt"), "python"), "siem.py")
	parse.Stdin = strings.NewReader(strings.Join(lines, ""))
	var complaint bytes.Buffer
	parse.Stderr = &complaint
	contain(parse)
	output, err := parse.Output()
	if err != nil {
		t.Fatalf("parse the lines: %v\n%s", err, &complaint)
	}
	for answer := range bytes.Lines(output) {
		var documents map[string]siem.Document
		if err := json.Unmarshal(answer, &documents); err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
		answers = append(answers, documents)
	}
	return answers
}
