package format

// ecsDetection are the rows of a version of a detection.
func ecsDetection() []row {
	const (
		offender = "detection.participants[role=offender]."
		victim   = "detection.participants[role=victim]."
		ports    = " + detection.properties.client_port + detection.properties.server_port"
	)
	return []row{
		{"event.kind", from("=alert"), text},
		{"event.category", from("detection.categories", "=#[]"), detectionCategory},
		{"event.type", from(`=#["info"]`), raw},
		{"event.dataset", from("=ndrbridge.detection"), text},
		{"event.action", from("detection.status", "event.action"), enum(map[string]string{
			"closed": `"closed"`, "created": `"created"`, "updated": `"updated"`,
		})},
		{"event.code", from("detection.type"), text},
		{"event.reason", from("detection.title"), text},
		{"event.created", from("detection.create_time"), timestamp},
		{"event.start", from("detection.start_time"), timestamp},
		{"event.end", from("detection.end_time"), timestamp},
		{"event.risk_score", from("detection.risk_score"), float32Number},
		{"event.severity", from("event.severity"), enum(map[string]string{
			"critical": "99", "high": "73", "medium": "47", "low": "21", "unknown": "0",
		})},
		{"event.url", from("detection.url", "link"), text},
		{"message", from("detection.title", "detection.type", "event.type"), text},
		{"observer.type", from("=ids"), text},

		{"rule.id", from("detection.type"), text},
		{"rule.name", from("format", "detection.title"), text},
		{"rule.category", from("detection.categories"), ruleCategory},

		// Those of the detection, else those that the category implies.
		{"threat.framework", from("detection.mitre_tactics", "detection.mitre_techniques", "detection.categories"), attackFramework},
		{"threat.tactic", from("detection.mitre_tactics", "detection.categories"), attackTactics},
		{"threat.technique", from("detection.mitre_techniques", "detection.categories"), attackTechniques},

		{"source.address", from(offender+"object_value", offender+"hostname"), text},
		{"source.ip", from(offender + "object_value"), address},
		{"source.domain", from(offender + "hostname"), text},
		{"source.user.name", from(offender + "username"), text},
		{"source.port", from(offender + "endpoint + " + victim + "endpoint" + ports), portOfEndpoint},
		{"destination.address", from(victim+"object_value", victim+"hostname"), text},
		{"destination.ip", from(victim + "object_value"), address},
		{"destination.domain", from(victim + "hostname"), text},
		{"destination.user.name", from(victim + "username"), text},
		{"destination.port", from(victim + "endpoint + " + offender + "endpoint" + ports), portOfEndpoint},
		{"network.direction", from(offender + "external + " + victim + "external"), direction},

		{"related.ip", from("detection.participants[].object_value + detection.participants[].origins + devices[].ipaddr4 + devices[].ipaddr6"), allOf(address)},
		{"related.hosts", from("detection.participants[].hostname + devices[].display_name + devices[].dns_name"), allOf(text)},
		{"related.user", from("detection.participants[].username + detection.participants[].usernames"), allOf(text)},

		{"labels.status", from("detection.status"), text},
		{"labels.resolution", from("detection.resolution"), text},

		{"ndrbridge.detection.id", from("detection.id"), text},
		{"ndrbridge.detection.appliance_id", from("detection.appliance_id"), text},
		{"ndrbridge.detection.categories", from("detection.categories"), each(text)},
		{"ndrbridge.detection.description", from("detection.description"), text},
		{"ndrbridge.detection.status", from("detection.status"), text},
		{"ndrbridge.detection.resolution", from("detection.resolution"), text},
		{"ndrbridge.detection.assignee", from("detection.assignee"), text},
		{"ndrbridge.detection.ticket_id", from("detection.ticket_id"), text},
		{"ndrbridge.detection.ticket_url", from("detection.ticket_url"), text},
		{"ndrbridge.detection.recommended", from("detection.recommended"), boolean},
		{"ndrbridge.detection.recommended_factors", from("detection.recommended_factors"), each(text)},
		{"ndrbridge.detection.is_user_created", from("detection.is_user_created"), boolean},
		{"ndrbridge.detection.legacy_technique_ids", from("detection.mitre_techniques[].legacy_ids"), allOf(text)},
		{"ndrbridge.detection.mod_time", from("detection.mod_time"), timestamp},
		{"ndrbridge.detection.update_time", from("detection.update_time"), timestamp},
		{"ndrbridge.detection.participants", from("detection.participants"), flattened},
		{"ndrbridge.detection.properties", from("detection.properties"), flattened},
		{"ndrbridge.detection.changes", from("changes"), flattened},
		{"ndrbridge.detection.devices", from("devices"), flattened},
	}
}
