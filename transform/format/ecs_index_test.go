package format

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// indexed returns the types of the fields that the index template for Elasticsearch maps.
func indexed(t testing.TB) map[string]string {
	t.Helper()
	type object struct {
		Type       string
		Properties map[string]json.RawMessage
	}
	var component struct {
		Template struct{ Mappings object }
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "elastic", "elasticsearch", "component.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &component); err != nil {
		t.Fatal(err)
	}
	types := make(map[string]string)
	var add func(prefix string, o object)
	add = func(prefix string, o object) {
		for name, text := range o.Properties {
			var inner object
			if err := json.Unmarshal(text, &inner); err != nil {
				t.Fatal(err)
			}
			if inner.Type != "" {
				types[prefix+name] = inner.Type
			}
			add(prefix+name+".", inner)
		}
	}
	add("", component.Template.Mappings)
	return types
}

// TestIndexTemplateMapsEveryFieldOfECS also finds fields that documents no longer have.
func TestIndexTemplateMapsEveryFieldOfECS(t *testing.T) {
	got := indexed(t)
	want := map[string]string{"event.ingested": "date", "ndrbridge.unmapped": "flattened"}
	schema := readECS(t, usedECS)
	for path, f := range schema.Fields {
		if f.Type != "object" {
			want[path] = f.Type
		}
	}
	for _, table := range newReader(Options{}, "ecs").tables {
		for _, row := range table.rows {
			switch f, found := schema.field(row.field); {
			case found && f.Type != "object":
				want[row.field] = f.Type
			case !found && !isObject(want, row.field): // none of the tests' events has it
				if want[row.field] = got[row.field]; got[row.field] == "" {
					want[row.field] = "a type of ECS"
				}
			}
		}
	}
	want["ndrbridge.detection.description"] = "match_only_text"
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			t.Errorf("%s is mapped as %q, want %q", path, got[path], want[path])
		}
		delete(got, path)
	}
	for path := range got {
		t.Errorf("%s is mapped, but no document has it", path)
	}
}

// isObject reports whether some fields are parts of path.
func isObject(fields map[string]string, path string) bool {
	for field := range fields {
		if strings.HasPrefix(field, path+".") {
			return true
		}
	}
	return false
}
