package configs

import _ "embed"

//go:embed example.yaml
var example string

//go:embed schema.json
var schema string

// Example returns a configuration file with every key and its description. A key after a
// # is an alternative, or disabled.
func Example() []byte { return []byte(example) }

// Schema returns the JSON Schema (draft 2020-12) of a configuration file. Every file that
// loads without environment variables is valid. The schema is less strict than [Load]: it
// cannot compare values with each other, or check the contents of files.
func Schema() []byte { return []byte(schema) }
