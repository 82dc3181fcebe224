package configs

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// setOption is what errors name as the origin of values in Source.Set.
const setOption = "--set"

var inBrackets = regexp.MustCompile(`\[([^\[\]]*)\]`)

// set applies options of the form key=value to config, in order. A list item in a key is
// identified by its index or its name.
func (p *sourceLines) set(options []string, config *Config) {
	if len(options) == 0 {
		return
	}
	keys := make(map[string]key)
	for _, k := range keysOf(reflect.TypeFor[Config](), "", nil) {
		keys[k.path] = k
	}
	for _, option := range options {
		if s, good := p.setting(option, keys, config); good {
			p.apply([]setting{s}, config)
		}
	}
}

// setting returns what an option sets. It reports false if it recorded an error.
func (p *sourceLines) setting(option string, keys map[string]key, config *Config) (setting, bool) {
	at := sourceLine{variable: setOption}
	path, value, complete := strings.Cut(option, "=")
	path = strings.TrimSpace(path)
	var items []string
	general := inBrackets.ReplaceAllStringFunc(path, func(part string) string {
		items = append(items, strings.Trim(part, "[]"))
		return "[#]"
	})
	k, known := keys[general]
	switch {
	case !complete:
		// The text may be a secret if its key was forgotten.
		p.failAt(at, "", "expected KEY=VALUE, such as log.level=debug")
		return setting{}, false
	case !known:
		p.failAt(at, printablePath(path), "is not a known key with a value"+advice(general, items, keys))
		return setting{}, false
	case value == "":
		p.failAt(at, path, "has no value; write "+path+"=VALUE")
		return setting{}, false
	}
	indexes, err := itemsAt(reflect.ValueOf(config).Elem(), k, items)
	if err != nil {
		p.failAt(at, path, err.Error())
		return setting{}, false
	}
	for _, index := range indexes {
		path = strings.Replace(general, "[#]", fmt.Sprintf("[%d]", index), 1)
		general = path
	}
	variable := variableOf(path)
	if advice := secretAdvice(k, path, value); advice != "" {
		p.failAt(at, path, "is not accepted here, because other users can see it in the list of processes; "+advice+", or set the variable "+variable)
		return setting{}, false
	}
	return setting{k, variable, value, indexes, setOption}, true
}

// secretAdvice returns how to set a secret instead of in an option, or "" if the value of
// the key is not a secret.
func secretAdvice(k key, path, value string) string {
	const inFile = "write it into a configuration file"
	switch k.typ {
	case reflect.TypeFor[Secret]():
		if !strings.HasSuffix(k.path, fileSuffix) {
			return "write it into a file and set " + path + fileSuffix
		}
	case reflect.TypeFor[Secrets](), reflect.TypeFor[Headers]():
		return inFile
	case reflect.TypeFor[URL]():
		if strings.Contains(NewURL(value).String(), hidden) {
			return inFile
		}
	}
	return ""
}

// itemsAt returns the indexes of the list items on the way to a key, of which each is given
// by its index or its name.
func itemsAt(at reflect.Value, k key, items []string) ([]int, error) {
	var indexes []int
	for _, step := range k.steps {
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				at = reflect.New(at.Type().Elem())
			}
			at = at.Elem()
		}
		if step != eachItem {
			at = at.Field(step)
			continue
		}
		index, err := indexIn(at, items[len(indexes)])
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, index)
		if index < at.Len() {
			at = at.Index(index)
		} else {
			at = reflect.New(at.Type().Elem()).Elem()
		}
	}
	return indexes, nil
}

// indexIn returns the index of a list item that is given by its index or its name.
func indexIn(list reflect.Value, name string) (int, error) {
	if index, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(index), nil
	}
	var names []string
	for i := range list.Len() {
		if isNamed(list.Type().Elem()) {
			names = append(names, list.Index(i).FieldByName("Name").String())
		}
	}
	if i := slices.Index(names, name); i >= 0 && name != "" {
		return i, nil
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("there is no item %q; write its index, from 0 on", name)
	}
	return 0, fmt.Errorf("there is no item %q; write one of %s, or an index from 0 on", name, strings.Join(names, ", "))
}

// advice returns the end of the message about a key that has no value: how to name an item
// of a list, a key in the block, or a similar key.
func advice(general string, items []string, keys map[string]key) string {
	var below []string
	for path := range keys {
		if i := strings.LastIndex(path, "[#]"); i >= 0 && strings.HasPrefix(general+".", path[:i]+".") {
			return "; write an item of a list as in sinks[0].name"
		}
		if name, is := strings.CutPrefix(path, general+"."); is && !strings.Contains(name, ".") {
			below = append(below, name)
		}
	}
	if len(below) > 0 {
		return "; set one of the keys in it: " + strings.Join(slices.Sorted(slices.Values(below)), ", ")
	}
	return suggestKey(general, items, keys)
}

// suggestKey returns the end of the message about an unknown key, with the items of its
// path put back.
func suggestKey(general string, items []string, keys map[string]key) string {
	var similar []string
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		if strings.Count(path, "#") == len(items) {
			similar = append(similar, path)
		}
	}
	text := suggest(general, similar)
	for _, name := range items {
		text = strings.Replace(text, "#", printable(name), 1)
	}
	return text
}

// printablePath returns a path for use in an error; see printable.
func printablePath(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		name, index, _ := strings.Cut(part, "[")
		parts[i] = printable(name)
		if name, closed := strings.CutSuffix(index, "]"); closed {
			parts[i] += "[" + printable(name) + "]"
		}
	}
	return strings.Join(parts, ".")
}
