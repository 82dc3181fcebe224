package presettest

// Detections in the shapes that appliances send, with fictitious machines and people.
const (
	scan = `{
		"id": 25769804201, "start_time": 1773480300000, "update_time": 1773480400000, "end_time": 1773480390000, "mod_time": 1773480412000,
		"create_time": 1773480310000, "title": "Scan of Ports on the Database Server", "type": "port_scan", "risk_score": 61,
		"description": "[Device](#/metrics/devices/1/overview) tried 2000 ports.\n\nIt began at night.",
		"categories": ["sec", "sec.recon", "sec.attack"], "recommended": true, "recommended_factors": ["rare_type"], "properties": {"ports": [22, 5432]},
		"participants": [
			{"role": "offender", "scanner_service": null, "endpoint": "client", "external": false, "object_id": 4711, "object_type": "device", "object_value": "192.0.2.14", "username": null, "id": 1},
			{"role": "victim", "scanner_service": null, "endpoint": "server", "external": false, "object_id": 12, "object_type": "device", "object_value": "198.51.100.9", "hostname": "db1.corp.example", "id": 2}
		],
		"ticket_id": 3041, "assignee": null, "status": null, "resolution": null,
		"mitre_tactics": [{"id": "TA0007", "name": "Discovery", "url": "https://attack.mitre.org/tactics/TA0007"}],
		"mitre_techniques": [{"id": "T1046", "name": "Network Service Discovery", "url": "https://attack.mitre.org/techniques/T1046", "legacy_ids": ["T1046"]}],
		"appliance_id": 6, "is_user_created": false,
		"url": "https://tenant.example/#/detections/detail/25769804201/?from=1773480000&until=1773481000"
	}`
	critical = `{
		"id": 17179869901, "start_time": 1773479000000, "mod_time": 1773480420000, "title": "Ransomware Activity <R&D share>", "type": "ransomware", "risk_score": 97,
		"categories": ["sec.ransomware", "sec.action"],
		"participants": [
			{"role": "offender", "external": true, "object_type": "ipaddr", "object_value": "203.0.113.66", "hostname": "cdn.evil.example"},
			{"role": "victim", "object_type": "device", "object_id": 31, "object_value": "2001:db8::31"},
			{"role": "victim", "object_type": "device", "object_id": 32, "object_value": "198.51.100.32"},
			{"role": "victim", "object_type": "device", "object_id": 33, "object_value": "198.51.100.33"},
			{"role": "victim", "object_type": "device", "object_id": 34, "object_value": "198.51.100.34"},
			{"role": "victim", "object_type": "device", "object_id": 35, "object_value": "198.51.100.35"},
			{"role": "victim", "object_type": "device", "object_id": 36, "object_value": "198.51.100.36"}
		],
		"ticket_id": "SEC-17", "status": "new", "mitre_tactics": [], "mitre_techniques": [{"id": "T1486", "name": "Data Encrypted for Impact"}]
	}`
	performance = `{
		"id": 31, "start_time": 1773479000000, "update_time": 1773479300000, "mod_time": 1773480430000, "title": "Slow Answers of a Database", "type": "db_processing_time",
		"categories": ["perf", "perf.db"], "participants": [{"role": "victim", "object_id": 77, "object_type": "application", "object_value": null}],
		"ticket_id": null, "status": "open", "resolution": null
	}`
	odd = `{
		"id": 32, "mod_time": 1773480440000, "title": 17, "risk_score": "high", "categories": "sec", "participants": {"role": "offender"},
		"ticket_id": {"n": 1}, "status": 4, "start_time": "yesterday", "end_time": -1, "mitre_tactics": [null, 3], "url": "javascript:alert(1)"
	}`
)
