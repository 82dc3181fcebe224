package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ndrbridge/test/appliance/openapi"
)

func TestExamplesOfBodiesFit(t *testing.T) {
	d, err := openapi.Load("service")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal(d.JSON, &document); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, o := range d.Operations {
		for mediaType, content := range document.Paths[o.Path][strings.ToLower(o.Method)].RequestBody.Content {
			for name, example := range content.Examples {
				var value any
				if err := json.Unmarshal(example.Value, &value); err != nil {
					t.Fatal(err)
				}
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
