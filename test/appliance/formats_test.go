package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
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
		if f.Author == "" || len(f.Categories) == 0 || f.IsUserCreated != strings.HasPrefix(f.Type, "custom.") {
			t.Errorf("%+v", f)
		}
		known[f.Type] = f
	}
	for range 200 {
		d := a.Generate()
		f := known[d.Type]
		if f.DisplayName != d.Title || len(f.MitreCategories) != len(d.MitreTechniques) {
			t.Errorf("the format of %s is %+v", d.Type, f)
		}
		for name := range d.Properties {
			if _, ok := f.Properties[name]; !ok {
				t.Errorf("the format of %s lacks the property %s", d.Type, name)
			}
		}
	}
}

func TestCustomFormats(t *testing.T) {
	const path = "/detections/formats"
	_, c := serve(t, standin.Options{})
	last := func() string {
		rows := c.formats()
		b, err := json.Marshal(rows[len(rows)-1])
		require.NoError(t, err)
		return string(b)
	}
	created := c.want(201, "POST", path, `{"type":"port_scan","display_name":"Our scan","categories":["sec.recon"],"mitre_categories":["T1046","T1021.004"]}`)
	if at := created.header.Get("Location"); at != "/api/v1/detections/formats/port_scan" {
		t.Errorf("the location is %q", at)
	}
	want := `{"Type":"port_scan","Author":"api","display_name":"Our scan","Categories":["sec","sec.recon"],"mitre_categories":["T1046","T1021.004"],"is_user_created":true,"Properties":{}}`
	if got := last(); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	c.want(204, "PATCH", path+"/port_scan", `{"display_name":"Other scan","categories":["perf"],"author":"ada"}`)
	want = `{"Type":"port_scan","Author":"ada","display_name":"Other scan","Categories":["perf"],"mitre_categories":["T1046","T1021.004"],"is_user_created":true,"Properties":{}}`
	if got := last(); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	c.want(204, "PATCH", path+"/port_scan", `{"mitre_categories":[]}`)
	if got := last(); !strings.Contains(got, `"Categories":["perf"],"mitre_categories":[]`) {
		t.Errorf("it is %s", got)
	}
	t.Run("a deleted one leaves the built-in one", func(t *testing.T) {
		c.want(204, "DELETE", path+"/port_scan", "")
		c.want(422, "DELETE", path+"/port_scan", "")
		c.want(204, "DELETE", path+"/custom.jump_host_bypass", "")
	})
}
