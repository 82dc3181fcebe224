package configs

import (
	_ "embed"
	"encoding"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ndrbridge/internal/redact"
	"ndrbridge/sinks/webhook/presets"
)

// Print writes the effective configuration as YAML, with its secrets hidden: *** for a
// secret in a value, a URL or a header, and the path for a secret in a file. Empty values
// are omitted. If no value is hidden, Load reads the output as the same configuration.
func Print(w io.Writer, config *Config) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(config); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return encoder.Close()
}

// MarshalYAML returns what Print writes.
func (c Config) MarshalYAML() (any, error) {
	node, err := printBlock(reflect.ValueOf(c))
	if err == nil {
		escapeReferences(node)
	}
	return node, err
}

// escapeReferences escapes ${ in the values of a node: they are not references.
func escapeReferences(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		node.Value = strings.ReplaceAll(node.Value, "${", "$${")
	}
	for i, child := range node.Content {
		if node.Kind != yaml.MappingNode || i%2 == 1 {
			escapeReferences(child)
		}
	}
}

func printBlock(block reflect.Value) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(block.Type()) {
		name, value := f.name, block.FieldByIndex(f.index)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		if secret, is := value.Interface().(Secret); is && secret.File != "" {
			name += fileSuffix
		}
		printed, err := printValue(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if url, is := value.Interface().(URL); is && f.name == "token_url" {
			printed = text(url.shown(true))
		} else if w, of := block.Interface().(Webhook); is && of && f.name == "url" {
			printed = text(w.ShownURL(url.Value()))
		}
		// An option that is present, and an operand, have a meaning even if they are empty.
		hasMeaning := f.shape == shapeOption || f.typ == reflect.TypeFor[operand]() && !isEmpty(value)
		if len(printed.Content) > 0 || printed.Value != "" || hasMeaning {
			node.Content = append(node.Content, text(name), printed)
		}
	}
	return node, nil
}

// ShownURL returns the URL of a request of w with its secrets hidden. It shows the path
// only for services whose key is not part of the URL, and only of a URL that is not in a file.
func (w Webhook) ShownURL(address string) string {
	preset, _ := presets.Find(w.Preset)
	public := preset.PublicPath || w.Ticket != nil && w.Ticket.System != systemGeneric
	return NewURL(address).shown(public && w.URLFile == "")
}

func printValue(value reflect.Value) (*yaml.Node, error) {
	if marshaler, ok := value.Interface().(encoding.TextMarshaler); ok {
		shown, err := marshaler.MarshalText()
		return text(string(shown)), err
	}
	switch value := value.Interface().(type) {
	case map[string]Secret:
		return printMap(value, shownHeader), nil
	case map[string]string:
		return printMap(value, func(_, ours string) string { return ours }), nil
	case operand:
		return value.node()
	}
	switch value.Kind() {
	case reflect.Struct:
		return printBlock(value)
	case reflect.Slice:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range value.Len() {
			printed, err := printValue(value.Index(i))
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
			node.Content = append(node.Content, printed)
		}
		return node, nil
	case reflect.String:
		return text(value.String()), nil
	}
	node := new(yaml.Node)
	return node, node.Encode(value.Interface())
}

func printMap[V any](values map[string]V, shown func(name string, value V) string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		node.Content = append(node.Content, text(name), text(shown(name, values[name])))
	}
	return node
}

func shownHeader(name string, value Secret) string {
	if value.value != nil && redact.HarmlessHeader(name) {
		return *value.value
	}
	return value.String()
}

// text returns a scalar node that is read as a string.
func text(value string) *yaml.Node {
	node := new(yaml.Node)
	node.SetString(value)
	return node
}

//go:embed example.yaml
var example string

//go:embed schema.json
var schema string

// Example returns a configuration file with every key and its description. A key after a
// # is an alternative, or disabled.
func Example() []byte { return []byte(example) }

// Schema returns the JSON Schema (draft 2020-12) of a configuration file. Every file that
// loads without environment variables is valid. The schema is less strict than [Load]: it
// has no rules between keys, and does not check the contents of files.
func Schema() []byte { return []byte(schema) }
