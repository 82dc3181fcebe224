package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

func TestRecordFilters(t *testing.T) {
	a, c := serve(t, standin.Options{Seed: 1})
	a.AddRecordsAt(1, (epoch.UnixMilli()-1000)*1000)
	var page struct {
		Records []struct {
			Source map[string]json.RawMessage `json:"_source"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(c.want(http.StatusOK, "POST", "/records/search", `{"from": "-1h"}`).body), &page))
	source := page.Records[0].Source
	var address struct{ Value string }
	require.NoError(t, json.Unmarshal(source["clientAddr"], &address))
	large := require.Value(json.Number(source["rspBytes"]).Int64())(t)

	for _, test := range []struct {
		filter string
		want   bool
	}{
		{fmt.Sprintf(`{"field": "rspBytes", "operator": "=", "operand": %d}`, large), true},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": "=", "operand": %d}`, large+1), false},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": ">", "operand": "%d"}`, large-1), true},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": ">", "operand": %d}`, large), false},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": ">=", "operand": %d}`, large), true},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": "<", "operand": {"type": "number", "value": %d}}`, large+1), true},
		{fmt.Sprintf(`{"field": "rspBytes", "operator": "<=", "operand": %d}`, large-1), false},
		{`{"field": "roundTripTime", "operator": "=", "operand": 0.25}`, true},
		{`{"field": "roundTripTime", "operator": "!=", "operand": "0.2500"}`, false},
		{`{"field": "roundTripTime", "operator": "in", "operand": [7, 0.25]}`, true},
		{`{"field": "roundTripTime", "operator": "in", "operand": ["2.5e-1"]}`, true},
		{`{"field": "roundTripTime", "operator": "in", "operand": [" 0.250"]}`, false},
		{`{"field": "roundTripTime", "operator": "not_in", "operand": [7, 0.25]}`, false},
		{`{"field": "roundTripTime", "operator": "startswith", "operand": "0.2"}`, true},
		{`{"field": "flowId", "operator": ">", "operand": 0.1}`, false},
		{`{"field": "flowId", "operator": "~", "operand": "^[0-9a-f]{16}$"}`, true},
		{`{"field": "flowId", "operator": "!~", "operand": "^[0-9a-f]{16}$"}`, false},
		{`{"field": "flowId", "operator": "exists"}`, true},
		{`{"field": "flowId", "operator": "not_exists"}`, false},
		{`{"field": "nothing", "operator": "not_exists"}`, true},
		{`{"field": "nothing", "operator": "=", "operand": 1}`, false},
		{`{"field": "ex.isSuspicious", "operator": "in", "operand": {"type": "list", "value": [true, "false"]}}`, true},
		{`{"field": "ex.isSuspicious.further", "operator": "exists"}`, false},
		{fmt.Sprintf(`{"field": "clientAddr", "operator": "=", "operand": {"type": "ipaddr4", "value": %q}}`, address.Value), true},
		{fmt.Sprintf(`{"field": ".ipaddr", "operator": "=", "operand": %q}`, address.Value), true},
		{fmt.Sprintf(`{"field": ".port", "operator": "=", "operand": %q}`, address.Value), false},
		{fmt.Sprintf(`{"field": ".port", "operator": "=", "operand": %s}`, source["serverPort"]), true},
		{fmt.Sprintf(`{"field": ".any", "operator": "=", "operand": %q}`, address.Value), true},
		{`{"field": ".any", "operator": "in", "operand": [true, false]}`, true},
		{`{"operator": "and", "rules": [{"field": "flowId", "operator": "exists"}, {"field": "nothing", "operator": "exists"}]}`, false},
		{`{"operator": "or", "rules": [{"field": "flowId", "operator": "exists"}, {"field": "nothing", "operator": "exists"}]}`, true},
		{`{"operator": "not", "rules": [{"operator": "not", "rules": [{"field": "flowId", "operator": "exists"}]}]}`, true},
	} {
		t.Run(test.filter, func(t *testing.T) {
			if got := c.records("/records/search", `{"from": "-1h", "filter": `+test.filter+`}`); (len(got.Records) == 1) != test.want || *got.Total != len(got.Records) {
				t.Errorf("it finds %d of %d", len(got.Records), *got.Total)
			}
		})
	}
}
