package appliance_test

import (
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

const detectionAlert = `{"name":"Lateral movement","type":"detection","cc":[],"apply_all":true,"object_type":"device","categories":["sec.lateral"]}`

func TestAlertsHaveDefaults(t *testing.T) {
	_, c := serve(t, standin.Options{User: "ada"})
	at := c.create("/alerts", threshold)
	wantFields(t, c.object(at), decoded(t, `{"author":"ada","description":null,"disabled":false,"severity":4,"notify_snmp":false,"refire_interval":300,
		"units":"none","param":{},"param2":null,"field_name2":null,"field_op":null,"object_type":null,"protocols":null,"categories":null}`))
	if at := c.object(at)["mod_time"]; at != float64(epoch.UnixMilli()) {
		t.Errorf("mod_time is %v", at)
	}
	at = c.create("/alerts", detectionAlert)
	wantFields(t, c.object(at), decoded(t, `{"author":"ada","protocols":[],"stat_name":null,"field_name":null,"operator":null,"operand":null,
		"param":null,"param2":null,"interval_length":null,"units":null}`))
}

func TestAlertStats(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "Example"})
	c.authorization = "Example apikey=" + standin.DefaultAPIKey
	for name, test := range map[string]struct{ path, want string }{
		"a ratio has a record for each metric": {"/alerts/1", `[{"id":1,"alert_id":1,"stat_name":"example.device.http_server","field_name":"rsp_error","param":""},` +
			`{"id":2,"alert_id":1,"stat_name":"example.device.http_server","field_name":"rsp","param":""}]`},
		"detections have none": {"/alerts/2", `[]`},
		"a parameter is JSON": {c.create("/alerts", strings.Replace(threshold, "{", `{"param":{"key1":"/<GET>/"},`, 1)),
			`[{"id":5,"alert_id":3,"stat_name":"service.device.http_server","field_name":"tprocess","param":"{\"key1\":\"/<GET>/\"}"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.want(200, "GET", test.path+"/stats", "").body; got != test.want {
				t.Errorf("the records are %s, want %s", got, test.want)
			}
		})
	}
	c.want(404, "GET", "/alerts/9/stats", "")
}
