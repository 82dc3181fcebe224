package admin

import (
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
	served := []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET " + descriptionPath}
	for path, operations := range (Options{}).routes() {
		for method := range operations {
			served = append(served, method+" "+version+strings.ReplaceAll(path, "...}", "}"))
		}
	}
	for _, o := range d.Operations {
		name := o.Method + " " + o.Path
		if i := slices.Index(served, name); i >= 0 {
			served = slices.Delete(served, i, i+1)
		} else {
			t.Errorf("%s is described, and not served", name)
		}
	}
	for _, name := range served {
		t.Errorf("%s is served, and not described", name)
	}
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
