package main

import (
	"fmt"
	"slices"
	"strings"
)

// markdown returns the contents and the keys of the reference.
func (s *source) markdown() string {
	var b strings.Builder
	s.contents(&b)
	described := make(map[*block]string)
	s.root.walk("", nil, func(path string, blk *block, holder *field) {
		if first := described[blk]; first != "" {
			fmt.Fprintf(&b, "## `%s`\n\n", path)
			paragraph(&b, holder.doc)
			fmt.Fprintf(&b, "Its keys are those of [`%s`](#%s).\n\n", first, anchor(first))
			return
		}
		described[blk] = path
		section(&b, path, blk, holder)
	})
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// contents lists the blocks of the first two levels.
func (s *source) contents(b *strings.Builder) {
	s.root.walk("", nil, func(path string, blk *block, _ *field) {
		switch depth := strings.Count(path, "."); {
		case path == "" || depth > 1:
		case depth == 0:
			fmt.Fprintf(b, "- [`%s`](#%s)\n", path, anchor(path))
		default:
			fmt.Fprintf(b, "  - [`%s`](#%s)\n", path, anchor(path))
		}
	})
	b.WriteByte('\n')
}

// anchor returns the anchor of the heading of a path.
func anchor(path string) string {
	return strings.NewReplacer(".", "", "[", "", "]", "").Replace(path)
}

func section(b *strings.Builder, path string, blk *block, holder *field) {
	if path == "" {
		b.WriteString("## Keys of the file\n\n")
	} else {
		fmt.Fprintf(b, "## `%s`\n\n", path)
		paragraph(b, holder.doc)
		paragraph(b, blk.doc)
		if holder.option && !blk.needs() {
			b.WriteString("`{}` uses the default of every key.\n\n")
		}
	}
	if blk.example != "" {
		b.WriteString("```yaml\n" + blk.example + "```\n\n")
	}
	for _, f := range blk.fields {
		if f.block == nil {
			entry(b, path, f)
		}
	}
}

// needs reports whether a key of the block is required.
func (b *block) needs() bool {
	return slices.ContainsFunc(b.fields, func(f field) bool { return f.required && f.fallback == "" })
}

// entry describes a key, or both keys of a secret.
func entry(b *strings.Builder, path string, f field) {
	full := join(path, f.key)
	heading := "`" + full + "`"
	if f.typ == "Secret" {
		heading += ", `" + full + "_file`"
	}
	facts := []string{kind(f)}
	switch {
	case f.required && f.fallback == "":
		facts = append(facts, "**required**")
	case f.fallback != "":
		facts = append(facts, "default `"+f.fallback+"`")
	}
	fmt.Fprintf(b, "### %s\n\n%s\n\n", heading, strings.Join(facts, " · "))
	paragraph(b, f.doc)
}

// paragraph writes text as a paragraph. It escapes <, which would begin a tag.
func paragraph(b *strings.Builder, text string) {
	if text != "" {
		b.WriteString(strings.ReplaceAll(text, "<", "&lt;") + "\n\n")
	}
}

// kinds describes the types of values that are not blocks.
var kinds = map[string]string{
	"string": "text", "bool": "true or false", "int": "whole number",
	"float64": "number", "[]string": "list of texts", "Duration": "duration", "Size": "size", "Start": "start", "URL": "URL",
	"Secret": "secret", "Secrets": "list of secrets", "Headers": "names with secret values", "Table": "names with values",
	"RecordFilter": "filter",
}

// kind describes the values that a key accepts.
func kind(f field) string {
	text := kinds[f.typ]
	if f.oneof != nil {
		values := slices.Clone(f.oneof)
		for i, value := range values {
			values[i] = "`" + value + "`"
		}
		last := len(values) - 1
		text = strings.Join(values[:last], ", ") + " or " + values[last]
		if f.typ == "[]string" {
			text = "list of " + text
		}
	}
	if limits := f.limits(); limits != "" {
		text += ", " + limits
	}
	return text
}
