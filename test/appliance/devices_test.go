package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestDevices(t *testing.T) {
	a, c := serve(t, standin.Options{Product: "Acme"})
	c.authorization = strings.Replace(c.authorization, "Service", "Acme", 1)
	for name, test := range map[string]struct {
		body string
		want []int64
	}{
		"devices are found by their ids, each once": {`{"filter": {"field": "id", "operator": "in", "operand": [3, 1, 3, 25769804127]}}`, []int64{1, 3, 25769804127}},
		"an invalid id is unknown":                  {`{"filter": {"field": "id", "operator": "in", "operand": [0, -4]}}`, []int64{}},
		"a limit is kept":                           {`{"filter": {"field": "id", "operator": "in", "operand": [1, 3, 5]}, "limit": 2}`, []int64{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			wantIDs(t, idsOf(t, c.want(http.StatusOK, "POST", "/devices/search", test.body).body), test.want...)
		})
	}
	for name, body := range map[string]string{
		"another field":      `{"filter": {"field": "name", "operator": "in", "operand": [1]}}`,
		"another operator":   `{"filter": {"field": "id", "operator": "=", "operand": [1]}}`,
		"an id that is none": `{"filter": {"field": "id", "operator": "in", "operand": ["x"]}}`,
		"no filter":          `{"limit": 3}`,
		"a negative limit":   `{"filter": {"field": "id", "operator": "in", "operand": [1]}, "limit": -1}`,
		"an unknown field":   `{"filter": {"field": "id", "operator": "in", "operand": [1]}, "colour": 1}`,
	} {
		t.Run(name+" is refused", func(t *testing.T) { c.want(http.StatusBadRequest, "POST", "/devices/search", body) })
	}
	t.Run("an id makes the same device each time, with the product's own id", func(t *testing.T) {
		const body = `{"filter": {"field": "id", "operator": "in", "operand": [7]}}`
		first := c.want(http.StatusOK, "POST", "/devices/search", body).body
		if again := c.want(http.StatusOK, "POST", "/devices/search", body).body; again != first {
			t.Errorf("%s, then %s", first, again)
		}
		var devices []map[string]any
		if err := json.Unmarshal([]byte(first), &devices); err != nil || devices[0]["acme_id"] != devices[0]["discovery_id"] || devices[0]["display_name"] == "" {
			t.Errorf("%s, %v", first, err)
		}
	})
	t.Run("every participant that is a device has one", func(t *testing.T) {
		d := a.Generate()
		var ids []int64
		for _, p := range d.Participants {
			ids = append(ids, p.ObjectID)
		}
		body := `{"filter": {"field": "id", "operator": "in", "operand": ` + mustJSON(t, ids) + `}}`
		if found := idsOf(t, c.want(http.StatusOK, "POST", "/devices/search", body).body); len(found) == 0 {
			t.Errorf("none of %v is known", ids)
		}
	})
}

func TestFormats(t *testing.T) {
	a, c := serve(t, standin.Options{})
	var formats []struct {
		Type, Author  string
		DisplayName   string `json:"display_name"`
		Categories    []string
		IsUserCreated bool `json:"is_user_created"`
		Released      *int64
	}
	if err := json.Unmarshal([]byte(c.want(http.StatusOK, "GET", "/detections/formats", "").body), &formats); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]string)
	for _, f := range formats {
		if f.Author == "" || len(f.Categories) == 0 || f.IsUserCreated != strings.HasPrefix(f.Type, "custom.") || f.IsUserCreated != (f.Released == nil) {
			t.Errorf("%+v", f)
		}
		known[f.Type] = f.DisplayName
	}
	for range 200 {
		if d := a.Generate(); known[d.Type] != d.Title {
			t.Errorf("the format of %s is called %q", d.Type, known[d.Type])
		}
	}
}
