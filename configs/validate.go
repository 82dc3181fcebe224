package configs

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/secretfile"
)

// checks validates the values that were read, and records the errors.
type checks struct {
	*sourceLines
	unread Errors // errors of values that could not be read
	config *Config
}

// ruled is a block with rules between its keys, or between them and other keys of the
// configuration. What follows from the tags is checked before.
type ruled interface {
	// check reports errors in the block at path.
	check(c checks, path string)
}

func validate(p *sourceLines, config *Config) {
	c := checks{p, slices.Clone(p.errors), config}
	for _, path := range p.meant {
		if _, set := p.at[path]; !set { // otherwise reported as missing, too
			c.unread = append(c.unread, &Error{Path: path})
		}
	}
	eachField("", reflect.ValueOf(config).Elem(), c.tags)
	eachBlock("", reflect.ValueOf(config).Elem(), func(path string, block reflect.Value) {
		c.with(path, block)
		if block, is := block.Addr().Interface().(ruled); is {
			block.check(c, path)
		}
	})
}

func (config *Config) check(c checks, _ string) {
	if every := config.Events.Heartbeat; every > 0 && every < Duration(time.Second) {
		c.wrong("events.heartbeat", "is %s; write at least 1s, or 0 for none", every)
	}
	if every := config.Reload.Watch; every > 0 && every < Duration(time.Second) {
		c.wrong("reload.watch", "is %s; write at least 1s, or 0 to reload only when asked", every)
	}
	if len(config.Appliances) == 0 {
		c.wrong("appliances", "has no appliances; add one with name, url and api_key_file, or set NDRBRIDGE_APPLIANCES_0_NAME and so on")
	}
	if len(config.Sinks) == 0 {
		c.wrong("sinks", "has no sinks; add one with name and %s, or set NDRBRIDGE_SINKS_0_NAME and so on", enumerate(keysIn(kinds), "or"))
	}
	c.notify(config)
	c.differentFiles(config)
}

// notify marks the sinks that config.Notify lists, and checks that each can be notified.
func (c checks) notify(config *Config) {
	var names []string
	for i, s := range config.Sinks {
		names = append(names, s.Name)
		config.Sinks[i].notified = slices.Contains(config.Notify, s.Name)
	}
	for i, name := range config.Notify {
		path, at := item("notify", i), slices.Index(names, name)
		switch {
		case at < 0:
			c.wrong(path, "there is no sink %q%s", name, suggest(name, names))
		case config.Sinks[at].Webhook != nil && config.Sinks[at].Webhook.Ticket != nil:
			c.wrong(path, "sink %s opens tickets for detections only; write a sink that takes every event", name)
		}
	}
}

// wrong records an error, unless the value at path could not be read, which is an error
// already.
func (c checks) wrong(path, format string, args ...any) {
	if !c.failed(path) {
		c.fail(path, fmt.Sprintf(format, args...))
	}
}

