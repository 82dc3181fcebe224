package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/require"
)

func TestExamplesOfBodiesFit(t *testing.T) {
	d := require.Value(openapi.Load("service"))(t)
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(d.JSON, &document))
	checked := 0
	for _, o := range d.Operations {
		for mediaType, content := range document.Paths[o.Path][strings.ToLower(o.Method)].RequestBody.Content {
			for name, example := range content.Examples {
				var value any
				require.NoError(t, json.Unmarshal(example.Value, &value))
				if err := o.CheckBody(mediaType, value); err != nil {
					t.Errorf("%s: the example %s does not fit: %v", o.Name, name, err)
				}
				checked++
			}
		}
	}
	if checked == 0 {
		t.Error("there is no example")
	}
}
