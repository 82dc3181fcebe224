package format

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTheIndexTemplateMapsEveryField compares the fields of the documents with the
// template for Elasticsearch.
func TestTheIndexTemplateMapsEveryField(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "elastic", "elasticsearch", "component.json"))
	if err != nil {
		t.Fatal(err)
	}
	type mapping struct {
		Type       string             `json:"type"`
		Properties map[string]mapping `json:"properties"`
	}
	var component struct {
		Template struct {
			Mappings mapping `json:"mappings"`
		} `json:"template"`
	}
	if err := json.Unmarshal(b, &component); err != nil {
		t.Fatal(err)
	}
	mapped := make(map[string]string)
	var walk func(path string, m mapping)
	walk = func(path string, m mapping) {
		if m.Type != "" {
			mapped[path] = m.Type
		}
		for name, inner := range m.Properties {
			if path != "" {
				name = path + "." + name
			}
			walk(name, inner)
		}
	}
	walk("", component.Template.Mappings)
	schema := readECS(t, usedECS)
	used := schema.used(t)
	for _, name := range slices.Sorted(maps.Keys(used)) {
		want, _ := schema.field(name)
		if want.Type == "object" {
			continue
		}
		if name == "ndrbridge.detection.description" {
			want.Type = "match_only_text"
		}
		if got := mapped[name]; got != want.Type {
			t.Errorf("%s is mapped as %q, want %q", name, got, want.Type)
		}
	}
}
