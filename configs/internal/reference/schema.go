package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
)

// object is a JSON object.
type object = map[string]any

const dialect = "https://json-schema.org/draft/2020-12/schema"

// schema returns the JSON Schema of a configuration file. It permits every file that loads
// without environment variables. Of the rules, it has those that are tags of the fields, and
// none between keys.
func (s *source) schema() ([]byte, error) {
	definitions := object{
		// A text that refers to an environment variable.
		"reference": object{"type": "string", "pattern": `\$\{`, "description": "A value from the environment: ${NAME}, or ${NAME:-default}."},
		// YAML reads 5 as a number, and keys of type text accept it.
		"text": object{"type": orNull("string", "number", "boolean")},
	}
	maps.Copy(definitions, durationDefinitions())
	for name, b := range s.blocks {
		if b != s.root {
			definitions[name] = b.schema()
		}
	}
	root := s.root.schema()
	root["$schema"] = dialect
	root["title"] = "Configuration of ndrbridge"
	root["description"] = s.root.doc + " The schema describes one complete file: it reports a required key as missing even if another file or the environment sets it."
	root["$defs"] = definitions
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (b *block) schema() object {
	properties := make(object)
	var required []string
	for _, f := range b.fields {
		properties[f.key] = permitReferences(f.schema())
		switch {
		case f.typ == "Secret":
			properties[f.key+"_file"] = object{
				"$ref": "#/$defs/text", "description": "The path of a file with the value of " + f.key + ". The file is read again if the secret is rejected. " + f.doc,
			}
		case f.required && f.fallback == "":
			required = append(required, f.key)
		}
	}
	schema := object{"type": orNull("object"), "properties": properties, "additionalProperties": false}
	if b.name == "Config" {
		schema["type"] = "object"
	}
	if b.doc != "" {
		schema["description"] = b.doc
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// orNull adds null to types, for a key without a value, which keeps its default.
func orNull(types ...string) []string { return append(types, "null") }

func (f field) schema() object {
	schema := f.shape()
	description := f.doc
	if limits := f.limits(); limits != "" && f.typ != "int" && f.typ != "float64" {
		description += " " + strings.ToUpper(limits[:1]) + limits[1:] + "."
	}
	if description = strings.TrimSpace(description); description != "" {
		schema["description"] = description
	}
	if f.fallback != "" {
		schema["default"] = f.defaultValue()
	}
	return schema
}
