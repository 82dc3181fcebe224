package appliance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// tunedDetections differ in everything that a tuning rule can ask for.
func tunedDetections() []standin.Detection {
	return []standin.Detection{
		{ID: 1, Type: "port_scan", Categories: []string{"sec", "sec.recon"}, ModTime: now - 4, UpdateTime: now - 4, TicketID: standin.TicketID{ID: "T-1"},
			Participants: []standin.Participant{
				{ID: 11, Role: "offender", ObjectType: "device", ObjectID: 101, ObjectValue: "10.1.2.3", ScannerService: "inventory-scan"},
				{ID: 12, Role: "victim", ObjectType: "device", ObjectID: 102, ObjectValue: "172.16.5.6"},
				{ID: 13, Role: "victim", ObjectType: "ipaddr", ObjectValue: "203.0.113.9", External: true},
			}},
		{ID: 2, Type: "hacking_tools", Categories: []string{"sec"}, ModTime: now - 3, UpdateTime: now - 3,
			Properties: map[string]any{"hacking_tool": []string{"Kali Linux", "nmap"}, "server_port": 443, "client_port": 5,
				"peers": map[string]any{"type": "ipaddr", "value": []string{"198.51.100.7"}}},
			Participants: []standin.Participant{{ID: 21, Role: "offender", ObjectType: "device", ObjectID: 102, ObjectValue: "172.16.5.6"}}},
		{ID: 3, Type: "http_slow_server", Categories: []string{"perf", "perf.web"}, ModTime: now - 2, UpdateTime: now - 2,
			Participants: []standin.Participant{{ID: 31, Role: "offender", ObjectType: "ipaddr", ObjectValue: "2001:db8::7", External: true}}},
		{ID: 4, Type: "hacking_tools", Categories: []string{"sec"}, ModTime: now - 1, UpdateTime: now - 1},
	}
}

