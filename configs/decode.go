package configs

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode reads a file into config. It records errors in p; a key with an error keeps its
// default. It reports whether the file is a YAML mapping or empty.
func (p *sourceLines) decode(data []byte, config *Config) bool {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0 {
		return true
	}
	if err != nil {
		p.failSyntax(err)
		return false
	}
	p.decodeBlock("", document.Content[0], reflect.ValueOf(config).Elem())
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		p.failNode(&second, "", "a second document begins here; one file holds one configuration")
	case !errors.Is(err, io.EOF):
		p.failSyntax(err)
	}
	root := resolve(document.Content[0])
	return root.Kind == yaml.MappingNode || isNull(root)
}

var (
	syntaxError  = regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`)
	quotedAnchor = regexp.MustCompile(`anchor '[^']*'`)
)

// failSyntax records a YAML error with its line. It removes the names of anchors from the
// message, because a secret that begins with * looks like an anchor.
func (p *sourceLines) failSyntax(err error) {
	e := &Error{File: p.file, Message: err.Error()}
	if parts := syntaxError.FindStringSubmatch(e.Message); parts != nil {
		e.Line, _ = strconv.Atoi(parts[1])
		e.Message = parts[2]
	}
	if quotedAnchor.MatchString(e.Message) {
		e.Message = quotedAnchor.ReplaceAllString(e.Message, "anchor") + "; put a value that begins with * in quotes"
	}
	e.Message = "is not YAML: " + e.Message
	p.errors = append(p.errors, e)
}

func (p *sourceLines) failNode(node *yaml.Node, path, message string) {
	p.failAt(sourceLine{line: node.Line, column: node.Column}, path, message)
}

// resolve follows aliases to the node that they refer to.
func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func (p *sourceLines) decodeBlock(path string, node *yaml.Node, block reflect.Value) {
	content := p.content(path, node, yaml.MappingNode, "keys with values")
	fields := fieldsOf(block.Type())
	lines := make(map[string]int)
	for i := 0; i+1 < len(content); i += 2 {
		key, value := resolve(content[i]), content[i+1]
		if key.Kind != yaml.ScalarNode {
			p.failNode(key, path, "expected a key, found "+found(key))
			continue
		}
		name := join(path, printable(key.Value))
		if line := lines[key.Value]; line > 0 {
			p.failNode(content[i], name, fmt.Sprintf("is set twice, first on line %d; keep one of them", line))
			continue
		}
		lines[key.Value] = key.Line
		if !p.decodeKey(name, key.Value, value, fields, block) {
			p.failNode(content[i], name, unknownKey(key.Value, fields))
		}
	}
}

// decodeKey reads the value of a key into block. It reports whether the block has the key.
func (p *sourceLines) decodeKey(path, key string, node *yaml.Node, fields []field, block reflect.Value) bool {
	for _, f := range fields {
		value := block.Field(f.index)
		switch {
		case key == f.name:
			p.decodeValue(path, node, value)
			return true
		case f.shape == shapeSecret && key == f.name+fileSuffix:
			p.decodeText(path, node, value.FieldByName("File"))
			return true
		}
	}
	return false
}

func (p *sourceLines) decodeValue(path string, node *yaml.Node, value reflect.Value) {
	if filter, is := value.Addr().Interface().(*RecordFilter); is {
		p.at[path] = sourceLine{line: node.Line, column: node.Column}
		filter.decode(path, node, p.failNode)
		return
	}
	switch shapeOf(value.Type()) {
	case shapeBlock:
		p.decodeBlock(path, node, value)
	case shapeOption:
		value.Set(newValue(value.Type().Elem()).Addr())
		if isNull(resolve(node)) {
			p.failNode(node, path, "is empty; write {} for its defaults, or leave the key out")
			return
		}
		p.decodeBlock(path, node, value.Elem())
	case shapeBlocks, shapeTexts, shapeSecrets:
		for i, node := range p.content(path, node, yaml.SequenceNode, "a list") {
			value.Set(reflect.Append(value, newValue(value.Type().Elem())))
			p.decodeValue(item(path, i), node, value.Index(i))
		}
	case shapeMap:
		p.decodeMap(path, node, value)
	default:
		p.decodeText(path, node, value)
	}
}

