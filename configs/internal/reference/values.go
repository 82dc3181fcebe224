package main

import (
	"fmt"
	"strconv"

	"ndrbridge/configs"
)

// shape returns the schema of a value without its description and default.
func (f field) shape() (object, error) {
	switch {
	case f.list && f.required:
		return object{"type": "array", "minItems": 1, "items": definition(f.typ)}, nil
	case f.list:
		return object{"type": orNull("array"), "items": definition(f.typ)}, nil
	case f.option:
		return object{"$ref": "#/$defs/" + f.typ, "type": "object"}, nil
	case f.block != nil:
		return definition(f.typ), nil
	}
	switch f.typ {
	case "string", "URL":
		return f.text(), nil
	case "Secret":
		return object{"$ref": "#/$defs/text", "writeOnly": true}, nil
	case "[]string":
		items := definition("text")
		if f.oneof != nil {
			items = object{"enum": f.oneof}
		} else if f.form != "" {
			items["pattern"] = configs.Pattern(f.form)
		}
		if f.required {
			return object{"type": "array", "minItems": 1, "items": items}, nil
		}
		return object{"type": orNull("array"), "items": items}, nil
	case "Secrets":
		return object{"type": orNull("array"), "items": object{"$ref": "#/$defs/text", "writeOnly": true}}, nil
	case "bool":
		return object{"type": orNull("boolean")}, nil
	case "int":
		return f.number("integer")
	case "float64":
		return f.number("number")
	case "Duration":
		return f.duration(), nil
	case "Size":
		return f.size()
	case "Start":
		return object{
			"type": orNull("string"), "pattern": "^(now|beginning|-(" + durationPart + ")+|" + timestamp + ")$",
			"examples": []string{"now", "beginning", "-7d", "2026-01-31T08:00:00Z"},
		}, nil
	case "Headers":
		return object{
			"type": orNull("object"), "propertyNames": object{"pattern": configs.Pattern("header")},
			"additionalProperties": object{"$ref": "#/$defs/text", "writeOnly": true},
		}, nil
	case "Table":
		return object{"type": orNull("object"), "additionalProperties": definition("text")}, nil
	case "RecordFilter":
		return object{"anyOf": []any{object{"type": "null"}, object{"type": "object", "maxProperties": 0}, definition("filter")}}, nil
	}
	return nil, fmt.Errorf("the type %s has no schema", f.typ)
}

func definition(name string) object { return object{"$ref": "#/$defs/" + name} }

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
		pattern = `^\s*` + anySpelling(f.schemes) + "://."
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

func (f field) number(name string) (object, error) {
	schema := object{"type": orNull(name)}
	for _, limit := range []struct{ keyword, text string }{
		{"minimum", f.min}, {"maximum", f.max}, {"exclusiveMinimum", f.above},
	} {
		if limit.text == "" {
			continue
		}
		n, err := strconv.ParseFloat(limit.text, 64)
		if err != nil {
			return nil, err
		}
		schema[limit.keyword] = n
	}
	return schema, nil
}

const (
	durationPart = `([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)`
	timestamp    = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`
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

func (f field) size() (object, error) {
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
			return nil, err
		}
		schema["minimum"] = int64(minimum)
	}
	return schema, nil
}

// defaultValue returns the default as a JSON value.
func (f field) defaultValue() (any, error) {
	switch f.typ {
	case "bool":
		return f.fallback == "true", nil
	case "int":
		return strconv.Atoi(f.fallback)
	case "float64":
		return strconv.ParseFloat(f.fallback, 64)
	}
	if f.fallback == "0" {
		return 0, nil
	}
	return f.fallback, nil
}
