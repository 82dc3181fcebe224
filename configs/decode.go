package configs

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parse returns the content of a file, or nil after it recorded that the file is not a YAML
// mapping. Without any content, it is null.
func (p *sourceLines) parse(f file) *yaml.Node {
	p.files = append(p.files, f.name)
	from := sourceLine{file: f.name, folder: f.folder}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(f.data))
	err := decoder.Decode(&document)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	case err != nil:
		p.errors = append(p.errors, SyntaxError(f.name, err, f.data))
		return nil
	}
	root := document.Content[0]
	p.stamp("", root, from)
	switch err := decoder.Decode(&second); {
	case err == nil:
		p.stamp("", &second, from)
		p.failNode(&second, "", "a second document begins here; one file holds one configuration")
	case !errors.Is(err, io.EOF):
		p.errors = append(p.errors, SyntaxError(f.name, err, f.data))
	}
	if kind := resolve(root); kind.Kind != yaml.MappingNode && !isNull(kind) {
		p.keysWithValues("", root, fieldsOf(reflect.TypeFor[Config]()))
		return nil
	}
	return root
}

// stamp sets the origin of a node at path and of all nodes in it, and reports keys that are set
// twice.
func (p *sourceLines) stamp(path string, node *yaml.Node, from sourceLine) {
	own := from
	if from.variable == "" {
		own.line, own.column = node.Line, node.Column
	} else if node.Kind == yaml.ScalarNode {
		p.expanded[node] = true
	}
	p.origins[node] = own
	lines := make(map[string]int)
	for i, below := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			p.stamp(item(path, i), below, from)
		case node.Kind == yaml.DocumentNode || i%2 == 0:
			p.stamp(path, below, from)
		default:
			key := node.Content[i-1]
			name := resolve(key).Value
			at := join(path, printable(name))
			if line, twice := lines[name]; twice && resolve(key).Kind == yaml.ScalarNode {
				p.failNode(key, at, fmt.Sprintf("is set twice, first on line %d; keep one of them", line))
			} else {
				lines[name] = key.Line
			}
			p.stamp(at, below, from)
		}
	}
}

