// Package docs reads the project's documents, so that tests can try what they
// show: README.md, CONTRIBUTING.md, SECURITY.md, the pages of docs/ and the README.md of
// deploy and of its folders. CHANGELOG.md is not among them: it names what no longer exists.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Document is a page in Markdown, with the parts that tests check.
type Document struct {
	// Path is the file's path relative to the root of the repository, with slashes.
	Path     string
	Blocks   []Block
	Headings []string
	// Links are the targets of its links, as written.
	Links []string
	// Spans are its code spans: the texts between backquotes within a line.
	Spans []string
}

// Block is a block of code: between fences, or indented by four blanks.
type Block struct {
	// Position is the document's path and the number of the block's first line.
	Position string
	// Language is the word after the opening fence, or empty; for an indented block it is
	// sh.
	Language string
	// Text is the code without its indentation.
	Text string
}

// Read returns all documents of the repository at root, sorted by path.
func Read(root string) ([]Document, error) {
	var paths []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/start/*.md", "docs/formats/*.md", "deploy/README.md", "deploy/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("find the documents: %w", err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find the documents: there is no %s", pattern)
		}
		paths = append(paths, found...)
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

// parse parses a document. An indented line below a list item belongs to the item and is not
// code.
func parse(path, text string) Document {
	d := Document{Path: path}
	var prose strings.Builder
	var open *Block // between its fences
	indent, listed, blank, indented := "", false, true, false
	number := 0
	for line := range strings.Lines(text) {
		number++
		position := fmt.Sprintf("%s:%d", path, number)
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
			open = &Block{Position: position, Language: opening[2]}
		case deep && blank && !listed && !indented:
			d.Blocks = append(d.Blocks, Block{Position: position, Language: "sh", Text: code + "\n"})
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

// Anchors returns the anchors of the document's headings: in lower case, with hyphens for
// spaces, without punctuation, and numbered if repeated.
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
