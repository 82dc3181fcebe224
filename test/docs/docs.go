// Package docs reads the project's documents, so that tests can try what they
// show: README.md, CONTRIBUTING.md, SECURITY.md, the pages of docs/ and
// deploy/README.md. CHANGELOG.md is not among them: it names what no longer exists.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Document is one page in Markdown, as far as tests ask for it.
type Document struct {
	// Path is the file's, relative to the root of the repository, with slashes.
	Path     string
	Blocks   []Block
	Headings []string
	// Links are the targets of its links, as they are written.
	Links []string
	// Spans are its code spans: what stands between backquotes within a line.
	Spans []string
}

// Block is a block of code: between fences, or indented by four blanks.
type Block struct {
	// Place is the document's path and the number of its first line.
	Place string
	// Language is the word behind the opening fence, empty without one; of an
	// indented block it is sh.
	Language string
	// Text is the code without its indentation.
	Text string
}

// Read reads every document of the repository at root, in the order of their
// paths.
func Read(root string) ([]Document, error) {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("find the documents: %w", err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md"} {
		paths = append(paths, filepath.Join(root, filepath.FromSlash(name)))
	}
	slices.Sort(paths)
	var documents []Document
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a document: %w", err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, fmt.Errorf("read a document: %w", err)
		}
		documents = append(documents, parse(filepath.ToSlash(name), string(text)))
	}
	return documents, nil
}

var (
	fence   = regexp.MustCompile("^( *)```+ *([a-z]*)")
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	item    = regexp.MustCompile(`^ *([-*]|[0-9]+\.) `)
	span    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)[^)]*\)`)
)

// parse reads a document. An indented line below an item of a list belongs to the
// item, and is no code.
func parse(path, text string) Document {
	d := Document{Path: path}
	var prose strings.Builder
	var open *Block // between its fences
	indent, listed, blank, indented := "", false, true, false
	number := 0
	for line := range strings.Lines(text) {
		number++
		place := fmt.Sprintf("%s:%d", path, number)
		line = strings.TrimRight(line, "\n")
		opening := fence.FindStringSubmatch(line)
		code, deep := strings.CutPrefix(line, "    ")
		switch {
		case open != nil && opening != nil && opening[2] == "":
			d.Blocks = append(d.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case opening != nil:
			indent = opening[1]
			open = &Block{Place: place, Language: opening[2]}
		case deep && blank && !listed && !indented:
			d.Blocks = append(d.Blocks, Block{Place: place, Language: "sh", Text: code + "\n"})
			indented = true
		case indented && (deep || line == ""):
			d.Blocks[len(d.Blocks)-1].Text += code + "\n"
		default:
			if found := heading.FindStringSubmatch(line); found != nil {
				d.Headings = append(d.Headings, found[1])
			}
			listed = item.MatchString(line) || listed && (line == "" || strings.HasPrefix(line, " "))
			prose.WriteString(line + "\n")
			indented = false
		}
		blank = line == ""
	}
	for _, found := range span.FindAllStringSubmatch(prose.String(), -1) {
		d.Spans = append(d.Spans, strings.Join(strings.Fields(found[1]), " "))
	}
	for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(prose.String(), "code"), -1) {
		d.Links = append(d.Links, found[1])
	}
	return d
}

// Anchors are the names by which links reach the document's headings: in small
// letters, blanks as hyphens, without signs, and numbered where one comes again.
func (d Document) Anchors() []string {
	signs := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	var anchors []string
	again := make(map[string]int)
	for _, h := range d.Headings {
		anchor := strings.ReplaceAll(signs.ReplaceAllString(strings.ToLower(h), ""), " ", "-")
		n := again[anchor]
		again[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}
