package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
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
				assert.NoError(t, o.CheckBody(mediaType, value), o.Name, "the example", name, "does not fit")
				checked++
			}
		}
	}
	assert.True(t, checked != 0, "there is no example")
}
