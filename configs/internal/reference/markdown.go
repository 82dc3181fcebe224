package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// markdown returns the contents and the keys of the reference: first the keys that every file has.
func (s *source) markdown() string {
	var b strings.Builder
	root := *s.root
	root.fields = slices.SortedStableFunc(slices.Values(root.fields), func(a, b field) int {
		return cmp.Compare(optional(a), optional(b))
	})
	contents(&b, &root)
	described, keys := make(map[*block]string), make(map[string]string)
	root.walk("", nil, func(path string, blk *block, holder *field) {
		if first := described[blk]; first != "" {
			fmt.Fprintf(&b, "## `%s`\n\n", path)
			paragraph(&b, holder.doc)
			fmt.Fprintf(&b, "Its keys are those of [`%s`](#%s).\n\n", first, anchor(first))
			return
		}
		described[blk] = path
		section(&b, path, blk, holder, keys)
	})
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// optional returns 0 for a key that every file has, and 1 for others.
func optional(f field) int {
	if f.required {
		return 0
	}
	return 1
}

// contents lists the blocks of the first level.
func contents(b *strings.Builder, root *block) {
	root.walk("", nil, func(path string, blk *block, _ *field) {
		if path != "" && !strings.Contains(path, ".") {
			fmt.Fprintf(b, "- [`%s`](#%s)\n", path, anchor(path))
		}
	})
	b.WriteByte('\n')
}

// anchor returns the anchor of the heading of a path.
func anchor(path string) string {
	return strings.NewReplacer(".", "", "[", "", "]", "").Replace(path)
}

// section describes a block. described has the blocks in which keys with the same description
// are, by key and description.
func section(b *strings.Builder, path string, blk *block, holder *field, described map[string]string) {
	if path == "" {
		b.WriteString("## Keys of the file\n\n")
	} else {
		fmt.Fprintf(b, "## `%s`\n\n", path)
		paragraph(b, holder.doc)
		paragraph(b, blockDoc(blk.doc, holder.doc != ""))
	}
	if strings.Count(blk.example, "\n") > 1 { // one line shows what its keys say
		b.WriteString("```yaml\n" + blk.example + "```\n\n")
	}
	var same []string // keys that an earlier block has, too
	earlier := ""
	for _, f := range blk.fields {
		if f.block != nil {
			continue
		}
		text := entry(f)
		first, found := described[f.key+text]
		if found && (earlier == "" || earlier == first) && first != "" {
			earlier = first
			same = append(same, "`"+f.key+"`")
			continue
		}
		if !found {
			described[f.key+text] = path
		}
		b.WriteString("**" + heading(path, f) + "**" + text)
	}
	if len(same) > 0 {
		fmt.Fprintf(b, "As in [`%s`](#%s): %s.\n\n", earlier, anchor(earlier), strings.Join(same, ", "))
	}
}

// blockDoc returns the description of a block, without a first sentence that only says what it
// configures if the key's own description does.
func blockDoc(doc string, isDescribed bool) string {
	if first, rest, _ := strings.Cut(doc, ". "); isDescribed && strings.HasPrefix(first, "Configures ") {
		return rest
	}
	return doc
}

// heading names a key, or both keys of a secret.
func heading(path string, f field) string {
	full := join(path, f.key)
	if f.typ == "Secret" {
		return "`" + full + "`, `" + full + "_file`"
	}
	return "`" + full + "`"
}

// entry describes a key.
func entry(f field) string {
	var facts []string
	if what := kind(f); what != "text" {
		facts = append(facts, what)
	}
	switch {
	case f.required && f.fallback == "":
		facts = append(facts, "required")
	case f.fallback != "":
		facts = append(facts, "default `"+f.fallback+"`")
	}
	var b strings.Builder
	text := ": " + f.doc
	if len(facts) > 0 {
		text = " (" + strings.Join(facts, "; ") + ")" + text
	}
	paragraph(&b, text)
	return b.String()
}

// escape escapes <, which would begin a tag, except in code.
var escape = strings.NewReplacer("`<", "`<", "<", "&lt;")

// paragraph writes text as a paragraph.
func paragraph(b *strings.Builder, text string) {
	if text != "" {
		b.WriteString(escape.Replace(text) + "\n\n")
	}
}

// kinds describes the types of values that are not blocks.
var kinds = map[string]string{
	"string": "text", "bool": "boolean", "int": "integer",
	"float64": "number", "[]string": "texts", "Duration": "duration", "Size": "size", "Start": "start", "URL": "URL",
	"Secret": "secret", "[]Secret": "secrets", "map[string]Secret": "map of secrets", "map[string]string": "map",
	"operand": "value",
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
