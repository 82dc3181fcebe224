package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func load(t *testing.T, word string) *openapi.Description {
	t.Helper()
	d := require.Value(openapi.Load(word))(t)
	return d
}

func TestTheProductsWordIsInPathsAndFields(t *testing.T) {
	d := load(t, "acme")
	o, _, _ := d.Find("GET", "/acme/version")
	assert.True(t, o != nil && o.Name == "GET /service/version" && o.Path == "/acme/version", "found", o)
	if o, _, _ := d.Find("GET", "/service/version"); o != nil {
		t.Errorf("found %s", o.Name)
	}
	for _, text := range []string{"service_id", `"/service`} {
		assert.NotContains(t, string(d.JSON), text, "the document contains")
	}
}

func TestRouting(t *testing.T) {
	d := load(t, "service")
	tests := []struct {
		name, method, path string
		operation          string // empty: none
		parameters         string
		allowed            string
	}{
		{"a path without parameters", "GET", "/emailgroups", "GET /emailgroups", "null", ""},
		{"a path with an id", "PATCH", "/emailgroups/7", "PATCH /emailgroups/{id}", `{"id":"7"}`, ""},
		{"a fixed segment comes before a parameter", "GET", "/detections/formats", "GET /detections/formats", "null", ""},
		{"an id is a number", "GET", "/emailgroups/x", "", "null", ""},
		{"an id fits 64 bits", "GET", "/emailgroups/9223372036854775808", "", "null", ""},
		{"an id has no sign", "GET", "/emailgroups/+7", "", "null", ""},
		{"a slash at the end is another path", "GET", "/emailgroups/", "", "null", ""},
		{"a method that the path does not have", "PUT", "/emailgroups/7", "", "null", "DELETE GET PATCH"},
		{"a path that does not exist", "GET", "/nothing", "", "null", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, parameters, allowed := d.Find(test.method, test.path)
			var name string
			if o != nil {
				name = o.Name
			}
			encoded := require.Value(json.Marshal(parameters))(t)
			assert.True(t, name == test.operation && string(encoded) == test.parameters && strings.Join(allowed, " ") == test.allowed, name, string(encoded), allowed)
		})
	}
}

func find(t *testing.T, name string) *openapi.Operation {
	t.Helper()
	d := load(t, "service")
	i := slices.IndexFunc(d.Operations, func(o *openapi.Operation) bool { return o.Name == name })
	require.True(t, i >= 0, "there is no", name)
	return d.Operations[i]
}

func TestBodies(t *testing.T) {
	tests := []struct {
		name, operation, body string
		want                  string // in the error; empty: it fits
	}{
		{"one that fits", "POST /emailgroups", `{"group_name":"a","email_addresses":[],"system_notifications":false}`, ""},
		{"without a required field", "POST /emailgroups", `{"group_name":"a","email_addresses":[]}`, "system_notifications"},
		{"an element of a list", "POST /emailgroups", `{"group_name":"a","email_addresses":["a@b","c"],"system_notifications":false}`, "email_addresses.1: "},
		{"a field that only the appliance sets", "POST /emailgroups", `{"id":1,"group_name":"a","email_addresses":[],"system_notifications":false}`, "id"},
		{"a number with a huge exponent", "POST /devices/{id}/tags", `{"assign":[1e999999]}`, "exponent"},
		{"a number with many digits", "POST /devices/{id}/tags", `{"assign":[` + strings.Repeat("1", 101) + `]}`, "digits"},
		{"a change needs no field", "PATCH /emailgroups/{id}", `{}`, ""},
		{"a change of an unknown field", "PATCH /emailgroups/{id}", `{"x":1}`, "'x'"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.body))
			require.NoError(t, err)
			err = find(t, test.operation).CheckBody("application/json", value)
			assert.True(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), "the error", err, test.want)
		})
	}
}

func TestQueries(t *testing.T) {
	tests := []struct {
		name, query string
		want        string
	}{
		{"none", "", ""},
		{"a number", "limit=7&offset=0", ""},
		{"a text for a number", "limit=many", "limit: "},
		{"a number below the minimum", "offset=-1", "offset: "},
		{"an empty value", "limit=", "limit: "},
		{"a parameter given twice", "limit=1&limit=2", "limit: given more than once"},
		{"an unknown parameter", "page=1", "unknown parameter page"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			query, err := url.ParseQuery(test.query)
			require.NoError(t, err)
			err = find(t, "GET /auditlog").CheckQuery(query)
			assert.True(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), "the error", err, test.want)
		})
	}
}

func TestAnswers(t *testing.T) {
	const group = `{"id":1,"group_name":"a","email_addresses":[],"system_notifications":false}`
	tests := []struct {
		name, operation, location, mediaType, body string
		status                                     int
		want                                       string
	}{
		{"an object", "GET /emailgroups/{id}", "", "application/json", group, 200, ""},
		{"an object without a field", "GET /emailgroups/{id}", "", "application/json", `{"id":1}`, 200, "missing"},
		{"a creation", "POST /emailgroups", "/api/v1/emailgroups/1", "", "", 201, ""},
		{"a creation without the location", "POST /emailgroups", "", "", "", 201, "Location"},
		{"a body where there is none", "DELETE /emailgroups/{id}", "", "text/plain", "done", 204, "4 bytes"},
		{"another type of body", "GET /emailgroups/{id}", "", "text/html", "<p>", 200, "text/html"},
		{"another status", "GET /emailgroups/{id}", "", "", "", 302, "302"},
		{"a refusal", "GET /emailgroups/{id}", "", "application/problem+json", `{"detail":"none"}`, 404, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Content-Type": {test.mediaType}}
			if test.location != "" {
				header.Set("Location", test.location)
			}
			err := find(t, test.operation).CheckResponse(test.status, header, []byte(test.body))
			assert.True(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), "the error", err, test.want)
		})
	}
}

// TestEverythingIsDescribed finds what Load accepts and a reader of the description misses.
func TestEverythingIsDescribed(t *testing.T) {
	var document map[string]any
	require.NoError(t, json.Unmarshal(load(t, "service").JSON, &document))
	paths := document["paths"].(map[string]any)
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			operation := operation.(map[string]any)
			assert.True(t, operation["summary"] != nil, method, path, "has no summary")
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				p := p.(map[string]any)
				text, _ := p["description"].(string)
				assert.True(t, p["$ref"] != nil || len(text) >= 5, method, path, "the parameter", p, "is not described")
			}
		}
	}
	for name, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		checkDescribed(t, name, schema)
	}
}

// checkDescribed checks the fields of a schema. Rules among them need no description.
func checkDescribed(t *testing.T, where string, schema any) {
	t.Helper()
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	for name, property := range properties {
		fields, _ := property.(map[string]any)
		assert.True(t, fields["description"] != nil || fields["$ref"] != nil, where, "the field", name, "is not described")
		checkDescribed(t, where+"."+name, property)
	}
	assert.True(t, properties == nil || object["additionalProperties"] != nil, where, "it does not say whether it has other fields")
	if items, ok := object["items"]; ok {
		checkDescribed(t, where+"[]", items)
	}
}
