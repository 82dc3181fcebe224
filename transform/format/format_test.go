package format

import (
	"encoding/json"
	"testing"
	"time"

	"ndrbridge/transform"
)

func detection(t testing.TB, object string) transform.Event {
	t.Helper()
	d, err := transform.ParseDetection([]byte(object), false)
	if err != nil {
		t.Fatal(err)
	}
	e, err := transform.Encoder{TypePrefix: "io.ndrbridge", Appliance: "hq"}.Detection(d, transform.Observation{Created: true, Recorded: time.UnixMilli(1673518451000)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const sample = `{"id":25769803828,"start_time":1739982210001,"update_time":1739982300000,"end_time":1739982300000,"title":"ICMP \ud800 Tunnel",
"description":"[Device](https://tenant.example#/metrics) sent ICMP requests\n\nmore","risk_score":61,"type":"icmp_tunnel","recommended_factors":["rare_type"],"recommended":true,
"categories":["sec","sec.command","sec.attack"],"properties":{"a":1,"a":2},"x":{"y":{"z":1e999}},"empty":[],
"participants":[{"role":"offender","scanner_service":null,"endpoint":"receiver","external":true,"object_id":25769803780,"object_type":"ipaddr","object_value":"203.0.113.7","hostname":"host.corp.example","username":null,"id":7189},
{"role":"victim","scanner_service":null,"endpoint":"sender","external":false,"object_id":25769803807,"object_type":"device","object_value":"203.0.113.142","username":null,"id":7167}],
"ticket_id":"2996","assignee":null,"status":null,"mitre_techniques":[{"id":"T1095","name":"Non"},"T1572"],"mod_time":1739982342927,"create_time":1739982284047}`

func TestPilot(t *testing.T) {
	c, err := New(ECS, Options{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	e := c.Encode(detection(t, sample))
	var any map[string]any
	if err := json.Unmarshal(e.Payload(), &any); err != nil {
		t.Errorf("%v", err)
	}
	t.Logf("%s", e.Payload())
}

func BenchmarkEncode(b *testing.B) {
	c, _ := New(ECS, Options{Version: "1"})
	e := detection(b, sample)
	b.ReportAllocs()
	for b.Loop() {
		c.Encode(e)
	}
}
