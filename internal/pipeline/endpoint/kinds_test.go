package endpoint

import (
	"reflect"
	"slices"
	"testing"

	"ndrbridge/configs"
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
		if name := f.Tag.Get("yaml"); f.Type.Kind() == reflect.Pointer && !slices.Contains(names, name) {
			t.Errorf("kinds lacks %s", name)
		}
	}
}
