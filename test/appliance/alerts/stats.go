package alerts

import (
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// Stat is a metric that an alert watches.
type Stat struct {
	ID        int64  `json:"id"`
	AlertID   int64  `json:"alert_id"`
	StatName  string `json:"stat_name"`
	FieldName string `json:"field_name"`
	Param     string `json:"param"`
}

// Stats returns the metrics that an alert watches: one, two if it is a ratio, and none if it
// is about detections.
func Stats(alert resource.Object) []Stat {
	stats := []Stat{}
	for i, field := range []struct{ name, param string }{{"field_name", "param"}, {"field_name2", "param2"}} {
		if name := resource.Text(alert, field.name); name != "" {
			id := resource.Number(alert, "id")
			stats = append(stats, Stat{
				ID: 2*id - 1 + int64(i), AlertID: id, StatName: resource.Text(alert, "stat_name"),
				FieldName: name, Param: param(alert[field.param]),
			})
		}
	}
	return stats
}

// param returns a parameter as text; empty: there is none.
func param(value any) string {
	object, _ := value.(map[string]any)
	if len(object) == 0 {
		return ""
	}
	b, err := rest.Encode(object)
	if err != nil {
		panic(err) // objects contain JSON values alone
	}
	return string(b)
}
