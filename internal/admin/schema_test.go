package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin/openapi"
	"ndrbridge/test/require"
)

// TestSchemasHaveTheFieldsOfTheirTypes compares the schemas of answers with the types that are
// encoded: a field that is only in one of them fails.
func TestSchemasHaveTheFieldsOfTheirTypes(t *testing.T) {
	var document struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	require.NoError(t, json.Unmarshal(openapi.JSON(), &document))
	c := comparison{t, document.Components.Schemas}
	for name, of := range map[string]any{
		"Status": Status{}, "History": History{}, "Cluster": Cluster{}, "DeadLetter": DeadLetter{},
		"Detection": Detection{}, "DeadGroup": DeadGroup{},
		"StoredCommand": TicketCommand{}, "VerifyLine": verifyLine{}, "Problem": problem{},
	} {
		c.compare(name, document.Components.Schemas[name], reflect.TypeOf(of))
	}
}

type comparison struct {
	t       *testing.T
	schemas map[string]map[string]any
}

// compare compares the properties of a schema with the fields of a struct, and what they have.
func (c comparison) compare(where string, schema map[string]any, of reflect.Type) {
	c.t.Helper()
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
		if items, ok := schema["items"].(map[string]any); ok {
			schema = items
		}
	}
	if reference, ok := schema["$ref"].(string); ok {
		schema = c.schemas[reference[strings.LastIndexByte(reference, '/')+1:]]
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	var names []string
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		property, ok := properties[name].(map[string]any)
		if !ok {
			c.t.Errorf("%s: the field %s is not described", where, name)
			continue
		}
		if always := !strings.HasPrefix(options, "omit"); always != slices.Contains(required, any(name)) {
			c.t.Errorf("%s: the field %s is always there: %v; but required is %v", where, name, always, fmt.Sprint(required...))
		}
		c.compare(where+"."+name, property, field.Type)
	}
	for name := range properties {
		if !slices.Contains(names, name) {
			c.t.Errorf("%s: the field %s is described, but does not exist", where, name)
		}
	}
}
