package format

import (
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// ocsfDetection is the class of detections.
func ocsfDetection(o Options) table {
	class := ocsfClass{
		uid: 2004, name: "Detection Finding", category: 2, categoryName: "Findings",
		activities: map[int]string{1: "Create", 2: "Update", 3: "Close"},
		profiles:   `["incident"]`, // assignee, src_url and tickets
		stream:     transform.StreamDetections,
	}
	severity := words(whole, map[string]choice{
		"unknown": {0, "Unknown"}, "low": {2, "Low"}, "medium": {3, "Medium"}, "high": {4, "High"}, "critical": {5, "Critical"},
	})
	riskLevel := words(whole, map[string]choice{"low": {1, "Low"}, "medium": {2, "Medium"}, "high": {3, "High"}, "critical": {4, "Critical"}})
	// A detection without a status is new.
	status := words(whole, map[string]choice{
		"new": {1, "New"}, "acknowledged": {2, "Acknowledged"}, "in_progress": {2, "In Progress"}, "closed": {4, "Resolved"}, "*": {99, ""},
	})
	analytic := words(whole, map[string]choice{"true": {1, "Rule"}, "false": {0, "Unknown"}})
	participants := new(participantReader)
	return class.table(o, findingActivity, from("event.action + detection.status", "=updated"),
		siblings("severity_id", "severity", severity, "event.severity", "=unknown"),
		siblings("risk_level_id", "risk_level", riskLevel, "event.severity"),
		siblings("status_id", "status", status, "detection.status", "=new"),
		siblings("finding_info.analytic.type_id", "finding_info.analytic.type", analytic, "detection.is_user_created", "=false"),
		[]row{
			{"finding_info.uid", from("detection.id", "event.subject", "event.id"), text},
			{"finding_info.title", from("detection.title"), text},
			{"finding_info.desc", from("detection.description"), text},
			{"finding_info.types", from("detection.categories"), each(text)},
			{"finding_info.created_time", from("detection.create_time"), millis},
			{"finding_info.modified_time", from("detection.mod_time"), millis},
			{"finding_info.first_seen_time", from("detection.start_time"), millis},
			{"finding_info.last_seen_time", from("detection.update_time"), millis},
			{"finding_info.src_url", from("detection.url", "link"), webURL},
			{"finding_info.analytic.uid!", from("detection.type"), text},
			{"finding_info.analytic.name!", from("format", "detection.type"), text},
			{"finding_info.attacks", from("detection.mitre_tactics + detection.mitre_techniques + detection.categories"), attacks},
			{"finding_info.kill_chain", from("detection.categories"), killChain},
			{"message", from("detection.title"), text},
			{"start_time", from("detection.start_time"), millis},
			{"end_time", from("detection.end_time"), millis},
			{"risk_score", from("detection.risk_score"), integer},
			{"status_detail", from("detection.resolution", "detection.status"), statusDetail},
			{"is_alert", from("=#true"), verbatim},
			{"src_url", from("link", "detection.url"), webURL},
			{"assignee.name!", from("detection.assignee"), text},
			{"assignee.email_addr", from("detection.assignee"), emailAddress},
			{"tickets", from("detection.ticket_id + detection.ticket_url"), tickets},
			{"evidences", from("detection.participants + detection.properties.client_port + detection.properties.server_port"), participants.evidences()},
			{"observables", from("detection.participants"), participants.observables()},
			{"resources", from("detection.participants"), participants.resources()},
			{"enrichments", from("devices"), deviceEnrichments},
			{"metadata.event_code", from("detection.type"), text},
			{"metadata.original_event_uid", from("detection.id"), text},
			{"metadata.reporter.uid", from("detection.appliance_id"), text},
		})
}

// findingActivity picks the activity from an array of the event's action and the status.
var findingActivity = picker{
	"3: status `closed`; 1: a new detection whose status is null or `new`; 2: any other",
	func(value []byte) (choice, fit) {
		var action, status []byte
		for element := range elements(value) {
			if action == nil {
				action = element
			} else {
				status = element
			}
		}
		switch {
		case string(status) == `"closed"`:
			return choice{3, "Close"}, part
		case string(action) == `"created"` && (status == nil || string(status) == "null" || string(status) == `"new"`):
			return choice{1, "Create"}, part
		}
		return choice{2, "Update"}, part
	},
}

// statusDetail is a resolution, or a status that says more than its number.
var statusDetail = only(text, func(text []byte) bool {
	switch string(text) {
	case "new", "open", "in_progress", "closed":
		return false
	}
	return true
})

// tickets converts an array of a ticket's id and address.
var tickets = conversion{"a ticket of id and address", func(dst, value []byte) ([]byte, fit) {
	var values [2][]byte
	i := 0
	for element := range elements(value) {
		values[min(i, 1)] = element
		i++
	}
	start := len(dst)
	dst = append(dst, `[{`...)
	dst, id := appendField(dst, "uid", text, values[0])
	dst, url := appendField(dst, "src_url", webURL, values[1])
	if len(dst) == start+len(`[{`) {
		return dst, none
	}
	f := whole
	for i, of := range []fit{id, url} {
		if of == none && values[i] != nil && string(values[i]) != "null" {
			f = part
		}
	}
	return append(dst, `}]`...), f
}}

// deviceEnrichments converts the appliance's own objects of devices.
var deviceEnrichments = conversion{"array, each a device by its id", func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst = append(dst, '[')
	for device := range elements(value) {
		if string(device) == "null" {
			continue
		}
		dst = append(appendComma(dst), `{"name":"detection.participants.object_id"`...)
		before := len(dst)
		if device[0] == '{' {
			dst, _ = appendField(dst, "value", text, lookup(device, "id"))
		}
		if len(dst) == before {
			dst = append(dst, `,"value":"unknown"`...)
		}
		dst, _ = appendField(dst, "data", raw, device)
		dst = append(dst, '}')
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), whole
}}

// elements yields the elements of an array, or a value that is none.
func elements(value []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if value[0] != '[' {
			yield(value)
			return
		}
		for element := range jsonscan.Elements(value) {
			if !yield(element) {
				return
			}
		}
	}
}
