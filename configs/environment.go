package configs

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// overlay applies the environment to config, where it takes precedence over the files. Empty
// variables are ignored. An unknown variable is recorded as an error.
func (p *sourceLines) overlay(config *Config) {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(p.environment)), func(name string) bool {
		return !strings.HasPrefix(name, prefix) || foreign(name, p.environment[name])
	})
	// The items of a list in their order, and a secret before its file.
	ordered := func(name string) string {
		return indexPart.ReplaceAllStringFunc(name, func(part string) string { return fmt.Sprintf("_%11s", part[1:]) })
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(ordered(a), ordered(b)) })
	for _, name := range names {
		if p.setBelow("", reflect.ValueOf(config).Elem(), name, name[len(prefix):]) == "" {
			indexes := indexPart.FindAllString(name, -1)
			advice := suggest(name, variablesOf(reflect.TypeFor[Config](), prefix, indexes))
			p.failAt(sourceLine{variable: name}, "", "is not a known variable"+advice)
		}
	}
}

// setBelow sets the key of the block at path that a variable stands for, of which rest is the end
// of its name. It returns the key's path, or "" if there is no such key. An empty variable
// changes nothing.
func (p *sourceLines) setBelow(path string, block reflect.Value, variable, rest string) (set string) {
	for _, f := range fieldsOf(block.Type()) {
		path, value := join(path, f.name), block.FieldByIndex(f.index)
		below, within := strings.CutPrefix(rest, strings.ToUpper(f.name)+"_")
		switch {
		case rest == strings.ToUpper(f.name) && f.shape < shapeBlock:
			return p.setKey(path, value, variable)
		case !within:
		case f.shape == shapeSecret && below == "FILE":
			return p.setKey(path+fileSuffix, value, variable)
		case f.shape == shapeBlock:
			set = p.setBelow(path, value, variable, below)
		case f.shape == shapeOption:
			option := value
			if value.IsNil() {
				option = newValue(f.typ.Elem()).Addr()
			}
			if set = p.setBelow(path, option.Elem(), variable, below); set != "" && p.environment[variable] != "" {
				value.Set(option)
			}
		case f.shape == shapeBlocks:
			set = p.setInList(path, value, variable, below)
		}
		if set != "" {
			return set
		}
	}
	return ""
}

// setInList is setBelow for the items of a list. It appends an item if the list ends before it.
func (p *sourceLines) setInList(path string, list reflect.Value, variable, rest string) (set string) {
	digits, below, _ := strings.Cut(rest, "_")
	if !indexPart.MatchString("_" + digits + "_") {
		return ""
	}
	index, _ := strconv.Atoi(digits)
	value := newValue(list.Type().Elem())
	if index < list.Len() {
		value = list.Index(index)
	}
	before := len(p.errors)
	set = p.setBelow(item(path, index), value, variable, below)
	switch {
	case set == "" || p.environment[variable] == "":
	case index > list.Len():
		p.meant = append(p.meant, path)
		p.errors = p.errors[:before]
		p.failAt(sourceLine{variable: variable}, set, "skips an item of the list: "+item(path, list.Len())+" is not set; items count from 0")
	case index == list.Len():
		list.Set(reflect.Append(list, value))
		// Without a position, so that errors do not refer to the list in the file.
		p.at[item(path, index)] = sourceLine{}
	}
	return set
}

// setKey sets the key at path to the value of a variable, and returns path.
func (p *sourceLines) setKey(path string, value reflect.Value, variable string) string {
	text := p.environment[variable]
	if text == "" {
		return path
	}
	if secret, is := value.Addr().Interface().(*Secret); is {
		// A value replaces a _file key of a file, and vice versa; two variables for one
		// secret are an error.
		literal, isFile := strings.CutSuffix(variable, "_FILE")
		isFile = isFile && strings.HasSuffix(path, fileSuffix)
		if !isFile || p.environment[literal] == "" {
			*secret = Secret{}
		}
		if isFile {
			value = value.FieldByName("File")
		}
	}
	p.at[path] = sourceLine{variable: variable}
	p.forget(path)
	if err := setVariable(value, text); err != nil {
		p.failAt(p.at[path], path, err.Error())
	}
	return path
}

// variablesOf returns the variables of the keys of a block and of those in it, and of the items of
// its lists that have the indexes.
func variablesOf(t reflect.Type, prefix string, indexes []string) (names []string) {
	for _, f := range fieldsOf(t) {
		name := prefix + strings.ToUpper(f.name)
		switch f.shape {
		case shapeBlock:
			names = append(names, variablesOf(f.typ, name+"_", indexes)...)
		case shapeOption:
			names = append(names, variablesOf(f.typ.Elem(), name+"_", indexes)...)
		case shapeBlocks:
			if len(indexes) > 0 {
				names = append(names, variablesOf(f.typ.Elem(), name+indexes[0], indexes[1:])...)
			}
		case shapeSecret:
			names = append(names, name, name+"_FILE")
		default:
			names = append(names, name)
		}
	}
	return names
}

// setVariable sets v to the value of a variable. The error says what is expected.
func setVariable(v reflect.Value, text string) error {
	switch {
	case shapeOf(v.Type()) == shapeTexts:
		v.Set(reflect.ValueOf(splitList(text)))
		return nil
	case v.Type() == reflect.TypeFor[map[string]string]():
		table, err := parsePairs(text, "key: value", func(value string) string { return value })
		v.Set(reflect.ValueOf(table))
		return err
	case v.Kind() == reflect.Bool:
		if truth, err := strconv.ParseBool(text); err == nil { // 1 and T are true too
			v.SetBool(truth)
			return nil
		}
	}
	return setText(v, text)
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
