package appliance_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// alertOf returns the body of a threshold alert in which fields are replaced; those that
// are null are left out.
func alertOf(t *testing.T, fields string) string {
	t.Helper()
	alert := decoded(t, threshold)
	maps.Copy(alert, decoded(t, fields))
	maps.DeleteFunc(alert, func(_ string, value any) bool { return value == nil })
	b, err := json.Marshal(alert)
	require.NoError(t, err)
	return string(b)
}

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

func TestAlertsThatArePossible(t *testing.T) {
	for name, fields := range map[string]string{
		"an author and a description":    `{"author":"grace","description":"Who knows."}`,
		"a ratio of two metrics":         `{"field_op":"/","field_name2":"rsp","param":{"key1":"/GET/"},"param2":{"key1":"/POST/"}}`,
		"no operation between metrics":   `{"field_name2":null,"field_op":null,"units":"1 min"}`,
		"severity 0 and no refiring":     `{"severity":0,"refire_interval":14400,"interval_length":1800}`,
		"an operand that is negative":    `{"operand":"-12.5","operator":"<="}`,
		"a metric with a type of device": `{"stat_name":"service.device.ssl_server:v2"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, c := serve(t, standin.Options{})
			body := alertOf(t, fields)
			wantFields(t, c.object(c.create("/alerts", body)), decoded(t, body))
		})
	}
}

func TestAlertsThatAreRefused(t *testing.T) {
	_, c := serve(t, standin.Options{})
	at := c.create("/alerts", threshold)
	detection := c.create("/alerts", detectionAlert)
	for name, fields := range map[string]string{
		"no name":                             `{"name":null}`,
		"no type":                             `{"type":null}`,
		"a type that does not exist":          `{"type":"trend"}`,
		"no data source":                      `{"apply_all":null}`,
		"severity 8":                          `{"name":"a","severity":8}`,
		"a time to refire that is not listed": `{"name":"a","refire_interval":301}`,
		"an interval that is not listed":      `{"name":"a","interval_length":31}`,
		"an operator that is not listed":      `{"name":"a","operator":"!="}`,
		"an operand that is not a number":     `{"name":"a","operand":"many"}`,
		"units that are not listed":           `{"name":"a","units":"1 day"}`,
		"an address without a host":           `{"name":"a","cc":["ops"]}`,
		"no metric":                           `{"name":"a","field_name":null}`,
		"a second metric without operation":   `{"name":"a","field_name2":"rsp"}`,
		"an operation without second metric":  `{"name":"a","field_op":"/"}`,
		"a parameter that is a list":          `{"name":"a","param":{"key1":[]}}`,
		"categories of detections":            `{"name":"a","categories":["sec"]}`,
		"the object of detections":            `{"name":"a","object_type":"device"}`,
		"detections without their object":     `{"name":"a","type":"detection","stat_name":null,"field_name":null,"operator":null,"operand":null,"interval_length":null}`,
		"detections with a metric":            `{"name":"a","type":"detection","object_type":"device"}`,
		"the time of a change":                `{"name":"a","mod_time":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			c.want(400, "POST", "/alerts", alertOf(t, fields))
		})
	}
	for name, test := range map[string]struct{ path, body string }{
		"the type changes":                           {at, `{"type":"detection"}`},
		"the author changes":                         {at, `{"author":"grace"}`},
		"a metric is removed":                        {at, `{"field_name":null}`},
		"a second metric comes without an operation": {at, `{"field_name2":"rsp"}`},
		"a metric gets categories":                   {at, `{"categories":[]}`},
		"detections get a metric":                    {detection, `{"operand":"1"}`},
		"a category does not exist":                  {detection, `{"categories":["sec.unknown"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.object(test.path)
			c.want(400, "PATCH", test.path, test.body)
			if after := c.object(test.path); !reflect.DeepEqual(before, after) {
				t.Errorf("the alert changed from %v to %v", before, after)
			}
		})
	}
	if n := len(c.objects("/alerts")); n != 4 {
		t.Errorf("there are %d alerts, want those that were accepted and two from the start", n)
	}
}

func TestAlertStats(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "Example"})
	c.authorization = "Example apikey=" + standin.DefaultAPIKey
	for name, test := range map[string]struct{ path, want string }{
		"a ratio has a record for each metric": {"/alerts/1", `[{"id":1,"alert_id":1,"stat_name":"example.device.http_server","field_name":"rsp_error","param":""},` +
			`{"id":2,"alert_id":1,"stat_name":"example.device.http_server","field_name":"rsp","param":""}]`},
		"detections have none": {"/alerts/2", `[]`},
		"a parameter is JSON": {c.create("/alerts", alertOf(t, `{"param":{"key1":"/<GET>/"}}`)),
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
