package format

import (
	"slices"

	"ndrbridge/transform"
)

// ecsTables returns the tables of ECS 9.4.0. Fields outside of ndrbridge are those of the
// schema, with values of their types. The fields of ndrbridge have these types, which an
// index must map:
//
//   - flattened: unmapped, detection.participants, detection.properties,
//     detection.changes, detection.devices and audit.body: see flattened
//   - date: names that end in _time
//   - boolean: names that begin with is_, detection.recommended, event.redelivered and
//     event.repaired
//   - match_only_text: detection.description
//   - keyword: all others, ids and numbers included
//
// No document has a data_stream, which an index refuses if it is not its own name, or an
// event.ingested, which is the sink's.
func ecsTables(o Options) []table {
	tables := []table{{name: "detection", stream: transform.StreamDetections, rows: ecsDetection()}}
	tables = append(tables, ecsAudit()...)
	tables = append(tables, ecsRecords()...)
	tables = append(tables, table{name: "own event", stream: transform.StreamEvents, rows: ecsOwn()})
	for i := range tables {
		t := &tables[i]
		t.rows = slices.Concat(t.rows, ecsCommon(o))
		t.rest, t.restAs = "ndrbridge.unmapped", flatValue
	}
	return tables
}

// ecsCommon are the rows of every document.
func ecsCommon(o Options) []row {
	return []row{
		{"@timestamp", from("event.when"), timestamp},
		{"ecs.version", from("=9.4.0"), text},
		{"event.id", from("event.id"), text},
		{"event.module", from("=ndrbridge"), text},
		{"event.provider", from("event.source"), text}, // an id is unique within it
		{"agent.type", from("=ndrbridge"), text},
		{"agent.version", from("=" + o.Version), text},
		{"observer.name", from("event.appliance"), text},
		{"ndrbridge.event.type", from("event.type"), text},
		{"ndrbridge.event.recorded_time", from("event.recordedtime"), timestamp},
		{"ndrbridge.event.causedby", from("event.causedby"), text},
		{"ndrbridge.event.redelivered", from("event.redelivered"), boolean},
		{"ndrbridge.event.repaired", from("event.repaired"), boolean},
		{"ndrbridge.event.unenriched", from("event.unenriched"), text},
	}
}

// ecsOwn are the rows of the bridge's own events.
func ecsOwn() []row {
	return []row{
		{"event.kind", from("=event"), text},
		{"event.dataset", from("=ndrbridge.event"), text},
		{"event.action", from("event.type"), ownAction},
		{"event.created", from("event.recordedtime"), timestamp},
		{"event.reason", from("appliance.reason", "ticket.reason", "skipped.reason", "gap.reason"), text},
		{"message", from("gap.explanation", "appliance.reason", "ticket.reason", "skipped.reason", "event.type"), text},
		{"ndrbridge.detection.id", from("ticket.detection_id"), text},
		{"ndrbridge.detection.ticket_id", from("ticket.ticket_id"), text},
		{"ndrbridge.detection.status", from("ticket.status"), text},
		{"ndrbridge.detection.resolution", from("ticket.resolution"), text},
		{"ndrbridge.detection.assignee", from("ticket.assignee"), text},
	}
}
