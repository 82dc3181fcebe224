package main

import (
	"slices"
	"strings"
)

// referenceDefinitions returns the schemas of a text that refers to an environment variable,
// and of a value that contains such a text.
func referenceDefinitions() object {
	reference := object{"type": "string", "pattern": `\$\{`, "description": "A value from the environment: ${NAME}, or ${NAME:-default}."}
	return object{
		"reference": reference,
		"referring": some(
			definition("reference"),
			object{"type": "array", "contains": definition("referring")},
			object{"type": "object", "not": object{"additionalProperties": not(definition("referring"))}},
		),
	}
}

// permitReferences returns a schema that matches what schema matches, and a reference where
// it expects a scalar that text does not match. If schema lists values, it also matches their
// other spellings.
func permitReferences(schema object, oneof []string) object {
	if items, is := schema["items"].(object); is {
		schema["items"] = permitReferences(items, oneof)
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
	schemas := []object{strict}
	if oneof != nil {
		schemas = append(schemas, object{"type": "string", "pattern": spellings(oneof)})
	}
	permitting["anyOf"] = append(schemas, definition("reference"))
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
