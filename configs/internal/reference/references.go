package main

import (
	"slices"
	"strings"
)

// permitReferences returns a schema that matches what schema matches, and a reference where
// it expects a scalar that text does not match.
func permitReferences(schema object) object {
	if items, is := schema["items"].(object); is {
		schema["items"] = permitReferences(items)
		return schema
	}
	if !isRestricted(schema) {
		return schema
	}
	strict, permitting := make(object), make(object)
	for keyword, value := range schema {
		if slices.Contains([]string{"description", "default", "writeOnly"}, keyword) {
			permitting[keyword] = value
		} else {
			strict[keyword] = value
		}
	}
	permitting["anyOf"] = []object{strict, definition("reference")}
	return permitting
}

// isRestricted reports whether the schema is that of a scalar and does not match every text.
func isRestricted(schema object) bool {
	if schema["enum"] != nil || schema["pattern"] != nil {
		return true
	}
	if target, is := schema["$ref"].(string); is {
		return strings.HasPrefix(target, "#/$defs/duration")
	}
	types, _ := schema["type"].([]string)
	return types != nil && !slices.ContainsFunc(types, func(name string) bool {
		return name == "string" || name == "object" || name == "array"
	})
}