// failed reports whether the value at path, or a block that contains it, could not be
// read.
func (c checks) failed(path string) bool {
	for _, e := range c.unread {
		rest, within := strings.CutPrefix(path, e.Path)
		if within && e.Path != "" && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// failedSecret reports whether either key of a secret could not be read.
func (c checks) failedSecret(path string) bool {
	return c.failed(path) || c.failed(path+fileSuffix)
}

// tags checks what follows from tags and types alone: permitted values, forms, schemes, bounds,
// required values, secrets that are set twice, and files that must be readable.
func (c checks) tags(path string, f field, value reflect.Value) {
	c.bounds(path, f.bounds, value)
	c.example(path, f, value)
	switch {
	case f.shape == shapeBlocks:
		c.differentNames(path, value)
		return
	case f.required && f.shape == shapeSecret:
		c.presentSecret(path, value.Interface().(Secret))
	case f.required && isEmpty(value):
		c.missing(path)
	}
	switch {
	case f.shape == shapeTexts:
		for i := range value.Len() {
			text := value.Index(i).String()
			c.oneof(item(path, i), text, f.oneof)
			c.form(item(path, i), f.form, text)
		}
	case f.shape == shapeSecret:
		c.secret(path, value.Interface().(Secret))
	case f.typ == reflect.TypeFor[URL]():
		c.schemes(path, f, value.Interface().(URL).Value())
	case value.Kind() != reflect.String:
	case value.String() == "":
		if f.fallback != "" && f.oneof != nil {
			c.wrong(path, "is empty; write one of %s", strings.Join(f.oneof, ", "))
		}
	default:
		c.oneof(path, value.String(), f.oneof)
		c.form(path, f.form, value.String())
		c.schemes(path, f, value.String())
		if strings.HasSuffix(f.name, fileSuffix) {
			if _, err := secretfile.Read(value.String()); err != nil && !c.withoutSecrets {
				c.wrong(path, "%v%s", err, fileAdvice(err))
			}
		}
	}
}

// exampleValue matches the values in what ndrbridge config new writes that no installation has.
var exampleValue = regexp.MustCompile(`REPLACE|(^|[^\w-])example\.com($|[^\w.-])`)

// IsExample reports whether a value is an example of ndrbridge config new that must be
// replaced: Load refuses it, unless nothing is contacted.
func IsExample(value string) bool { return exampleValue.MatchString(value) }

// example reports a value that is still an example. Expressions and templates are not addresses.
func (c checks) example(path string, f field, value reflect.Value) {
	if c.withoutSecrets || f.name == "match" || f.name == "template" {
		return
	}
	check := func(path, text string) {
		if IsExample(text) {
			c.wrong(path, "is still the example that config new wrote; fill in your own value")
		}
	}
	switch u, isURL := value.Interface().(URL); {
	case isURL:
		check(path, u.Value())
	case value.Kind() == reflect.String:
		check(path, value.String())
	case f.shape == shapeTexts && value.Type().Elem().Kind() == reflect.String:
		for i := range value.Len() {
			check(item(path, i), value.Index(i).String())
		}
	}
}

// with checks the keys of a block that may be set only with another key, or some values of it.
func (c checks) with(path string, block reflect.Value) {
	fields := fieldsOf(block.Type())
	for _, f := range fields {
		name, values, hasValues := strings.Cut(f.with, "=")
		other, known := fieldOf(fields, name)
		if !known || c.failedSecret(join(path, name)) {
			continue
		}
		value, otherValue := block.FieldByIndex(f.index), block.FieldByIndex(other.index)
		isSet := !isEmpty(value) || c.failedSecret(join(path, f.name))
		switch {
		case hasValues:
			c.withValue(path, f, isSet, other, otherValue.String(), strings.Split(values, ","))
		case isSet && isEmpty(otherValue):
			c.wrong(join(path, f.name), "is set without %s; set both or none", keyOfFile(other))
		}
	}
}

// withValue checks a key of the block at path that belongs to some values of another key.
func (c checks) withValue(path string, f field, isSet bool, other field, value string, values []string) {
	belongs := slices.Contains(values, value)
	switch {
	case belongs && !isSet && f.needed:
		c.missing(join(path, keyOfFile(f)))
	case belongs || !isSet:
	case value == "" && !other.required:
		c.wrong(join(path, other.name), "is missing; %s requires %s", f.name, enumerate(values, "or"))
	case slices.Contains(other.oneof, value): // others are reported by the oneof tag
		c.wrong(join(path, f.name), "belongs to %s %s; leave it out", other.name, enumerate(values, "or"))
	}
}

// keyOfFile returns the key of a field; of a secret the path of its file.
func keyOfFile(f field) string {
	if f.shape == shapeSecret {
		return f.name + fileSuffix
	}
	return f.name
}

// schemes checks a URL that is set, or several separated by commas, if the key requires some
// schemes.
func (c checks) schemes(path string, f field, text string) {
	switch {
	case text == "" || f.schemes == nil:
	case f.several:
		for part := range strings.SplitSeq(text, ",") {
			c.url(path, strings.TrimSpace(part), f.schemes)
		}
	default:
		c.url(path, text, f.schemes)
	}
}

func (c checks) oneof(path, value string, allowed []string) {
	if allowed != nil && !slices.Contains(allowed, value) {
		c.wrong(path, "%q is not one of %s%s", value, strings.Join(allowed, ", "), suggest(value, allowed))
	}
}

func (c checks) secret(path string, s Secret) {
	switch {
	case s.value != nil && s.File != "":
		c.wrong(path, "is set, and so is %s; keep one of them", path[strings.LastIndexByte(path, '.')+1:]+fileSuffix)
	case s.File != "":
		if _, err := s.Read(); err != nil && !c.withoutSecrets {
			c.wrong(path+fileSuffix, "%v%s", err, fileAdvice(err))
		}
	case s.value != nil:
		if _, err := s.Read(); err != nil {
			c.wrong(path, "has a line break or another control character; write only the secret, on one line")
		}
	}
}

// setKeys returns the keys of a block that are not empty, in its order.
func setKeys(block any) []string {
	v := reflect.ValueOf(block)
	var keys []string
	for _, f := range fieldsOf(v.Type()) {
		if !isEmpty(v.FieldByIndex(f.index)) {
			keys = append(keys, f.name)
		}
	}
	return keys
}

func (c checks) present(path, value string) {
	if value == "" {
		c.missing(path)
	}
}

func (c checks) presentSecret(path string, secret Secret) {
	if !secret.IsSet() && !c.failedSecret(path) {
		c.missing(path + fileSuffix)
	}
}

func (c checks) missing(path string) {
	c.wrong(path, "is missing; set it, or the variable %s", variableOf(path))
}

func (c checks) retry(path string, initial, most Duration) {
	if most < initial {
		c.wrong(path+".max", "is %s, shorter than initial, which is %s", most, initial)
	}
}

// differentNames checks that the items of a list have different names.
func (c checks) differentNames(path string, list reflect.Value) {
	if !isNamed(list.Type().Elem()) {
		return
	}
	first := make(map[string]int)
	for i := range list.Len() {
		name := list.Index(i).FieldByName("Name").String()
		if other, found := first[name]; found && name != "" {
			c.wrong(item(path, i)+".name", "%q is also the name of %s; names must be unique", name, item(path, other))
			continue
		}
		first[name] = i
	}
}

// absolute returns an absolute path, or the path itself if the working folder is unknown.
func absolute(path string) string {
	if made, err := filepath.Abs(path); err == nil {
		return made
	}
	return path
}

// bounds holds the limits of a number, a duration or a size in the form of the tags. An
// empty limit is none.
type bounds struct {
	min, max string // inclusive
	above    string // exclusive
}

// bounds checks a value.
func (c checks) bounds(path string, b bounds, value reflect.Value) {
	if b == (bounds{}) {
		return
	}
	against := func(limit string) int { return cmp.Compare(number(value), number(parsed(value.Type(), limit))) }
	under := b.min != "" && against(b.min) < 0
	over := b.max != "" && against(b.max) > 0
	switch {
	case value.Kind() == reflect.Float64 && (math.IsNaN(value.Float()) || math.IsInf(value.Float(), 0)):
		c.wrong(path, "is %v; write a number", value)
	case b.above != "" && against(b.above) <= 0:
		c.wrong(path, "is %v; it must be above %s", value, b.above)
	case (under || over) && b.min != "" && b.max != "":
		c.wrong(path, "is %v; it must be between %s and %s", value, b.min, b.max)
	case over:
		c.wrong(path, "is %v; it must be at most %s", value, b.max)
	case under && b.min == "0":
		c.wrong(path, "is %v; it must be 0 or more", value)
	case under:
		c.wrong(path, "is %v; it must be at least %s", value, b.min)
	}
}

// parsed returns the limit as a value of type t.
func parsed(t reflect.Type, limit string) reflect.Value {
	value := reflect.New(t).Elem()
	if err := setText(value, limit); err != nil {
		panic(fmt.Sprintf("configs: bound %s: %v", limit, err))
	}
	return value
}

// number returns the number in v. Limits are so small that the rounding of larger numbers
// does not matter.
func number(v reflect.Value) float64 {
	if v.CanFloat() {
		return v.Float()
	}
	return float64(v.Int())
}
