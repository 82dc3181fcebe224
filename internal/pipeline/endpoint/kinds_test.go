package endpoint

import (
	"reflect"
	"slices"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
)

// Every block that makes a sink of a kind has its kind here.
func TestEveryKindOfSinkCanBeOpened(t *testing.T) {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	of := reflect.TypeFor[configs.Sink]()
	for i := range of.NumField() {
		f := of.Field(i)
		name := f.Tag.Get("yaml")
		assert.True(t, f.Type.Kind() != reflect.Pointer || slices.Contains(names, name), "kinds lacks", name)
	}
}
