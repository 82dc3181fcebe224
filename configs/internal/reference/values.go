package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"ndrbridge/configs"
)

// shape returns the schema of a value without its description and default.
func (f field) shape() object {
	switch {
	case f.list && f.required:
		return object{"type": "array", "minItems": 1, "items": definition(f.typ)}
	case f.list:
		return object{"type": orNull("array"), "items": definition(f.typ)}
	case f.option:
		return object{"$ref": "#/$defs/" + f.typ, "type": "object"}
	case f.block != nil:
		return definition(f.typ)
	}
	switch f.typ {
	case "string", "URL":
		return f.text()
	case "Secret":
		return object{"$ref": "#/$defs/text", "writeOnly": true}
	case "[]string":
		items := definition("text")
		if f.oneof != nil {
			items = object{"enum": f.oneof}
		} else if f.form != "" {
			items["pattern"] = configs.Pattern(f.form)
		}
		if f.required {
			return object{"type": "array", "minItems": 1, "items": items}
		}
		return object{"type": orNull("array"), "items": items}
	case "[]Secret":
		return object{"type": orNull("array"), "items": object{"$ref": "#/$defs/text", "writeOnly": true}}
	case "bool":
		return object{"type": orNull("boolean")}
	case "int":
		return f.number("integer")
	case "float64":
		return f.number("number")
	case "Duration":
		return f.duration()
	case "Size":
		return f.size()
	case "Start":
		return object{
			"type": orNull("string"), "pattern": "^(now|beginning|-?(" + durationPart + ")+|(" + durationPart + ")+ *ago|(today|yesterday)( +" + clock + ")?|" + date + "([ T]" + clock + ")?|" + timestamp + ")$",
			"examples": []string{"now", "beginning", "-7d", "yesterday", "2026-01-31", "2026-01-31T08:00:00Z"},
		}
	case "map[string]Secret":
		return object{
			"type": orNull("object"), "propertyNames": object{"pattern": configs.Pattern("header")},
			"additionalProperties": object{"$ref": "#/$defs/text", "writeOnly": true},
		}
	case "map[string]string":
		return object{"type": orNull("object"), "additionalProperties": definition("text")}
	case "operand":
		return operand()
	}
	panic(fmt.Sprintf("the type %s has no schema", f.typ))
}

// operand returns the schema of the operand of a record filter.
func operand() object {
	value := object{"type": []string{"string", "number", "boolean"}}
	values := []object{value, {"type": "array", "minItems": 1, "items": value}}
	typed := object{
		"type": "object", "additionalProperties": false, "required": []string{"type", "value"},
		"properties": object{"type": value, "value": object{"anyOf": values}},
	}
	return object{"anyOf": append(values, typed)}
}

func definition(name string) object { return object{"$ref": "#/$defs/" + name} }

var letters = regexp.MustCompile("[a-z]")

func (f field) text() object {
	schema := definition("text")
	if f.required {
		schema["minLength"] = 1
		if f.fallback == "" {
			schema["not"] = object{"type": "null"}
		}
	}
	pattern := configs.Pattern(f.form)
	if f.schemes != nil {
		pattern = `^\s*(` + letters.ReplaceAllStringFunc(strings.Join(f.schemes, "|"), func(letter string) string {
			return "[" + strings.ToUpper(letter) + letter + "]"
		}) + ")://."
	}
	if pattern != "" && !f.required {
		pattern = "^$|" + pattern
	}
	if pattern != "" {
		schema["pattern"] = pattern
	}
	if f.oneof != nil {
		values := make([]any, 0, len(f.oneof)+2)
		for _, value := range f.oneof {
			values = append(values, value)
		}
		if !f.required {
			if f.fallback == "" {
				values = append(values, "")
			}
			values = append(values, nil)
		}
		schema = object{"enum": values}
	}
	return schema
}

func (f field) number(name string) object {
	schema := object{"type": orNull(name)}
	for keyword, limit := range map[string]string{"minimum": f.min, "maximum": f.max, "exclusiveMinimum": f.above} {
		if limit != "" {
			schema[keyword] = json.Number(limit)
		}
	}
	return schema
}

const (
	durationPart = `([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)`
	date         = `[0-9]{4}-[0-9]{2}-[0-9]{2}`
	clock        = `[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?`
	timestamp    = date + `[T ][0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`
)

// onlyZero matches text whose value is 0, in any unit.
const onlyZero = "^[^1-9]*$"

// durationDefinitions returns the schemas of durations by their bounds.
func durationDefinitions() object {
	examples := []string{"500ms", "30s", "5m", "6h", "7d", "2w"}
	signed := func(signs string) object {
		return object{
			"type": orNull("string", "integer"), "minimum": 0, "maximum": 0,
			"pattern": "^[" + signs + "]?(0|(" + durationPart + ")+)$", "examples": examples,
		}
	}
	return object{
		"duration":      signed("+-"),
		"durationFrom0": signed("+"),
		"durationAbove0": object{
			"type": orNull("string"), "not": object{"type": "string", "pattern": onlyZero},
			"pattern": "^[+]?(" + durationPart + ")+$", "examples": examples,
		},
	}
}

func (f field) duration() object {
	switch {
	case f.above != "" || f.min != "" && f.min != "0":
		return definition("durationAbove0")
	case f.min == "0":
		return definition("durationFrom0")
	}
	return definition("duration")
}

func (f field) size() object {
	schema := object{
		"type": orNull("string", "integer"), "minimum": int64(0), "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)?$",
		"examples": []string{"64KiB", "256MiB", "2GiB"},
	}
	if f.above != "" {
		schema["minimum"] = int64(1)
	}
	if f.above != "" || f.min != "" {
		schema["not"] = object{"type": "string", "pattern": onlyZero}
	}
	if f.min != "" {
		var minimum configs.Size
		if err := minimum.UnmarshalText([]byte(f.min)); err != nil {
			panic(err)
		}
		schema["minimum"] = int64(minimum)
	}
	return schema
}

// defaultValue returns the default as a JSON value.
func (f field) defaultValue() any {
	switch {
	case f.typ == "bool":
		return f.fallback == "true"
	case f.typ == "int", f.typ == "float64", f.fallback == "0":
		return json.Number(f.fallback)
	}
	return f.fallback
}
