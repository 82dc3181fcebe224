package configs

import _ "embed"

//go:embed example.yaml
var example string

// Example is a file with every key and what it does. A key behind # is one of
// several to choose from, or off.
func Example() []byte { return []byte(example) }
