package elastic

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// savedObject is a line of an export of Kibana.
type savedObject struct {
	Type             string            `json:"type"`
	ID               string            `json:"id"`
	Attributes       map[string]any    `json:"attributes"`
	References       []reference       `json:"references"`
	MigrationVersion map[string]string `json:"migrationVersion"`
}

type reference struct {
	Name string `json:"name"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

// newest are the newest versions that OpenSearch Dashboards imports.
var newest = map[string]string{"index-pattern": "7.6.0", "visualization": "7.8.0", "search": "7.4.0", "dashboard": "7.3.0"}

func TestDashboardIsComplete(t *testing.T) {
	text := require.Value(os.ReadFile("dashboard.ndjson"))(t)
	fields := mapping(t, "elasticsearch/component.json")
	var objects []savedObject
	ids := map[string]bool{}
	for line := range bytes.Lines(text) {
		var o savedObject
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&o), string(line))
		objects, ids[o.Type+" "+o.ID] = append(objects, o), true
		assert.Equal(t, o.MigrationVersion[o.Type], newest[o.Type], o.ID)
		assert.Equal(t, len(o.MigrationVersion), 1, o.ID, "has the version")
	}
	var named []string // references, by the objects' texts
	for _, o := range objects {
		named = nil
		inside(t, o.Attributes, func(name string, value any) {
			switch text, _ := value.(string); {
			case name == "indexRefName", name == "panelRefName":
				named = append(named, text)
			case name == "field" && (fields[text].Type == "" || fields[text].Type == "match_only_text" || fields[text].Type == "flattened"):
				t.Errorf("%s groups by %s, which is mapped as %q", o.ID, text, fields[text].Type)
			}
		})
		for _, r := range o.References {
			assert.True(t, ids[r.Type+" "+r.ID] && slices.Contains(named, r.Name), o.ID, "the reference", r, "leads nowhere")
		}
		assert.Equal(t, len(named), len(o.References), o.ID, "names", named, "and has the references", o.References)
		columns, _ := o.Attributes["columns"].([]any)
		for _, column := range columns {
			name, _ := column.(string)
			assert.True(t, fields[name].Type != "", o.ID, "shows", column, "which is not mapped")
		}
	}
}

// inside visits the members of objects in value, including those in strings that contain
// JSON.
func inside(t *testing.T, value any, visit func(name string, value any)) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			visit(name, member)
			inside(t, member, visit)
		}
	case []any:
		for _, element := range value {
			inside(t, element, visit)
		}
	case string:
		if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[") {
			return
		}
		var decoded any
		assert.NoError(t, json.Unmarshal([]byte(value), &decoded), value)
		inside(t, decoded, visit)
	}
}
