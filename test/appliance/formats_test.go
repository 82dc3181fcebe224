package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

type formatRow struct {
	Type, Author    string
	DisplayName     string `json:"display_name"`
	Categories      []string
	MitreCategories []string `json:"mitre_categories"`
	IsUserCreated   bool     `json:"is_user_created"`
	Properties      map[string]struct {
		IsOptional bool `json:"is_optional"`
		IsTunable  bool `json:"is_tunable"`
	}
}

func (c *caller) formats() []formatRow {
	c.t.Helper()
	var rows []formatRow
	require.NoError(c.t, json.Unmarshal([]byte(c.want(http.StatusOK, "GET", "/detections/formats", "").body), &rows))
	return rows
}

func TestFormatsOfGeneratedDetections(t *testing.T) {
	a, c := serve(t, standin.Options{})
	known := make(map[string]formatRow)
	for _, f := range c.formats() {
		assert.True(t, f.Author != "" && len(f.Categories) != 0 && f.IsUserCreated == strings.HasPrefix(f.Type, "custom."), f)
		known[f.Type] = f
	}
	for range 200 {
		d := a.Generate()
		f := known[d.Type]
		assert.True(t, f.DisplayName == d.Title && len(f.MitreCategories) == len(d.MitreTechniques), "the format of", d.Type, f)
		for name := range d.Properties {
			_, ok := f.Properties[name]
			assert.True(t, ok, "the format of", d.Type, "lacks the property", name)
		}
	}
}
