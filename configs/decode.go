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

// decode reads a file into config, where it takes precedence over the files before it. It
// records errors in p; a key with an error keeps its value. It reports whether the file is
// a YAML mapping or empty.
func (p *sourceLines) decode(f file, config *Config) bool {
	p.files, p.folder = append(p.files, f.name), f.folder
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(f.data))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0 {
		if _, known := p.at[""]; !known {
			p.at[""] = sourceLine{file: f.name}
		}
		return true
	}
	if err != nil {
		p.failSyntax(err, f.data)
		return false
	}
	p.decodeBlock("", document.Content[0], reflect.ValueOf(config).Elem())
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		p.failNode(&second, "", "a second document begins here; one file holds one configuration")
	case !errors.Is(err, io.EOF):
		p.failSyntax(err, f.data)
	}
	root := resolve(document.Content[0])
	return root.Kind == yaml.MappingNode || isNull(root)
}

func (p *sourceLines) failSyntax(err error, data []byte) {
	p.errors = append(p.errors, SyntaxError(p.file(), err, data))
}

func (p *sourceLines) failNode(node *yaml.Node, path, message string) {
	p.failAt(p.here(node), path, message)
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
	fields := fieldsOf(block.Type())
	content := p.content(path, node, yaml.MappingNode, "keys with values", "its keys are "+someKeys(fields))
	p.around = append(p.around, enclosing{path, fields})
	defer func() { p.around = p.around[:len(p.around)-1] }()
	p.pairs(path, content, func(path string, key, value *yaml.Node) {
		if !p.decodeKey(path, key.Value, value, fields, block) {
			p.failNode(key, path, p.unknownKey(key.Value, value, content))
		}
	})
}

// pairs calls visit for each key of the mapping at path, with the path of the key and its value.
func (p *sourceLines) pairs(path string, content []*yaml.Node, visit func(path string, key, value *yaml.Node)) {
	lines := make(map[string]int)
	for i := 0; i+1 < len(content); i += 2 {
		key := resolve(content[i])
		if key.Kind != yaml.ScalarNode {
			p.failNode(key, path, "expected a key, found "+found(key))
			continue
		}
		below := join(path, printable(key.Value))
		if line := lines[key.Value]; line > 0 {
			p.failNode(key, below, fmt.Sprintf("is set twice, first on line %d; keep one of them", line))
			continue
		}
		lines[key.Value] = key.Line
		visit(below, key, content[i+1])
	}
}

// decodeKey reads the value of a key into block. It reports whether the block has the key.
func (p *sourceLines) decodeKey(path, key string, node *yaml.Node, fields []field, block reflect.Value) bool {
	for _, f := range fields {
		value := block.FieldByIndex(f.index)
		switch {
		case f.shape == shapeSecret && (key == f.name || key == f.name+fileSuffix):
			p.decodeSecret(path, key == f.name, node, value)
			return true
		case key == f.name:
			p.decodeValue(path, node, value)
			return true
		}
	}
	return false
}

// decodeSecret reads the value of a secret, or else the path of its file. It replaces the
// other of the two if an earlier file has set it; both in one file are an error.
func (p *sourceLines) decodeSecret(path string, literal bool, node *yaml.Node, value reflect.Value) {
	secret := value.Addr().Interface().(*Secret)
	read, other := value, path+fileSuffix
	if !literal {
		read, other = value.FieldByName("File"), strings.TrimSuffix(path, fileSuffix)
	}
	if !p.decodeText(path, node, read) {
		return
	}
	if at, set := p.at[other]; !set || at.file == p.file() {
		return
	}
	delete(p.at, other)
	if literal {
		secret.File = ""
	} else {
		secret.value = nil
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
	case shapeBlocks, shapeTexts, shapeSecrets:
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
	p.at[path] = p.here(node)
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
		text = within(p.folder, text)
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
	at := p.here(node)
	node = resolve(node)
	expanded := p.expandNode(path, node)
	at.null, at.reference = isNull(node), p.expanded[node]
	if _, before := p.at[path]; !at.null || !before {
		p.at[path] = at
	}
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
