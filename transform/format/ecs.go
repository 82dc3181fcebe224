package format

import "ndrbridge/transform"

// ecsTables returns the tables of ECS 9.4.0.
func ecsTables(o Options) []table {
	return []table{ecsDetection(o)}
}

func ecsDetection(o Options) table {
	return table{
		name: "detection", stream: transform.StreamDetections, rest: "ndrbridge.unmapped",
		rows: []row{
			{"@timestamp", from("event.when"), timestamp},
			{"ecs.version", from("=9.4.0"), text},
			{"event.kind", from("=alert"), text},
			{"event.id", from("event.id"), text},
			{"event.risk_score", from("detection.risk_score"), float},
			{"message", from("detection.title"), text},
			{"source.ip", from("detection.participants[role=offender].object_value"), address},
			{"destination.ip", from("detection.participants[role=victim].object_value"), address},
			{"related.ip", from("detection.participants[].object_value"), each(address)},
			{"related.hosts", from("detection.participants[].hostname"), each(text)},
			{"threat.technique.id", from("detection.mitre_techniques"), each(memberOf("id", text))},
			{"ndrbridge.detection.participants", from("detection.participants"), raw},
		},
	}
}
