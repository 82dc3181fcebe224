package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"ndrbridge/configs"
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

	typ    string // such as Duration or []string; for blocks, without stars and brackets
	block  *block // nil if the field is not a block
	list   bool   // a list of blocks
	option bool   // a block that may be absent

	fallback        string   // the default; empty: none
	oneof           []string // the permitted values; empty: any
	min, max, above string
	required        bool
	form            string   // of the text; empty: any
	schemes         []string // of a URL
}

// source holds the structs of a package by their names.
type source struct {
	blocks map[string]*block
	root   *block
}

// readSource reads the structs of the configuration from configs.Config on, and their doc
// comments from the folders of their packages.
func readSource(folders ...string) (*source, error) {
	var paths []string
	for _, folder := range folders {
		in, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, err
		}
		paths = append(paths, in...)
	}
	docs := make(map[string]string)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		readDocs(file, docs)
	}
	s := &source{blocks: make(map[string]*block)}
	s.root = s.read(reflect.TypeFor[configs.Config](), docs)
	s.resolve()
	return s, nil
}

// readDocs adds the doc comments of the structs in a file, by the names of their types, and
// those of their fields, such as Sink.Name.
func readDocs(file *ast.File, docs map[string]string) {
	for _, declaration := range file.Decls {
		general, is := declaration.(*ast.GenDecl)
		if !is || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			spec := spec.(*ast.TypeSpec)
			structure, is := spec.Type.(*ast.StructType)
			if !is {
				continue
			}
			docs[spec.Name.Name] = general.Doc.Text()
			for _, f := range structure.Fields.List {
				for _, name := range f.Names {
					docs[spec.Name.Name+"."+name.Name] = f.Doc.Text()
				}
			}
		}
	}
}

func (s *source) read(t reflect.Type, docs map[string]string) *block {
	b := s.blocks[t.Name()]
	if b != nil {
		return b
	}
	b = &block{name: t.Name()}
	b.doc, b.example = forUsers(docs[b.name], b.name)
	s.blocks[b.name] = b
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		of := t // the struct that declares f: t, or one that is embedded in it
		for _, i := range f.Index[:len(f.Index)-1] {
			of = of.Field(i).Type
		}
		tag := f.Tag.Get
		made := field{
			name: f.Name, key: tag("yaml"), typ: strings.ReplaceAll(f.Type.String(), "configs.", ""),
			fallback: tag("default"), min: tag("min"), max: tag("max"), above: tag("above"), required: tag("required") == "true", form: tag("form"),
		}
		made.doc, _ = forUsers(docs[of.Name()+"."+f.Name], f.Name)
		if values := tag("oneof"); values != "" {
			made.oneof = presets.Expand(values)
		}
		if schemes := tag("schemes"); schemes != "" {
			made.schemes = strings.Split(schemes, ",")
		}
		if t := f.Type; kinds[made.typ] == "" {
			made.list, made.option = t.Kind() == reflect.Slice, t.Kind() == reflect.Pointer
			if made.list || made.option {
				t = t.Elem()
			}
			made.typ, made.block = t.Name(), s.read(t, docs)
		}
		b.fields = append(b.fields, made)
	}
	return b
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
	s.root.walk("", nil, func(path string, b *block, _ *field) {
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
// the field that contains the block. It does not descend into a block that contains itself.
func (b *block) walk(path string, holder *field, visit func(path string, b *block, holder *field)) {
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
		if f.block == b {
			visit(below, b, f)
			continue
		}
		f.block.walk(below, f, visit)
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
