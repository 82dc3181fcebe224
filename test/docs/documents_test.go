package docs_test

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/docs"
	"ndrbridge/test/require"
)

// root is the root of the repository.
const root = "../.."

// read returns all documents.
func read(t *testing.T) []docs.Document {
	t.Helper()
	documents := require.Value(docs.Read(root))(t)
	require.True(t, len(documents) >= 2, "only", len(documents), "documents were found")
	return documents
}

// blocks returns the blocks of a language in all documents.
func blocks(t *testing.T, language string) []docs.Block {
	t.Helper()
	var found []docs.Block
	for _, d := range read(t) {
		for _, b := range d.Blocks {
			if b.Language == language {
				found = append(found, b)
			}
		}
	}
	require.True(t, len(found) != 0, "no document has any of "+language)
	return found
}

func TestEveryBlockHasAKnownLanguage(t *testing.T) {
	languages := []string{"yaml", "json", "sh", "console", "text", "mermaid"}
	for _, d := range read(t) {
		for _, b := range d.Blocks {
			assert.True(t, slices.Contains(languages, b.Language), b.Position, "a block of", b.Language, "want one of", languages)
		}
	}
}

func TestEveryLinkHasATarget(t *testing.T) {
	anchors := make(map[string][]string)
	documents := read(t)
	for _, d := range documents {
		anchors[d.Path] = d.Anchors()
	}
	for _, d := range documents {
		for _, link := range d.Links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue // external links are not checked
			}
			file, anchor, anchored := strings.Cut(link, "#")
			target := path.Join(path.Dir(d.Path), file)
			if file == "" {
				target = d.Path
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the target of the link %s does not exist: %v", d.Path, link, err)
			} else if anchored && !slices.Contains(anchors[target], anchor) {
				t.Errorf("%s: the target of the link %s is none of the headings %v", d.Path, link, anchors[target])
			}
		}
	}
}

func TestEveryDocumentIsInTheIndex(t *testing.T) {
	var indexed []string
	documents := read(t)
	for _, d := range documents {
		if d.Path != "docs/README.md" {
			continue
		}
		for _, link := range d.Links {
			indexed = append(indexed, path.Join("docs", link))
		}
	}
	for _, d := range documents {
		assert.True(t, d.Path == "docs/README.md" || slices.Contains(indexed, d.Path), "docs/README.md has no link to", d.Path)
	}
}

func TestEveryMakeTargetExists(t *testing.T) {
	makefile := require.Value(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	var targets []string
	for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, found[1])
	}
	for _, d := range read(t) {
		for _, call := range append(d.Commands("make"), d.Mentions("make")...) {
			for _, word := range call {
				assert.True(t, strings.Contains(word, "=") || slices.Contains(targets, word), d.Path, "make", call, "the Makefile has no target", word)
			}
		}
	}
}

func TestEveryTestThatIsNamedExists(t *testing.T) {
	declared := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range declaration.FindAllStringSubmatch(string(text), -1) {
			declared[found[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	named := regexp.MustCompile(`^Test[A-Z]\w*$`)
	for _, d := range read(t) {
		for _, span := range d.Spans {
			assert.True(t, !named.MatchString(span) || declared[span], d.Path, "there is no test", span)
		}
	}
}

func TestEveryLogTextThatIsNamedIsLogged(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Logs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	unknown := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1) {
		unknown[row[1]] = true
	}
	require.True(t, len(unknown) != 0, "the table of texts is not found")
	// A text that the code puts together is in a test.
	err = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		code, err := os.ReadFile(path)
		maps.DeleteFunc(unknown, func(text string, _ bool) bool { return strings.Contains(string(code), `"`+text) })
		return err
	})
	require.NoError(t, err)
	for text := range unknown {
		t.Errorf("docs/operations.md: %q is in no string of the code", text)
	}
}

func TestEveryFileThatIsNamedExists(t *testing.T) {
	entries := require.Value(os.ReadDir(root))(t)
	folders := make(map[string]bool)
	for _, entry := range entries {
		folders[entry.Name()] = entry.IsDir()
	}
	named := regexp.MustCompile(`^(\.?[a-z]+)/[A-Za-z0-9_./-]*$`)
	for _, d := range read(t) {
		if d.Path != "CONTRIBUTING.md" && d.Path != "docs/architecture.md" {
			continue // others name files of other folders
		}
		for _, span := range d.Spans {
			found := named.FindStringSubmatch(span)
			if found == nil || !folders[found[1]] || found[1] == "bin" {
				continue
			}
			_, err := os.Stat(filepath.Join(root, span))
			assert.NoError(t, err, d.Path, "there is no", span)
		}
	}
}

func TestEveryScriptIsValid(t *testing.T) {
	for _, language := range []string{"sh", "console"} {
		for _, b := range blocks(t, language) {
			bash := exec.Command("bash", "-n")
			bash.Stdin = strings.NewReader(b.Script())
			output, err := bash.CombinedOutput()
			assert.NoError(t, err, b.Position, string(output), "fence anything but scripts as text")
			assert.True(t, language != "console" || b.Script() != "", b.Position, "a console without a line that begins with $")
		}
	}
}
