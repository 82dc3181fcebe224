package configs

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/secretfile"
)

// checks validates the values that were read, and records the errors.
type checks struct {
	*sourceLines
	unread Errors // errors of values that could not be read
}

func validate(p *sourceLines, config *Config) {
	c := checks{p, slices.Clone(p.errors)}
	for _, path := range p.meant {
		if _, set := p.at[path]; !set { // otherwise reported as missing, too
			c.unread = append(c.unread, &Error{Path: path})
		}
	}
	eachField("", reflect.ValueOf(config).Elem(), c.tags)
	c.cluster(config.Cluster, hostName())
	c.admin(config.Admin, config.Tickets.Webhooks)
	if every := config.Events.Heartbeat; every > 0 && every < Duration(time.Second) {
		c.wrong("events.heartbeat", "is %s; write at least 1s, or 0 for none", every)
	}
	if every := config.Reload.Watch; every > 0 && every < Duration(time.Second) {
		c.wrong("reload.watch", "is %s; write at least 1s, or 0 to reload only when asked", every)
	}
	c.appliances(config.Appliances)
	c.sinks(config.Sinks, config.State)
	for i, s := range config.Sinks {
		c.lag(item("sinks", i)+".lag", s.Lag, config.Journal.MaxBytes)
		if s.File != nil {
			c.sharded(item("sinks", i)+".file.path", *s.File, config)
		}
		if s.Webhook != nil {
			c.ticketOpener(item("sinks", i)+".webhook", s, config.Tickets.Enabled)
		}
	}
	c.tickets(config.Tickets, config.Admin)
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
	if f.required && isEmpty(value) {
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

// name checks that a name is not in before. It adds the name to before with the path of its
// block.
func (c checks) name(path, name string, before map[string]string) {
	switch {
	case name == "": // reported as missing
	case before[name] != "":
		c.wrong(path, "%q is also the name of %s; names must be unique", name, before[name])
	default:
		before[name] = parent(path)
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