func (p *sourceLines) failNode(node *yaml.Node, path, message string) {
	p.failAt(p.origins[node], path, message)
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

// Limits of a configuration: how deeply blocks may be nested, and how many there may be. A few
// nested YAML aliases could otherwise expand to any number of blocks.
const (
	maxDepth  = 20
	maxBlocks = 30000
)

func (p *sourceLines) decodeBlock(path string, node *yaml.Node, block reflect.Value) {
	switch p.blocks++; {
	case p.blocks == maxBlocks+1:
		p.failNode(node, path, fmt.Sprintf("is one block too many; write at most %d in all, counting those that aliases repeat", maxBlocks))
		return
	case p.blocks > maxBlocks:
		return
	case len(p.around) >= maxDepth:
		p.failNode(node, path, fmt.Sprintf("nests deeper than %d blocks; write fewer levels", maxDepth))
		return
	}
	fields := fieldsOf(block.Type())
	content := p.keysWithValues(path, node, fields)
	p.around = append(p.around, enclosing{path, fields})
	defer func() { p.around = p.around[:len(p.around)-1] }()
	p.pairs(path, content, func(path string, key, value *yaml.Node) {
		f, known := fieldOf(fields, key.Value)
		switch target := block.FieldByIndex(f.index); {
		case !known:
			p.failNode(key, path, p.unknownKey(key.Value, value, content))
		case key.Value != f.name:
			p.decodeText(path, value, target.FieldByName("File"))
		default:
			p.decodeValue(path, value, target)
		}
	})
}

// pairs calls visit for each key of the mapping at path, with the path of the key and its value.
func (p *sourceLines) pairs(path string, content []*yaml.Node, visit func(path string, key, value *yaml.Node)) {
	for i := 0; i+1 < len(content); i += 2 {
		key := resolve(content[i])
		if key.Kind != yaml.ScalarNode {
			p.failNode(key, path, "expected a key, found "+found(key))
			continue
		}
		visit(join(path, printable(key.Value)), key, content[i+1])
	}
}

// nodeDecoder is a value that is neither a block nor a text.
type nodeDecoder interface {
	// decode reads the value from the node of the key at path, and records errors in p.
	decode(p *sourceLines, path string, node *yaml.Node)
}

func (p *sourceLines) decodeValue(path string, node *yaml.Node, value reflect.Value) {
	if own, is := value.Addr().Interface().(nodeDecoder); is {
		own.decode(p, path, node)
		return
	}
	switch shapeOf(value.Type()) {
	case shapeBlock:
		p.decodeBlock(path, node, value)
	case shapeOption:
		if value.IsNil() {
			value.Set(newValue(value.Type().Elem()).Addr())
		}
		if isNull(resolve(node)) {
			p.failNode(node, path, "is empty; write {} for its defaults, or leave the key out")
			return
		}
		p.decodeBlock(path, node, value.Elem())
	case shapeBlocks, shapeTexts:
		p.decodeList(path, node, value)
	case shapeMap:
		p.decodeMap(path, node, value)
	default:
		p.decodeText(path, node, value)
	}
}

// content returns the items of a list, or the keys and values of a mapping. It returns nil
// if the node is null, or after it recorded that the node is not of the kind, with advice.
func (p *sourceLines) content(path string, node *yaml.Node, kind yaml.Kind, wanted, advice string) []*yaml.Node {
	if at, known := p.origins[node]; known {
		p.at[path] = at
	}
	node = resolve(node)
	switch {
	case isNull(node):
		return nil
	case node.Kind == kind:
		return node.Content
	}
	if kind == yaml.MappingNode && node.Kind == yaml.ScalarNode && strings.Contains(node.Value, ":") {
		advice = "a space must follow the colon" // YAML reads key:value as one word
	}
	p.failNode(node, path, "expected "+wanted+", found "+found(node)+"; "+advice)
	return nil
}

// keysWithValues is content for a block.
func (p *sourceLines) keysWithValues(path string, node *yaml.Node, fields []field) []*yaml.Node {
	return p.content(path, node, yaml.MappingNode, "keys with values", "its keys are "+someKeys(fields))
}

func (p *sourceLines) decodeList(path string, node *yaml.Node, list reflect.Value) {
	nodes := p.content(path, node, yaml.SequenceNode, "a list", "write its items between [ and ], or one per line after a dash")
	for i, node := range nodes {
		list.Set(reflect.Append(list, newValue(list.Type().Elem())))
		p.decodeValue(item(path, i), node, list.Index(i))
	}
}

func (p *sourceLines) decodeMap(path string, node *yaml.Node, named reflect.Value) {
	content := p.content(path, node, yaml.MappingNode, "names with values", "write each as name: value")
	if len(content) > 0 && named.IsNil() {
		named.Set(reflect.MakeMap(named.Type()))
	}
	p.pairs(path, content, func(path string, key, node *yaml.Node) {
		value := reflect.New(named.Type().Elem()).Elem()
		if text, ok := p.text(path, node, reflect.String); ok {
			_ = setText(value, text) // of a string or a Secret, which take any text
		}
		named.SetMapIndex(reflect.ValueOf(key.Value), value)
	})
}

// decodeText reads a scalar into value. It reports false if the node is null, which leaves
// the value in place, or after it recorded an error.
func (p *sourceLines) decodeText(path string, node *yaml.Node, value reflect.Value) bool {
	kind := value.Kind()
	if _, own := value.Addr().Interface().(encoding.TextUnmarshaler); own {
		kind = reflect.String
	}
	text, ok := p.text(path, node, kind)
	if !ok {
		return false
	}
	if isPath(path) {
		text = within(p.origins[node].folder, text)
	}
	if err := setText(value, text); err != nil {
		p.failNode(node, path, err.Error())
		return false
	}
	return true
}

// scalarTags are the tags of scalars that have a value.
var scalarTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}

// truths are words that older versions of YAML read as true and false.
var truths = map[string]string{"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false", "1": "true", "0": "false", "true": "true", "false": "false"}

// text returns the text of a scalar that can become a value of the kind. It returns false
// if the node is null, which leaves the default in place, or after it recorded an error.
func (p *sourceLines) text(path string, node *yaml.Node, kind reflect.Kind) (string, bool) {
	at := p.origins[node]
	node = resolve(node)
	expanded := p.expandNode(path, node)
	at.null, at.reference = isNull(node), p.expanded[node]
	p.at[path] = at
	if at.null || !expanded {
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
	if p.expanded[node] {
		return node.Value, true // of any type, even in quotes
	}
	if node.Kind != yaml.ScalarNode || !slices.Contains(allowed, node.ShortTag()) {
		advice := ""
		if truth := truths[strings.ToLower(node.Value)]; truth != "" && kind == reflect.Bool {
			advice = "; write " + truth + " instead of " + node.Value
		}
		if quoted := yaml.Node(*node); quoted.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			quoted.Style, quoted.Tag = 0, ""
			if slices.Contains(allowed, quoted.ShortTag()) {
				advice = "; write it without quotes"
			}
		}
		p.failNode(node, path, "expected "+wanted+", found "+found(node)+advice)
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
