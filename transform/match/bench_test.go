package match

import (
	"fmt"
	"strings"
	"testing"
)

// twoKilobytes is a detection of the usual size.
var twoKilobytes = strings.NewReplacer("\n", "", "\t", "", `": `, `":`, `, "`, `,"`).Replace(`{
	"id": 25769803828, "start_time": 1739982210001, "update_time": 1739982300000, "end_time": 1739982300000,
	"title": "ICMP Tunnel", "description": "[Device 0e8398d29d3b0000](https://tenant.example#/metrics/devices/71c6ffe3ae8548bbbb9bf279c912d3ae.0e8398d29d3b0000/overview?from=1739982210&interval_type=DT&until=1739982300) sent ICMP requests with payloads that no other request had to an address outside. There were far more of them than this device has sent before.\n\nAbout 13000 such requests were seen; look into what they carry.",
	"risk_score": 61, "type": "icmp_tunnel", "recommended_factors": ["rare_type", "top_offender"], "recommended": true,
	"categories": ["sec", "sec.command", "sec.attack"], "properties": {"certificate": "dc1.corp.example:RSA_2048:3e426a1a3b2c2cae4cb51ec46b6c8a88"},
	"participants": [
		{"role": "offender", "scanner_service": null, "endpoint": "receiver", "external": true, "object_id": 25769803780, "object_type": "ipaddr", "object_value": "203.0.113.7", "hostname": "host.corp.example", "username": null, "id": 7189},
		{"role": "victim", "scanner_service": null, "endpoint": "sender", "external": false, "object_id": 25769803807, "object_type": "device", "object_value": "203.0.113.142", "username": null, "id": 7167}
	],
	"ticket_id": "2996", "assignee": null, "status": null, "resolution": null,
	"mitre_tactics": [{"id": "TA0011", "name": "Command and Control", "url": "https://attack.mitre.org/tactics/TA0011"}],
	"mitre_techniques": [{"id": "T1095", "name": "Non-Application Layer Protocol", "url": "https://attack.mitre.org/techniques/T1095", "legacy_ids": ["T1095"]}, {"id": "T1572", "name": "Protocol Tunneling", "url": "https://attack.mitre.org/techniques/T1572", "legacy_ids": ["T1572"]}],
	"appliance_id": 6, "is_user_created": false, "mod_time": 1750935535971, "create_time": 1739982301182,
	"url": "https://tenant.example/service/#/detections/detail/25769803828/?from=1739981310&until=1739983200&interval_type=DT"
}`)

func BenchmarkMatches(b *testing.B) {
	for _, bench := range []struct{ name, expression string }{
		{"attribute", `event.type.startsWith("io.ndrbridge.audit") && detection.risk_score >= 60`},
		{"attribute and field", `event.type.startsWith("io.ndrbridge.detection") && detection.risk_score >= 60`},
		{"two fields", `detection.risk_score >= 60 && detection.type == "icmp_tunnel"`},
		{"two fields from end to end", `detection.title != "x" && detection.is_user_created == false`},
		{"list of texts", `detection.risk_score >= 60 && "sec.attack" in detection.categories`},
		{"loop over participants", `detection.participants.exists(p, p.role == "victim" && !p.external)`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m, err := Compile(bench.expression)
			if err != nil {
				b.Fatal(err)
			}
			e := detectionEvent(b, twoKilobytes)
			b.SetBytes(int64(len(e.Data())))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Matches(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLargeObject uses an object with many members in each step of a loop, and compares
// two.
func BenchmarkLargeObject(b *testing.B) {
	var members strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&members, `"m%d":1,`, i)
	}
	object := "{" + strings.TrimSuffix(members.String(), ",") + "}"
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 20_000), ",") + "]"
	e := detectionEvent(b, "{"+members.String()+`"l":`+list+`,"a":`+object+`,"b":`+object+"}")
	for _, expression := range []string{"detection.l.exists(x, x == detection.missing)", "detection.a == detection.b"} {
		b.Run(expression, func(b *testing.B) {
			m, err := Compile(expression)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := m.Matches(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(`event.type.startsWith("io.ndrbridge.detection") && detection.risk_score >= 60`); err != nil {
			b.Fatal(err)
		}
	}
}
