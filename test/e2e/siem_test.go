//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/test/assert"
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
	require.True(t, len(lines) >= 100 && len(names) == len(lines), "there are", len(lines), "lines with", len(names), "names")
	answers := parseLines(t, lines)
	require.Equal(t, len(answers), len(lines), "lines were parsed")
	for i, line := range lines {
		read := siem.ReadCEF
		if strings.HasPrefix(line, "LEEF:") {
			read = siem.ReadLEEF
		}
		want, err := read(strings.TrimSuffix(line, "\n"))
		require.NoError(t, err, names)
		for parser, got := range answers[i] {
			expected := want
			if parser == "vrl" {
				expected = byVector(want)
			}
			assert.EqualSlices(t, got.Header, expected.Header, names, parser, "reads the header")
			if !maps.Equal(got.Keys, expected.Keys) {
				for key, value := range expected.Keys {
					assert.Equal(t, got.Keys[key], value, names, parser, "reads", key, "as")
				}
				for key := range got.Keys {
					_, expects := expected.Keys[key]
					assert.True(t, expects, names, parser, "reads a key", key)
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
	require.NoError(t, err, "parse the lines", &complaint)
	for answer := range bytes.Lines(output) {
		var documents map[string]siem.Document
		require.NoError(t, json.Unmarshal(answer, &documents), string(answer))
		answers = append(answers, documents)
	}
	return answers
}