// content returns the items of a list, or the keys and values of a mapping. It returns nil
// if the node is null, or after it recorded that the node is not of the kind.
func (p *sourceLines) content(path string, node *yaml.Node, kind yaml.Kind, wanted string) []*yaml.Node {
	p.at[path] = sourceLine{line: node.Line, column: node.Column}
	node = resolve(node)
	switch {
	case isNull(node):
		return nil
	case node.Kind == kind:
		return node.Content
	}
	advice := ""
	if kind == yaml.SequenceNode {
		advice = "; write its items between [ and ], or one per line after a dash"
	} else if node.Kind == yaml.ScalarNode && strings.Contains(node.Value, ":") {
		advice = "; a space must follow the colon" // YAML reads key:value as one word
	}
	p.failNode(node, path, "expected "+wanted+", found "+found(node)+advice)
	return nil
}

func (p *sourceLines) decodeMap(path string, node *yaml.Node, named reflect.Value) {
	content := p.content(path, node, yaml.MappingNode, "names with values")
	if len(content) > 0 {
		named.Set(reflect.MakeMap(named.Type()))
	}
	for i := 0; i+1 < len(content); i += 2 {
		key := resolve(content[i])
		name := join(path, printable(key.Value))
		at := reflect.ValueOf(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			p.failNode(key, path, "expected a name, found "+found(key))
		case named.MapIndex(at).IsValid():
			p.failNode(key, name, "is set twice; keep one of them")
		default:
			value := reflect.New(named.Type().Elem()).Elem()
			p.decodeText(name, content[i+1], value)
			named.SetMapIndex(at, value)
		}
	}
}

func (p *sourceLines) decodeText(path string, node *yaml.Node, value reflect.Value) {
	kind := value.Kind()
	if kind == reflect.Pointer {
		kind = value.Type().Elem().Kind()
	}
	if _, own := value.Addr().Interface().(encoding.TextUnmarshaler); own {
		kind = reflect.String
	}
	if text, ok := p.text(path, node, kind); ok {
		if err := setText(value, text); err != nil {
			p.failNode(node, path, err.Error())
		}
	}
}

// scalarTags are the tags of scalars that have a value.
var scalarTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}

// text returns the text of a scalar that can become a value of the kind. It returns false
// if the node is null, which leaves the default in place, or after it recorded an error.
func (p *sourceLines) text(path string, node *yaml.Node, kind reflect.Kind) (string, bool) {
	at := sourceLine{line: node.Line, column: node.Column}
	node = resolve(node)
	at.null = isNull(node)
	p.at[path] = at
	if at.null {
		return "", false
	}
	wanted, allowed := "text", scalarTags
	switch kind {
	case reflect.Bool:
		wanted, allowed = "true or false", []string{"!!bool"}
	case reflect.Int:
		wanted, allowed = "a whole number", []string{"!!int"}
	case reflect.Float64:
		wanted, allowed = "a number", []string{"!!int", "!!float"}
	}
	if node.Kind != yaml.ScalarNode || !slices.Contains(allowed, node.ShortTag()) {
		p.failNode(node, path, "expected "+wanted+", found "+found(node))
		return "", false
	}
	return node.Value, true
}

// found names the kind of a node. It does not quote the value, which may be a secret.
func found(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "a time"
	}
	return "a YAML tag; put a value that begins with ! in quotes"
}

func unknownKey(key string, fields []field) string {
	if strings.Contains(key, ":") {
		return "is not a known key; a space must follow the colon"
	}
	if key == "<<" {
		return "is not a known key; merging is not supported, write the keys out"
	}
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
		if f.shape == shapeSecret {
			known = append(known, f.name+fileSuffix)
		}
	}
	return "is not a known key" + suggest(key, known)
}

// printable returns a key for use in an error. It cuts off everything from the first
// character that no known key contains, so that {api_key:x} does not reveal x.
func printable(key string) string {
	end := strings.IndexFunc(key, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-<", r))
	})
	switch {
	case end >= 0:
		return key[:end] + "…"
	case len(key) > longestWord:
		return key[:longestWord] + "…"
	}
	return key
}
