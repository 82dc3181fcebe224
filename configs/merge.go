package configs

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// merge returns the value of the key at path, of type t, that two files have: over is that of the
// later one, or of the environment, whose blocks have no origin. The nodes stay as they are,
// because aliases may refer to them.
func (p *sourceLines) merge(path string, t reflect.Type, base, over *yaml.Node) *yaml.Node {
	earlier, later := resolve(base), resolve(over)
	shape := shapeOf(t)
	if shape == shapeOption {
		t, shape = t.Elem(), shapeBlock
	} else if isNull(later) {
		return base
	}
	from, inFile := p.origins[later]
	isBlock := shape == shapeBlock && t != reflect.TypeFor[RecordFilter]()
	switch isSame := earlier.Kind == later.Kind; {
	case !inFile && shape == shapeBlocks:
		return p.mergeIndexed(path, t.Elem(), earlier, later)
	case !inFile && (isSame || isNull(earlier)):
		return p.mergeKeys(path, t, earlier, later)
	case !inFile:
		return base // which is reported when it is read
	case !isSame || from.variable != "":
		return over
	case later.Kind == yaml.MappingNode && (isBlock || shape == shapeMap):
		return p.mergeKeys(path, t, earlier, later)
	case later.Kind == yaml.SequenceNode && shape == shapeBlocks && isNamed(t.Elem()):
		return p.mergeItems(path, t.Elem(), earlier, later)
	}
	return over
}

// with returns a copy of a node with other content.
func (p *sourceLines) with(node *yaml.Node, kind yaml.Kind, content []*yaml.Node) *yaml.Node {
	made := *node
	made.Kind, made.Content = kind, slices.Clone(content)
	if origin, known := p.origins[node]; known {
		p.origins[&made] = origin
	}
	return &made
}

// mergeKeys merges two mappings by key. A secret replaces the path of its file, and vice versa.
func (p *sourceLines) mergeKeys(path string, t reflect.Type, earlier, later *yaml.Node) *yaml.Node {
	from := later
	if _, inFile := p.origins[later]; !inFile {
		from = earlier
	}
	merged := p.with(from, yaml.MappingNode, earlier.Content)
	for i := 0; i+1 < len(later.Content); i += 2 {
		key, value := later.Content[i], later.Content[i+1]
		name := resolve(key).Value
		of, isSecret := typeOfKey(t, name)
		at := find(merged, name)
		if at < 0 {
			at = len(merged.Content) + 1
			merged.Content = append(merged.Content, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
		}
		if of != nil {
			value = p.merge(join(path, name), of, merged.Content[at], value)
		}
		merged.Content[at] = value
		other := otherKey(name)
		if at := find(merged, other); at >= 0 && isSecret && !isNull(resolve(value)) && find(later, other) < 0 {
			merged.Content = slices.Delete(merged.Content, at-1, at+1)
		}
	}
	return merged
}

// mergeItems merges two lists by the names of their items. Items with other names are appended.
func (p *sourceLines) mergeItems(path string, t reflect.Type, earlier, later *yaml.Node) *yaml.Node {
	merged := p.with(later, yaml.SequenceNode, earlier.Content)
	named := make(map[string]int)
	for i, node := range earlier.Content {
		named[p.nameIn(node)] = i
	}
	for _, node := range later.Content {
		name := p.nameIn(node)
		i, found := named[name]
		delete(named, name) // a second item of that name is an error
		if found && name != "" {
			merged.Content[i] = p.merge(item(path, i), t, merged.Content[i], node)
		} else {
			merged.Content = append(merged.Content, node)
		}
	}
	return merged
}

// mergeIndexed merges a list with a mapping by the indexes of items, which the environment sets.
func (p *sourceLines) mergeIndexed(path string, t reflect.Type, earlier, later *yaml.Node) *yaml.Node {
	if earlier.Kind != yaml.SequenceNode && !isNull(earlier) {
		return earlier // which is reported when it is read
	}
	merged := p.with(earlier, yaml.SequenceNode, earlier.Content)
	for i := 0; i+1 < len(later.Content); i += 2 {
		index, _ := strconv.Atoi(later.Content[i].Value)
		value := later.Content[i+1]
		switch length := len(merged.Content); {
		case index > length:
			for value.Kind == yaml.MappingNode {
				value = value.Content[1]
			}
			p.meant = append(p.meant, path)
			p.failNode(value, item(path, index), "skips an item of the list: "+item(path, length)+" is not set; items count from 0")
			continue
		case index == length:
			added := &yaml.Node{Kind: yaml.MappingNode}
			p.origins[added] = sourceLine{} // so that errors do not refer to the list in the file
			merged.Content = append(merged.Content, added)
		}
		merged.Content[index] = p.merge(item(path, index), t, merged.Content[index], value)
	}
	return merged
}

// typeOfKey returns the type of a key of a block or a map, nil if the block has none of the name,
// and whether the key is a secret or the path of its file.
func typeOfKey(t reflect.Type, key string) (of reflect.Type, isSecret bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), false
	}
	f, known := fieldOf(fieldsOf(t), key)
	if !known {
		return nil, false
	}
	return f.typ, f.shape == shapeSecret
}

// otherKey returns the other of the two keys of a secret.
func otherKey(key string) string {
	if literal, isFile := strings.CutSuffix(key, fileSuffix); isFile {
		return literal
	}
	return key + fileSuffix
}

// find returns the index of the value of a key in a mapping, or -1.
func find(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if name := resolve(mapping.Content[i]); name.Kind == yaml.ScalarNode && name.Value == key {
			return i + 1
		}
	}
	return -1
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
func (p *sourceLines) nameIn(item *yaml.Node) string {
	item = resolve(item)
	at := find(item, "name")
	if item.Kind != yaml.MappingNode || at < 0 {
		return ""
	}
	name, _, err := expand(resolve(item.Content[at]).Value, p.environment)
	if err != nil {
		return "" // recorded when the item is read
	}
	return name
}
