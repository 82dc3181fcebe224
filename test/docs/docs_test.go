package docs

import (
	"testing"

	"ndrbridge/test/assert"
)

func TestParse(t *testing.T) {
	const page = "# Title: `code` & more\n\n" +
		"A [link](a.md#b) and `a [span](no.md)`.\n\n" +
		"- an item\n\n      of more lines\n\n" +
		"  ```yaml\n  a:\n    b: [x](no.md)\n  ```\n" +
		"## Again\n\n    make x\n\n    make y\n\n## Again\n"
	d := parse("docs/a.md", page)
	want := Document{
		Path:     "docs/a.md",
		Headings: []string{"Title: `code` & more", "Again", "Again"},
		Links:    []string{"a.md#b"},
		Spans:    []string{"code", "a [span](no.md)"},
		Blocks: []Block{
			{Position: "docs/a.md:9", Language: "yaml", Text: "a:\n  b: [x](no.md)\n"},
			{Position: "docs/a.md:15", Language: "sh", Text: "make x\n\nmake y\n\n"},
		},
	}
	assert.DeepEqual(t, d, want, "it is read as")
	assert.DeepEqual(t, d.Anchors(), []string{"title-code--more", "again", "again-1"}, "its anchors are")
}
