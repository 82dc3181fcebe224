package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ndrbridge/internal/admin/openapi"
)

// TestEverythingIsDescribed finds what a reader of the description would miss, and requests that
// are not strict.
func TestEverythingIsDescribed(t *testing.T) {
	var document struct {
		Paths      map[string]map[string]map[string]any
		Components map[string]map[string]any
	}
	if err := json.Unmarshal(openapi.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths {
		for method, operation := range item {
			name := strings.ToUpper(method) + " " + path
			for _, field := range []string{"summary", "operationId", "tags", "responses"} {
				if operation[field] == nil {
					t.Errorf("%s has no %s", name, field)
				}
			}
			checkFields(t, name, operation)
			if body, ok := operation["requestBody"].(map[string]any); ok {
				checkStrict(t, name, body)
			}
		}
	}
	for kind, components := range document.Components {
		for name, component := range components {
			checkFields(t, name, component)
			if kind == "requestBodies" {
				checkStrict(t, name, component)
			}
		}
	}
	checkStrict(t, "Selection", document.Components["schemas"]["Selection"])
	checkStrict(t, "Command", document.Components["schemas"]["Command"])
}

// checkFields reports fields of objects without a description.
func checkFields(t *testing.T, where string, value any) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		properties, _ := value["properties"].(map[string]any)
		for name, property := range properties {
			if property := property.(map[string]any); property["description"] == nil && property["$ref"] == nil {
				t.Errorf("%s: the field %s is not described", where, name)
			}
		}
		for _, inner := range value {
			checkFields(t, where, inner)
		}
	case []any:
		for _, inner := range value {
			checkFields(t, where, inner)
		}
	}
}

// checkStrict reports objects that may have any field.
func checkStrict(t *testing.T, where string, value any) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		if value["properties"] != nil && value["additionalProperties"] != false {
			t.Errorf("%s: a request may have unknown fields", where)
		}
		for _, inner := range value {
			checkStrict(t, where, inner)
		}
	case []any:
		for _, inner := range value {
			checkStrict(t, where, inner)
		}
	}
}
