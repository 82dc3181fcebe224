package configs

import _ "embed"

//go:embed example.yaml
var example string

//go:embed schema.json
var schema string

// Example is a file with every key and what it does. A key behind # is one of
// several to choose from, or off.
func Example() []byte { return []byte(example) }

// Schema is the JSON Schema (draft 2020-12) of a configuration file. What loads by
// itself is valid by it. It says less than [Load]: how values that are related must
// differ, and what lies in files, it cannot say.
func Schema() []byte { return []byte(schema) }
