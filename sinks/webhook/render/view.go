package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"ndrbridge/transform"
)

// newView returns the data of a template for an event.
func newView(e transform.Event) (map[string]any, error) {
	event := map[string]any{"stream": e.Stream(), "action": e.Action()}
	for name, value := range e.Headers() {
		event[name] = value
	}
	if e.SeverityNumber != 0 {
		event["severitynumber"] = e.SeverityNumber
	}
	decoder := json.NewDecoder(bytes.NewReader(e.Data()))
	decoder.UseNumber()
	var data any
	if err := decoder.Decode(&data); err != nil {
		return nil, fmt.Errorf("decode the event's data: %w", err)
	}
	dropNulls(data)
	view := make(map[string]any)
	if members, ok := data.(map[string]any); ok {
		maps.Copy(view, members)
	}
	view["event"], view["data"] = event, data
	return view, nil
}

// dropNulls removes null members from objects. text/template allows access below a
// missing key, but not below nil.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, element := range v {
			dropNulls(element)
		}
	}
}
