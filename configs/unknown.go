package configs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ndrbridge/internal/similar"
)

// enclosing is a block whose keys are being read.
type enclosing struct {
	path   string
	fields []field
}

// foreignKeys are keys of other programs, and the keys that have their meaning here.
var foreignKeys = map[string]string{
	"address": "url", "endpoint": "url", "host": "url", "hostname": "url", "server": "url", "servers": "url", "uri": "url",
	"bootstrap.servers": "brokers", "bootstrap_servers": "brokers", "hosts": "brokers", "topics": "topic", "subjects": "subject",
	"condition": "match", "filter": "match", "when": "match", "where": "match",
	"apikey": "api_key", "key": "api_key", "token": "api_key", "bind": "listen", "port": "listen",
	"outputs": "sinks", "output": "sinks", "destinations": "sinks", "targets": "sinks",
	"ssl": "tls", "ca": "ca_file", "cafile": "ca_file", "filename": "path", "poll_interval": "interval",
}

// otherKeys are keys of other programs for what is written in another way here, and the key
// of the block in which that is.
var otherKeys = map[string]struct{ below, advice string }{
	"streams":    {"detections", "an appliance has the keys detections, audit and records; a stream is switched off by its enabled: false"},
	"severity":   {"match", `write match: event.severitytext in ["high", "critical"]`},
	"verify":     {"insecure_skip_verify", "certificates are verified unless insecure_skip_verify is true; set ca_file to trust one"},
	"token":      {"auth", "write auth: {bearer_file: FILE}, or key_file: FILE for a preset that needs a key"},
	"token_file": {"auth", "write auth: {bearer_file: FILE}, or key_file: FILE for a preset that needs a key"},
}

// unknownKey returns the message about a key that the innermost block does not have: a key
// for which it most likely stands, there or in a block around it or in it, because a key
// with wrong indentation is read as one of another block. The missing key is then not
// reported. content are the keys and values beside it.
func (p *sourceLines) unknownKey(key string, value *yaml.Node, content []*yaml.Node) string {
	const unknown = "is not a known key"
	within := p.around[len(p.around)-1]
	mean := func(name string) { p.meant = append(p.meant, join(within.path, name)) }
	switch {
	case strings.Contains(key, ":"):
		name, _, _ := strings.Cut(key, ":")
		mean(name)
		return unknown + "; a space must follow the colon"
	case key == "<<":
		return unknown + "; merging is not supported, write the keys out"
	}
	for i := 0; i+1 < len(content); i += 2 {
		f, known := fieldOf(within.fields, resolve(content[i]).Value)
		if !known || !hasKey(f, key) {
			continue
		}
		mean(f.name + "." + key)
		if isNull(resolve(content[i+1])) {
			return fmt.Sprintf(unknown+", but %s on line %d has it; indent it deeper than %s", f.name, content[i].Line, f.name)
		}
		return fmt.Sprintf(unknown+" here, but %s has it; move it there", join(within.path, f.name))
	}
	keys := keysIn(within.fields)
	name := similar.Nearest(key, keys)
	if known := foreignKeys[strings.ToLower(key)]; slices.Contains(keys, known) {
		name = known
	}
	if name != "" {
		mean(name)
		return unknown + "; did you mean " + name + "?"
	}
	if other := otherKeys[key]; slices.Contains(keys, other.below) {
		return unknown + "; " + other.advice
	}
	if kind := resolve(value).Value; (key == "type" || key == "kind") && slices.Contains(keys, kind) {
		mean(kind)
		return fmt.Sprintf(unknown+"; write %s as a key, with its own keys below it", kind)
	}
	for i := len(p.around) - 2; i >= 0; i-- {
		if outer := p.around[i]; slices.Contains(keysIn(outer.fields), key) {
			return fmt.Sprintf(unknown+", but %s has it; indent it like the keys there", cmp.Or(outer.path, "the top level"))
		}
	}
	return unknown + p.inside(key, within)
}

// inside returns the end of the message about an unknown key that a block within the
// innermost one has: where it belongs, or "".
func (p *sourceLines) inside(key string, within enclosing) string {
	for _, f := range within.fields {
		below, isBelow := strings.CutPrefix(key, f.name+"_")
		switch {
		case isBelow && hasKey(f, below):
			p.meant = append(p.meant, join(within.path, f.name+"."+below))
			return fmt.Sprintf("; write %s as a key below %s", below, f.name)
		case f.shape == shapeOption && presetOf(f, key) != "":
			p.meant = append(p.meant, join(within.path, f.name))
			return fmt.Sprintf("; write %s: {preset: %s, …}", f.name, presetOf(f, key))
		}
	}
	const items = "the items of "
	var has []string
	for _, f := range within.fields {
		switch {
		case f.shape == shapeBlocks && blockHas(f.typ.Elem(), key):
			has = append(has, items+f.name)
			for i := 0; ; i++ {
				if _, read := p.at[item(join(within.path, f.name), i)]; !read {
					break
				}
				p.meant = append(p.meant, item(join(within.path, f.name), i)+"."+key)
			}
		case hasKey(f, key):
			has = append(has, f.name)
			p.meant = append(p.meant, join(within.path, f.name))
		}
	}
	switch {
	case len(has) == 0:
		return ""
	case len(has) == 1 && strings.HasPrefix(has[0], items):
		return " here, but " + has[0] + " have it; move it there"
	case len(has) == 1:
		return " here, but " + has[0] + " has it; move it there"
	}
	return " here, but " + enumerate(has, "and") + " have it; move it to one of them"
}

// presetOf returns the preset of a block that a name stands for, which may be its first word, or
// "".
func presetOf(f field, name string) string {
	preset, _ := fieldOf(fieldsOf(f.typ.Elem()), "preset")
	for _, known := range preset.oneof {
		if known == name || strings.HasPrefix(known, name+"_") {
			return known
		}
	}
	return ""
}

// hasKey reports whether a field is a block with a key.
func hasKey(f field, key string) bool {
	return f.shape == shapeBlock && blockHas(f.typ, key) || f.shape == shapeOption && blockHas(f.typ.Elem(), key)
}

func blockHas(block reflect.Type, key string) bool {
	_, has := fieldOf(fieldsOf(block), key)
	return has
}

// keysIn returns the keys of a block.
func keysIn(fields []field) []string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.name)
		if f.shape == shapeSecret {
			keys = append(keys, f.name+fileSuffix)
		}
	}
	return keys
}

// someKeys lists up to four keys of a block.
func someKeys(fields []field) string {
	const most = 4
	keys := keysIn(fields)
	if len(keys) > most {
		return strings.Join(keys[:most], ", ") + " and so on"
	}
	return strings.Join(keys, ", ")
}
