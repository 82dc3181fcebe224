package configs

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const prefix = "NDRBRIDGE_"

// key is a key that can be set. In its path, # stands for the index of a list item.
type key struct {
	path  string // sinks[#].kafka.brokers
	typ   reflect.Type
	steps []int // the field indexes from Config to the key, and eachItem for a list item
}

const eachItem = -1

// keysOf returns the keys of a struct, including those of nested structs.
func keysOf(t reflect.Type, path string, steps []int) []key {
	var keys []key
	for _, f := range fieldsOf(t) {
		path := join(path, f.name)
		steps := append(slices.Clip(steps), f.index...)
		switch f.shape {
		case shapeBlock:
			keys = append(keys, keysOf(f.typ, path, steps)...)
		case shapeOption:
			keys = append(keys, keysOf(f.typ.Elem(), path, steps)...)
		case shapeBlocks:
			keys = append(keys, keysOf(f.typ.Elem(), path+"[#]", append(steps, eachItem))...)
		case shapeSecret:
			keys = append(keys, key{path, f.typ, steps}, key{path + fileSuffix, f.typ, steps})
		default:
			keys = append(keys, key{path, f.typ, steps})
		}
	}
	return keys
}

// variableOf returns the environment variable of the key at path.
func variableOf(path string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(path))
}

// setting is an environment variable that sets a key.
type setting struct {
	key
	variable, value string
	indexes         []int // of the list items in the path
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

// overlay applies the environment to config, where it takes precedence over the files.
func (p *sourceLines) overlay(environ []string, config *Config) {
	settings := p.settings(variables(environ))
	for i, s := range settings {
		path, value, ok := p.locate(s, reflect.ValueOf(config).Elem())
		if !ok {
			continue
		}
		if secret, is := value.Addr().Interface().(*Secret); is {
			// A value replaces a _file key of a file, and vice versa; two variables for
			// one secret are an error.
			if i == 0 || s.variable != settings[i-1].variable+strings.ToUpper(fileSuffix) {
				*secret = Secret{}
			}
			if strings.HasSuffix(path, fileSuffix) {
				value = value.FieldByName("File")
			}
		}
		p.at[path] = sourceLine{variable: s.variable}
		p.forget(path)
		if err := setVariable(value, s.value); err != nil {
			p.failAt(p.at[path], path, err.Error())
		}
	}
}

// setVariable sets v to the value of a variable. The error says what is expected.
func setVariable(v reflect.Value, text string) error {
	switch {
	case shapeOf(v.Type()) == shapeTexts:
		v.Set(reflect.ValueOf(splitList(text)))
		return nil
	case v.Kind() == reflect.Bool:
		if truth, err := strconv.ParseBool(text); err == nil { // 1 and T are true too
			v.SetBool(truth)
			return nil
		}
	}
	return setText(v, text)
}

// settings returns the settings of all variables, ordered by the indexes of list items.
// Empty variables are ignored. An unknown variable is recorded as an error.
func (p *sourceLines) settings(environment map[string]string) []setting {
	keys := keysOf(reflect.TypeFor[Config](), "", nil)
	byVariable := make(map[string]key, len(keys))
	for _, k := range keys {
		byVariable[variableOf(k.path)] = k
	}
	var settings []setting
	for variable, value := range environment {
		if !strings.HasPrefix(variable, prefix) || foreign(variable, value) {
			continue
		}
		general, indexes := generalize(variable)
		k, known := byVariable[general]
		switch {
		case !known:
			p.failAt(sourceLine{variable: variable}, "", "is not a known variable"+suggestVariable(general, indexes, byVariable))
		case value != "":
			settings = append(settings, setting{k, variable, value, indexes})
		}
	}
	slices.SortFunc(settings, func(a, b setting) int {
		return cmp.Or(slices.Compare(a.indexes, b.indexes), slices.Compare(a.steps, b.steps), cmp.Compare(a.variable, b.variable))
	})
	return settings
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

// generalize replaces the indexes in the name of a variable by # and returns them.
func generalize(variable string) (string, []int) {
	var indexes []int
	general := indexPart.ReplaceAllStringFunc(variable, func(part string) string {
		index, _ := strconv.Atoi(strings.Trim(part, "_"))
		indexes = append(indexes, index)
		return "_#_"
	})
	return general, indexes
}

func suggestVariable(general string, indexes []int, known map[string]key) string {
	var names []string
	for name := range known {
		if strings.Count(name, "#") == len(indexes) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	text := suggest(general, names)
	for _, index := range indexes {
		text = strings.Replace(text, "#", strconv.Itoa(index), 1)
	}
	return text
}

// locate returns the path of a variable's key and the value to set. It creates blocks and
// list items that do not exist yet. It returns false if an item before it is missing.
func (p *sourceLines) locate(s setting, at reflect.Value) (path string, value reflect.Value, ok bool) {
	path, indexes := s.path, s.indexes
	for _, step := range s.steps {
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				at.Set(newValue(at.Type().Elem()).Addr())
			}
			at = at.Elem()
		}
		if step != eachItem {
			at = at.Field(step)
			continue
		}
		index := indexes[0]
		list, rest, _ := strings.Cut(path, "[#]")
		indexes, path = indexes[1:], item(list, index)+rest
		if index > at.Len() {
			p.meant = append(p.meant, list)
			p.failAt(sourceLine{variable: s.variable}, path, "skips an item of the list: "+item(list, at.Len())+" is not set; items count from 0")
			return "", value, false
		}
		if index == at.Len() {
			at.Set(reflect.Append(at, newValue(at.Type().Elem())))
			// Without a position, so that errors do not refer to the list in the file.
			p.at[item(list, index)] = sourceLine{}
		}
		at = at.Index(index)
	}
	return path, at, true
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
