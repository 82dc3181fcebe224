package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/sinks/webhook/presets"
)

// block is a struct of the configuration.
type block struct {
	name    string // of the type
	doc     string // for users; may be empty
	example string // part of a configuration file; may be empty
	fields  []field
}

// field is a key of a block, or the two keys of a secret.
type field struct {
	name string // of the struct's field
	key  string
	doc  string // for users; may be empty

	typ    string // such as Duration, []string or *int; for blocks, without stars and brackets
	block  *block // nil if the field is not a block
	list   bool   // a list of blocks
	option bool   // a block that may be absent

	fallback        string   // the default; empty: none
	oneof           []string // the permitted values; empty: any
	min, max, above string
	required        bool
}

// source holds the structs of a package by their names.
type source struct {
	blocks map[string]*block
	root   *block
}

// readSource reads the package in the folder. The root of the configuration is its type
// Config.
func readSource(folder string) (*source, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	types := make(map[string]*ast.StructType)
	docs := make(map[string]string)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			general, is := declaration.(*ast.GenDecl)
			if !is || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				spec := spec.(*ast.TypeSpec)
				if structure, is := spec.Type.(*ast.StructType); is {
					types[spec.Name.Name], docs[spec.Name.Name] = structure, general.Doc.Text()
				}
			}
		}
	}
	s := &source{blocks: make(map[string]*block)}
	if s.root, err = s.read("Config", types, docs); err != nil {
		return nil, err
	}
	s.resolve()
	return s, nil
}

// scalars lists the types of values that are not blocks.
var scalars = []string{
	"string", "bool", "int", "float64", "*int", "*bool", "[]string",
	"Duration", "Size", "Start", "URL", "Secret", "Secrets", "Headers", "Table", "RecordFilter",
}

func (s *source) read(name string, types map[string]*ast.StructType, docs map[string]string) (*block, error) {
	if b := s.blocks[name]; b != nil {
		return b, nil
	}
	structure := types[name]
	if structure == nil {
		return nil, fmt.Errorf("type %s is neither a struct of the package nor a known scalar: add it to scalars", name)
	}
	b := &block{name: name}
	b.doc, b.example = forUsers(docs[name], name)
	s.blocks[name] = b
	for _, f := range structure.Fields.List {
		if len(f.Names) != 1 || f.Tag == nil {
			return nil, fmt.Errorf("%s has a field without one name and a tag", name)
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, f.Names[0], err)
		}
		tags := reflect.StructTag(tag)
		made := field{
			name: f.Names[0].Name, key: tags.Get("yaml"), typ: typeOf(f.Type),
			fallback: tags.Get("default"), min: tags.Get("min"), max: tags.Get("max"), above: tags.Get("above"),
			required: tags.Get("required") == "true",
		}
		made.doc, _ = forUsers(f.Doc.Text(), made.name)
		if values := tags.Get("oneof"); values != "" {
			made.oneof = presets.Expand(values)
		}
		made.doc = strings.TrimSpace(made.doc + " " + presetDoc(name+"."+made.name))
		if !slices.Contains(scalars, made.typ) {
			made.list, made.option = strings.HasPrefix(made.typ, "[]"), strings.HasPrefix(made.typ, "*")
			made.typ = strings.TrimLeft(made.typ, "[]*")
			if made.block, err = s.read(made.typ, types, docs); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", name, made.name, err)
			}
		}
		b.fields = append(b.fields, made)
	}
	return b, nil
}

func typeOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + typeOf(e.X)
	case *ast.ArrayType:
		return "[]" + typeOf(e.Elt)
	}
	return fmt.Sprintf("%T", expression)
}

// forUsers returns the first paragraph of a doc comment without the leading name, and the
// indented lines of the comment, which are an example.
func forUsers(doc, name string) (text, example string) {
	text, rest, _ := strings.Cut(doc, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	for _, verb := range []string{" is ", " are ", " "} {
		if after, found := strings.CutPrefix(text, name+verb); found {
			text = strings.ToUpper(after[:1]) + after[1:]
			break
		}
	}
	var lines []string
	for line := range strings.Lines(rest) {
		if code, indented := strings.CutPrefix(line, "\t"); indented {
			lines = append(lines, code)
		}
	}
	return text, strings.Join(lines, "")
}

var reference = regexp.MustCompile(`\[([A-Z]\w*)\.([A-Z]\w*)\]`)

// resolve replaces references to fields by their keys.
func (s *source) resolve() {
	paths := make(map[string]string) // first path of each block
	s.root.walk("", func(path string, b *block, _ *field) {
		if _, known := paths[b.name]; !known {
			paths[b.name] = path
		}
	})
	for _, b := range s.blocks {
		within := func(text string) string {
			return reference.ReplaceAllStringFunc(text, func(link string) string {
				parts := reference.FindStringSubmatch(link)
				of := s.blocks[parts[1]]
				if of == nil {
					return link
				}
				for _, f := range of.fields {
					if f.name != parts[2] {
						continue
					}
					if of == b {
						return "`" + f.key + "`"
					}
					return "`" + join(paths[of.name], f.key) + "`"
				}
				return link
			})
		}
		b.doc = within(b.doc)
		for i := range b.fields {
			b.fields[i].doc = within(b.fields[i].doc)
		}
	}
}

// walk calls visit for b and every block in it, with the path, such as sinks[].kafka, and
// the field that contains the block, which is nil for b.
func (b *block) walk(path string, visit func(path string, b *block, holder *field)) {
	b.walkFrom(path, nil, visit)
}

func (b *block) walkFrom(path string, holder *field, visit func(string, *block, *field)) {
	visit(path, b, holder)
	for i := range b.fields {
		f := &b.fields[i]
		if f.block == nil {
			continue
		}
		below := join(path, f.key)
		if f.list {
			below += "[]"
		}
		f.block.walkFrom(below, f, visit)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// limits describes the bounds of a value, or returns "" if there are none.
func (f field) limits() string {
	switch {
	case f.min != "" && f.max != "":
		return f.min + " to " + f.max
	case f.max != "":
		return "at most " + f.max
	case f.above != "":
		return "above " + f.above
	case f.min == "0":
		return "0 or more"
	case f.min != "":
		return "at least " + f.min
	}
	return ""
}
