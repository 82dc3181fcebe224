package main

import (
	"fmt"
	"slices"
	"strings"
)

const introduction = `# The configuration

<!-- Made by make reference, from the doc comments in configs. -->

Every key of the configuration file, by its path. ` + "`ndrbridge config example`" + ` prints a file with
all of them; ` + "`ndrbridge check`" + ` tells everything that is wrong with one, with line and column;
` + "`ndrbridge config print`" + ` shows what file, environment and defaults come to.

- **The environment** goes over the file. The variable of a key stands beside it; the items of
  lists count from 0, and lists are separated by commas. An empty variable sets nothing.
- **Durations** are numbers with units, such as ` + "`500ms`, `30s`, `5m`, `6h`, `7d`, `1w2d`" + `.
- **Sizes** are whole numbers with ` + "`B`, `KiB`, `MiB`, `GiB` or `TiB`" + `.
- **Starts** are ` + "`now`, `beginning`" + `, a negative duration such as ` + "`-7d`" + `, or a time such as
  ` + "`2026-01-31T08:00:00Z`" + `.
- **Secrets** have a twin that ends in ` + "`_file`" + `, the path of a file that holds the secret: set one of
  the two. URLs and headers have none. The file is read again when the secret was refused. Paths are relative to the directory
  that the bridge was started in.
- A key without a value, and one that is left out, has its default. One that is unknown is an error.

**Editors** complete and check the file by its JSON Schema:

    ndrbridge config schema > ndrbridge.schema.json

with this as the first line of the file, which those that use the YAML language server read:

    # yaml-language-server: $schema=ndrbridge.schema.json

The schema describes the file alone: a required key that the environment sets is missing in it.

`

// markdown is the reference.
func (s *source) markdown() []byte {
	var b strings.Builder
	b.WriteString(introduction)
	s.contents(&b)
	s.root.walk("", func(path string, blk *block, holder *field) {
		section(&b, path, blk, holder)
	})
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

func (s *source) contents(b *strings.Builder) {
	s.root.walk("", func(path string, blk *block, _ *field) {
		if path == "" {
			return
		}
		depth := strings.Count(path, ".")
		fmt.Fprintf(b, "%s- [`%s`](#%s)\n", strings.Repeat("  ", depth), path, anchor(path))
	})
	b.WriteByte('\n')
}

// anchor is what a heading of the path is linked by.
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
			b.WriteString("`{}` stands for its defaults.\n\n")
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

// entry tells one key, or both of a secret.
func entry(b *strings.Builder, path string, f field) {
	full := join(path, f.key)
	heading, variables := "`"+full+"`", "`"+variable(full)+"`"
	if f.typ == "Secret" {
		heading += ", `" + full + "_file`"
		variables += ", `" + variable(full) + "_FILE`"
	}
	facts := []string{kind(f)}
	switch {
	case f.required && f.fallback == "":
		facts = append(facts, "**required**")
	case f.fallback != "":
		facts = append(facts, "default `"+f.fallback+"`")
	}
	fmt.Fprintf(b, "### %s\n\n%s · %s\n\n", heading, strings.Join(facts, " · "), variables)
	paragraph(b, f.doc)
}

// paragraph writes text as it stands: a < in it begins no tag.
func paragraph(b *strings.Builder, text string) {
	if text != "" {
		b.WriteString(strings.ReplaceAll(text, "<", "&lt;") + "\n\n")
	}
}

// variable is the environment variable of a key, of the first items of the lists on
// the way.
func variable(path string) string {
	return "NDRBRIDGE_" + strings.ToUpper(strings.NewReplacer("[].", "_0_", ".", "_").Replace(path))
}

var kinds = map[string]string{
	"string": "text", "bool": "true or false", "*bool": "true or false", "int": "whole number", "*int": "whole number",
	"float64": "number", "[]string": "list of texts", "Duration": "duration", "Size": "size", "Start": "start", "URL": "URL",
	"Secret": "secret", "Secrets": "list of secrets", "Headers": "names with secret values", "Table": "names with values",
	"RecordFilter": "filter",
}

// kind says what a value may be.
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
