package main

import (
	"slices"
	"strings"
)

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
		schemas = append(schemas, object{"type": "string", "pattern": "^" + anySpelling(oneof) + "$"})
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

// anySpelling returns a pattern that matches each of the words in the spellings in which the
// configuration accepts them: in upper or lower case, and with - and _ for each other.
func anySpelling(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range word {
			switch lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r)); {
			case lower != upper:
				b.WriteString("[" + upper + lower + "]")
			case r == '-' || r == '_':
				b.WriteString("[_-]")
			default:
				b.WriteRune(r)
			}
		}
	}
	return "(" + b.String() + ")"
}
