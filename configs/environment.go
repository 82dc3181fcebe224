package configs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const prefix = "NDRBRIDGE_"

// variableOf returns the environment variable of the key at path.
func variableOf(path string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(path))
}

// variables returns an environment by the names of its variables.
func variables(environ []string) map[string]string {
	byName := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, is := strings.Cut(entry, "="); is {
			byName[name] = value
		}
	}
	return byName
}

// ofEnvironment returns the keys that the environment sets, as a file would have them. A list in
// it is a mapping with the indexes of its items. Empty variables are ignored. An unknown variable
// is recorded as an error.
func (p *sourceLines) ofEnvironment() *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(p.environment)), func(name string) bool {
		return !strings.HasPrefix(name, prefix) || foreign(name, p.environment[name])
	})
	// The items of a list in their order.
	ordered := func(name string) string {
		return indexPart.ReplaceAllStringFunc(name, func(part string) string { return fmt.Sprintf("_%11s", part[1:]) })
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(ordered(a), ordered(b)) })
	for _, name := range names {
		known := make(map[string]variable)
		addVariables(known, reflect.TypeFor[Config](), prefix, "", indexPart.FindAllString(name, -1))
		switch key, is := known[name]; {
		case !is:
			p.failAt(sourceLine{variable: name}, "", "is not a known variable"+suggest(name, slices.Collect(maps.Keys(known))))
		case p.environment[name] != "":
			p.setVariable(root, name, key)
		}
	}
	return root
}

// variable is the key that an environment variable sets.
type variable struct {
	path string
	typ  reflect.Type
}

// addVariables adds the variables of the keys of a block and of those in it, and of the items of
// its lists that have the indexes, by their names.
func addVariables(to map[string]variable, t reflect.Type, prefix, path string, indexes []string) {
	for _, f := range fieldsOf(t) {
		name, path := prefix+strings.ToUpper(f.name), join(path, f.name)
		if f.shape < shapeBlock || f.typ == reflect.TypeFor[RecordFilter]() {
			to[name] = variable{path, f.typ}
		}
		switch f.shape {
		case shapeSecret:
			to[name+"_FILE"] = variable{path + fileSuffix, reflect.TypeFor[string]()}
		case shapeBlock:
			addVariables(to, f.typ, name+"_", path, indexes)
		case shapeOption:
			addVariables(to, f.typ.Elem(), name+"_", path, indexes)
		case shapeBlocks:
			if len(indexes) > 0 {
				addVariables(to, f.typ.Elem(), name+indexes[0], path+"["+strings.Trim(indexes[0], "_")+"]", indexes[1:])
			}
		}
	}
}

// setVariable sets a key below root to the value of a variable.
func (p *sourceLines) setVariable(root *yaml.Node, name string, key variable) {
	from := sourceLine{variable: name}
	value, err := variableNode(key.typ, p.environment[name])
	if err != nil {
		p.failAt(from, key.path, err.Error())
		return
	}
	p.stamp(key.path, value, from)
	steps := strings.FieldsFunc(key.path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	last := len(steps) - 1
	block := root
	for _, step := range steps[:last] {
		at := find(block, step)
		if at < 0 {
			at = len(block.Content) + 1
			block.Content = append(block.Content, scalar(step), &yaml.Node{Kind: yaml.MappingNode})
		}
		block = block.Content[at]
	}
	block.Content = append(block.Content, scalar(steps[last]), value)
}

// variableNode returns the content of a variable for a key of type t: of a list the items, of a map
// the pairs "name: value", each separated by commas; of a filter YAML.
func variableNode(t reflect.Type, value string) (*yaml.Node, error) {
	switch shape := shapeOf(t); {
	case t == reflect.TypeFor[RecordFilter]() || t == reflect.TypeFor[operand]():
		return parseFilter(value)
	case shape == shapeTexts:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, part := range splitList(value) {
			list.Content = append(list.Content, scalar(part))
		}
		return list, nil
	case shape == shapeMap:
		pairs := &yaml.Node{Kind: yaml.MappingNode}
		for _, part := range splitList(value) {
			name, of, is := strings.Cut(part, ":")
			if !is {
				return nil, errors.New("expected name: value pairs separated by commas; set a value that contains a comma in the file")
			}
			pairs.Content = append(pairs.Content, scalar(strings.TrimSpace(name)), scalar(strings.TrimSpace(of)))
		}
		return pairs, nil
	case t.Kind() == reflect.Bool:
		if truth, err := strconv.ParseBool(value); err == nil { // 1 and T are true too
			value = strconv.FormatBool(truth)
		}
	}
	return scalar(value), nil
}

func scalar(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: 1}
}

var (
	indexPart  = regexp.MustCompile(`_(0|[1-9][0-9]{0,8})_`)
	kubernetes = regexp.MustCompile(`^NDRBRIDGE(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
)

// foreign reports whether a variable is not part of the configuration: the one that names
// the file, those of tests, and those that Kubernetes sets for Services whose names begin
// with ndrbridge.
func foreign(variable, value string) bool {
	return variable == prefix+"CONFIG" || strings.HasPrefix(variable, prefix+"TEST_") ||
		kubernetes.MatchString(variable) ||
		strings.HasSuffix(variable, "_PORT") && strings.Contains(value, "://")
}

// splitList returns the items of a list in a variable, without surrounding blanks and
// without empty items.
func splitList(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