// rule returns the body that creates a tuning rule, with fields that replace its own.
func rule(fields string) string {
	body := map[string]any{"offender": "Any", "victim": "Any", "expiration": nil, "detection_type": "all_security"}
	if err := json.Unmarshal([]byte("{"+fields+"}"), &body); err != nil {
		panic(err)
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const rulesPath = "/detections/rules/hiding"

func TestTuningRulesHideWhatMatches(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(tunedDetections()...)
	const hacking = `"detection_type":"hacking_tools","properties":[{"property":`
	for _, test := range []struct {
		name, rule string
		hides      []int64
	}{
		{"a type", `"detection_type":"port_scan"`, []int64{1}},
		{"all types of security", `"detection_type":"all_security"`, []int64{1, 2, 4}},
		{"all types of performance", `"detection_type":"all_performance"`, []int64{3}},
		{"an offending device", `"offender":{"object_type":"device","object_id":102}`, []int64{2}},
		{"a device that is a victim", `"victim":{"object_type":"device","object_id":102}`, []int64{1}},
		{"both", `"offender":{"object_type":"device","object_id":101},"victim":{"object_type":"device","object_id":101}`, nil},
		{"an address", `"victim":{"object_type":"ipaddr","object_value":"203.0.113.9"}`, []int64{1}},
		{"a block", `"offender":{"object_type":"ipaddr","object_value":"172.16.5.0/24"}`, []int64{2}},
		{"one of several addresses", `"offender":{"object_type":"ipaddr","object_value":["192.0.2.1","10.0.0.0/8"]}`, []int64{1}},
		{"a block of IPv6", `"detection_type":"all_performance","offender":{"object_type":"ipaddr","object_value":"2001:db8::/32"}`, []int64{3}},
		{"what is outside", `"victim":{"object_type":"locality_type","object_locality":"external"}`, []int64{1}},
		{"what is inside", `"offender":{"object_type":"locality_type","object_locality":"internal"}`, []int64{1, 2}},
		{"a network locality", `"offender":{"object_type":"network_locality","object_id":2}`, []int64{2}},
		{"a scanner", `"offender":{"object_type":"scanner_service","object_scanner":["other","inventory-scan"]}`, []int64{1}},
		{"another scanner", `"offender":{"object_type":"scanner_service","object_scanner":"other"}`, nil},
		{"any scanner", `"offender":{"object_type":"scanner_service","object_scanner":"Any"}`, []int64{1}},
		{"a property", hacking + `"hacking_tool","operator":"=","operand":"nmap"}]`, []int64{2}},
		{"a number", hacking + `"server_port","operator":"=","operand":443.0}]`, []int64{2}},
		{"several properties, of which one does not match", hacking + `"server_port","operator":"=","operand":443},{"property":"hacking_tool","operator":"=","operand":"nmap2"}]`, nil},
		{"addresses in a block", hacking + `"peers","operator":"in","operand":"198.51.100.0/24"}]`, []int64{2}},
		{"a regular expression", hacking + `"hacking_tool","operator":"~","operand":{"value":"^K.*x$","is_regex":true}}]`, []int64{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := c.want(201, "POST", rulesPath, rule(test.rule)).header.Get("Location")
			left := []int64{4, 3, 2, 1}
			left = slices.DeleteFunc(left, func(id int64) bool { return slices.Contains(test.hides, id) })
			wantIDs(t, c.search(`{}`), left...)
			c.want(204, "DELETE", strings.TrimPrefix(at, "/api/v1"), "")
			wantIDs(t, c.search(`{}`), 4, 3, 2, 1)
		})
	}
}

func TestRulesHideWhatComesLater(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(tunedDetections()...)
	c.want(201, "POST", rulesPath, rule(`"detection_type":"port_scan"`))
	a.Add(standin.Detection{ID: 5, Type: "port_scan", Categories: []string{"sec"}})
	wantIDs(t, c.search(`{"filter":{"types":["port_scan"]}}`))
	assert.True(t, a.Len() == 5 && len(a.Latest()) == 5 && len(a.History()) == 5, "the appliance itself has lost a detection")
	require.NoError(t, a.Update(func(d *standin.Detection) { d.Type = "port_sweep" }, 5))
	wantIDs(t, c.search(`{"filter":{"types":["port_sweep"]}}`), 5)
	a.Hide(1, 5)
	got := c.want(200, "GET", rulesPath, "").body
	assert.True(t, strings.Contains(got, `"detections_hidden":0,`) && strings.Contains(got, `"participants_hidden":0,`), "the rules are", got)
}

func TestHiddenDetectionsComeBack(t *testing.T) {
	var clock atomic.Int64
	a, c := serve(t, standin.Options{Now: func() time.Time { return epoch.Add(time.Duration(clock.Load())) }})
	a.Add(tunedDetections()...)
	const one = rulesPath + "/1"
	hidden := func(when string, want bool) {
		t.Helper()
		assert.Equal(t, !slices.Contains(c.search(`{}`), 1), want, when, "it is hidden")
	}
	c.want(201, "POST", rulesPath, rule(fmt.Sprintf(`"detection_type":"port_scan","expiration":%d`, now+minute)))
	hidden("before the rule expires", true)
	clock.Store(int64(time.Minute))
	hidden("after the rule has expired", false)
	assert.Contains(t, c.want(200, "GET", rulesPath, "").body, `"detections_hidden":0,`, "the expired rule is")
	c.want(204, "PATCH", one, `{"expiration":0}`)
	hidden("while the rule never expires", true)
	c.want(204, "PATCH", one, `{"enabled":false}`)
	hidden("while the rule is disabled", false)
	c.want(204, "PATCH", one, `{"enabled":true,"offender":{"object_type":"device","object_id":7}}`)
	hidden("while the rule is for another offender", false)
	c.want(204, "PATCH", one, `{"offender":{"object_type":"device","object_id":101},"description":"x"}`)
	hidden("while the rule is for the offender", true)
	c.want(201, "POST", rulesPath, rule(""))
	c.want(204, "DELETE", one, "")
	hidden("while another rule hides it", true)
	c.want(204, "DELETE", rulesPath+"/2", "")
	hidden("without rules", false)
	v := a.Latest()[0]
	assert.True(t, v.ID == 1 && v.ModTime == now-4 && len(a.History()) == 4, "the detection has changed to", v)
}

func TestRelatedDetections(t *testing.T) {
	a, c := serve(t, standin.Options{})
	participants := func(p ...standin.Participant) []standin.Participant { return p }
	device := func(id int64) standin.Participant { return standin.Participant{ObjectType: "device", ObjectID: id} }
	address := func(text string) standin.Participant {
		return standin.Participant{ObjectType: "ipaddr", ObjectValue: text}
	}
	a.Add(
		standin.Detection{ID: 1, Participants: participants(device(10), address("192.0.2.1"))},
		standin.Detection{ID: 2, Participants: participants(device(10)), StartTime: now - 9*minute, UpdateTime: now - 8*minute, EndTime: now - 8*minute},
		standin.Detection{ID: 3, Participants: participants(device(11), address("192.0.2.1")), StartTime: now - 5*minute, UpdateTime: now - 3*minute},
		standin.Detection{ID: 4, Participants: participants(device(1), device(101), address("192.0.2.11"))},
		standin.Detection{ID: 5, Participants: participants(standin.Participant{ObjectType: "ipaddr", ObjectID: 10})},
	)
	for query, want := range map[string][]int64{
		"":                                    {3, 2},
		fmt.Sprintf("?from=%d", now-7*minute): {3},
		"?from=-480000":                       {3, 2},
		"?until=-5m":                          {2},
		"?from=-8m&until=0":                   {3, 2},
		fmt.Sprintf("?from=%d&until=%d", now-7*minute, now-6*minute): {},
	} {
		wantIDs(t, idsOf(t, c.want(200, "GET", "/detections/1/related"+query, "").body), want...)
	}
	c.want(404, "GET", "/detections/9/related", "")
	c.want(400, "GET", "/detections/1/related?from=yesterday", "")
	c.want(400, "GET", "/detections/1/related?from=1.5", "")
}
