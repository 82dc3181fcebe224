package configs

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// decodeList reads a list. An item with a name is merged into the item of that name that an
// earlier file has; items with other names are appended. A list of anything else replaces
// that of earlier files.
func (p *sourceLines) decodeList(path string, node *yaml.Node, list reflect.Value) {
	nodes := p.content(path, node, yaml.SequenceNode, "a list", "write its items between [ and ], or one per line after a dash")
	earlier := make(map[string]int)
	switch {
	case isNamed(list.Type().Elem()):
		for i := range list.Len() {
			earlier[list.Index(i).FieldByName("Name").String()] = i
		}
	case list.Len() > 0 && !isNull(resolve(node)):
		p.forget(path)
		list.SetZero()
	}
	for _, node := range nodes {
		name := p.nameIn(node)
		i, found := earlier[name]
		delete(earlier, name) // a second item of that name is an error
		if !found || name == "" {
			i = list.Len()
			list.Set(reflect.Append(list, newValue(list.Type().Elem())))
		}
		p.decodeValue(item(path, i), node, list.Index(i))
	}
}

// isNamed reports whether a type is a struct whose values have unique names.
func isNamed(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	f, has := t.FieldByName("Name")
	return has && f.Tag.Get("yaml") == "name"
}

// nameIn returns the name of an item, or "" if it has none.
func (p *sourceLines) nameIn(node *yaml.Node) string {
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		value := resolve(node.Content[i+1])
		if resolve(node.Content[i]).Value != "name" || value.Kind != yaml.ScalarNode {
			continue
		}
		if _, done := p.expanded[value]; done {
			return value.Value
		}
		name, _, err := expand(value.Value, p.environment)
		if err != nil {
			return "" // recorded when the item is read
		}
		return name
	}
	return ""
}
