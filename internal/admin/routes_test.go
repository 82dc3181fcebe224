package admin

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ndrbridge/internal/admin/openapi"
	described "ndrbridge/test/appliance/openapi"
	"ndrbridge/test/require"
)

// TestEveryRouteIsDescribed compares the routes of the API with its description, both ways.
func TestEveryRouteIsDescribed(t *testing.T) {
	d, err := described.Parse(openapi.JSON())
	require.NoError(t, err)
	// The interface has these beside the routes.
	names := []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET " + descriptionPath}
	requests, want := make(map[string]request), describedRequests(t)
	for path, operations := range (Options{}).routes() {
		for method, o := range operations {
			name := method + " " + version + strings.ReplaceAll(path, "...}", "}")
			names = append(names, name)
			requests[name] = request{o.queryOf(path), o.takes.any, o.takes.body}
		}
	}
	for _, o := range d.Operations {
		name := o.Method + " " + o.Path
		i := slices.Index(names, name)
		if i < 0 {
			t.Errorf("%s is described, and not served", name)
			continue
		}
		names = slices.Delete(names, i, i+1)
		if got := requests[name]; fmt.Sprint(got) != fmt.Sprint(want[name]) {
			t.Errorf("%s takes %+v, and is described with %+v", name, got, want[name])
		}
	}
	for _, name := range names {
		t.Errorf("%s is served, and not described", name)
	}
}

// describedRequests returns the request of each operation, by its method and path.
func describedRequests(t *testing.T) map[string]request {
	type parameter struct {
		Ref      string `json:"$ref"`
		Name, In string
		Schema   struct{ Type any }
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters  []parameter
			RequestBody any
		}
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(openapi.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	requests := make(map[string]request)
	for path, item := range document.Paths {
		for method, operation := range item {
			of := request{body: operation.RequestBody != nil}
			for _, p := range operation.Parameters {
				if p.Ref != "" {
					p = document.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
				}
				switch {
				case p.In == "query" && p.Schema.Type == "object": // each field of it is a parameter
					of.any = true
				case p.In == "query":
					of.query = append(of.query, p.Name)
				}
			}
			slices.Sort(of.query)
			requests[strings.ToUpper(method)+" "+path] = of
		}
	}
	return requests
}

// TestEveryOperationIsOnThePageOfTheAPI compares docs/api.md with the description.
func TestEveryOperationIsOnThePageOfTheAPI(t *testing.T) {
	d, err := described.Parse(openapi.JSON())
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, line)
		}
	}
	for _, o := range d.Operations {
		row := "| `" + o.Method + " " + o.Path + "` | " + o.Summary + " |\n"
		if i := slices.Index(rows, row); i >= 0 {
			rows = slices.Delete(rows, i, i+1)
		} else {
			t.Errorf("docs/api.md lacks the row %s", row)
		}
	}
	for _, row := range rows {
		t.Errorf("docs/api.md has the row %s", row)
	}
}
