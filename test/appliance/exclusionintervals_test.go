package appliance_test

import (
	"fmt"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestExclusionIntervals(t *testing.T) {
	_, c := serve(t, standin.Options{User: "ada"})
	for name, test := range map[string]struct {
		kind       string
		start, end int64
		status     int
	}{
		"a maintenance window":                    {"onetime", 1770000000, 1770003600, 201},
		"one that ends before it starts":          {"onetime", 1770003600, 1770000000, 400},
		"the hours of each day":                   {"daily", 0, 86400, 201},
		"each night, past midnight":               {"daily", 79200, 18000, 201},
		"a day that is too long":                  {"daily", 0, 86401, 400},
		"a day that starts before it begins":      {"daily", -1, 10, 400},
		"no time at all":                          {"daily", 10, 10, 400},
		"each weekend":                            {"weekly", 432000, 604800, 201},
		"each weekend, past Monday":               {"weekly", 432000, 3600, 201},
		"a week that is too long":                 {"weekly", 0, 604801, 400},
		"a kind of repetition that is not listed": {"monthly", 0, 10, 400},
	} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(`{"name":%q,"interval_type":%q,"start":%d,"end":%d,"alert_apply_all":true,"trend_apply_all":false}`, name, test.kind, test.start, test.end)
			created := c.want(test.status, "POST", "/exclusionintervals", body)
			if test.status == 201 {
				object := c.object(created.header.Get("Location")[len("/api/v1"):])
				wantFields(t, object, decoded(t, body))
				wantFields(t, object, decoded(t, `{"author":"ada","description":null}`))
			}
		})
	}
	at := c.create("/exclusionintervals", `{"name":"Week","interval_type":"weekly","start":0,"end":604800,"alert_apply_all":true,"trend_apply_all":true}`)
	c.want(400, "PATCH", at, `{"interval_type":"daily"}`)
	c.want(400, "PATCH", at, `{"end":0}`)
	c.want(204, "PATCH", at, `{"interval_type":"daily","end":3600}`)
}
