package configs

import (
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const mergeable = `
log: {level: warn}
appliances: [{name: hq, url: "https://sensor.example", api_key: k, records: [{name: dns}, {name: http}]}]
sinks: [{name: lake, kafka: {brokers: ["a:1"]}}, {name: log, file: {path: "-"}}]
`

// FuzzMerge checks that a file that is merged with itself, or with an empty one, stays the
// same, and that no two files cause a panic.
func FuzzMerge(f *testing.F) {
	f.Add(valid, mergeable)
	f.Add(mergeable, "log: {level: debug}\nsinks: [{name: lake, kafka: {acks: one}}]")
	f.Add(valid, "sinks: []")
	f.Add("sinks: [{name: a}, {name: a}]", "sinks: {a: b}")
	f.Add("sinks: [{name: a, webhook: {headers: {a: b}}}]", "sinks: [{name: a, webhook: {headers: {a: ${A}}, tls: }}]")
	f.Fuzz(func(t *testing.T, first, second string) {
		one, two := file{name: "a.yaml", folder: ".", data: []byte(first)}, file{name: "b.yaml", folder: ".", data: []byte(second)}
		_, _ = merge([]file{one, two}, Source{})
		alone, err := merge([]file{one}, Source{})
		if err != nil {
			return
		}
		for _, other := range []file{one, {name: "empty.yaml", folder: "."}} {
			assert.DeepEqual(t, require.Value(merge([]file{one, other}, Source{}))(t), alone, first, "merged with", other.name)
		}
	})
}
