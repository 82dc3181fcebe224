package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestNoImportRunsUp reads the floors of docs/architecture.md, and the imports of every package
// outside test.
func TestNoImportRunsUp(t *testing.T) {
	floors := readFloors(t)
	floorOf := func(folder string) (floor int, found bool) {
		for ; folder != "."; folder = path.Dir(folder) {
			if floor, found = floors[folder]; found {
				return floor, true
			}
		}
		return 0, false
	}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file = strings.TrimPrefix(filepath.ToSlash(file), root+"/")
		if entry.IsDir() {
			if file == "test" || file == "deploy" || strings.HasPrefix(entry.Name(), ".") && file != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		floor, found := floorOf(path.Dir(file))
		assert.True(t, found, "docs/architecture.md has no floor for", file)
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			folder, ours := strings.CutPrefix(imported, "ndrbridge/")
			if !ours {
				continue
			}
			assert.True(t, !strings.HasPrefix(folder, "test/") || strings.HasPrefix(file, "cmd/"), file, "imports", folder, "which is for tests")
			of, found := floorOf(folder)
			assert.True(t, !found || of >= floor, file, "imports", folder, "which is above it")
		}
		return nil
	})
	require.NoError(t, err)
}

// readFloors returns the floor of each folder in the table of packages, from 1 at the top.
func readFloors(t *testing.T) map[string]int {
	t.Helper()
	text := require.Value(os.ReadFile(filepath.Join(root, "docs/architecture.md")))(t)
	folder := regexp.MustCompile("`([a-z/]+)`")
	floors, floor := make(map[string]int), 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[2]) == "folder" {
			continue
		}
		if strings.TrimSpace(cells[1]) != "" {
			floor++
		}
		for _, found := range folder.FindAllStringSubmatch(cells[2], -1) {
			floors[found[1]] = floor
		}
	}
	require.True(t, floor >= 5, "found", floor, "floors")
	return floors
}
