package configs

import (
	"reflect"
	"strings"
	"testing"

	"ndrbridge/test/assert"
)

func TestEveryKeyHasAVariableOfItsOwn(t *testing.T) {
	seen := make(map[string]string)
	for _, path := range keyPaths() {
		assert.False(t, strings.HasSuffix(path, "."), "a key in", path, "has no name")
		variable := variableOf(path)
		assert.Equal(t, seen[variable], "", variable, "sets another key, too:", path)
		seen[variable] = path
	}
}

// keyPaths returns the paths of all keys that can be set, with 0 as the index of each list.
func keyPaths() (paths []string) {
	all := reflect.New(reflect.TypeFor[Config]()).Elem()
	fill(all)
	eachField("", all, func(path string, f field, _ reflect.Value) {
		if f.shape < shapeBlock {
			paths = append(paths, path)
		}
		if f.shape == shapeSecret {
			paths = append(paths, path+fileSuffix)
		}
	})
	return paths
}

func TestSinkKind(t *testing.T) {
	for want, s := range map[string]Sink{
		"kafka": {Kafka: &Kafka{}}, "nats": {NATS: &NATS{}}, "webhook": {Webhook: &Webhook{}}, "syslog": {Syslog: &Syslog{}}, "file": {File: &File{}}, "": {},
	} {
		assert.Equal(t, s.Kind(), want)
	}
}
