package format

import (
	"slices"

	"ndrbridge/transform"
)

// cefTables returns the tables of CEF:0.
func cefTables(o Options) []table {
	return []table{cefDetection(o), cefAudit(o), cefRecord(o), cefOwn(o)}
}

// cefHeader returns the rows of the header.
func cefHeader(o Options, class, name, severity row) []row {
	return []row{
		{"Device Vendor", from("=ndrbridge"), text},
		{"Device Product", from("=ndrbridge"), text},
		{"Device Version", from("="+o.Version, "=unknown"), text},
		class, name, severity,
	}
}

// cefEvent are the rows of every event.
var cefEvent = []row{
	{"cs6:eventId", from("event.id"), exactText},
	{"deviceExternalId", from("event.appliance"), text},
	{"ndrbridgeEventType", from("event.type"), text},
	{"ndrbridgeEventSource", from("event.source"), text},
	{"ndrbridgeCausedBy", from("event.causedby"), text},
	{"ndrbridgeRedelivered", from("event.redelivered"), boolean},
	{"ndrbridgeRepaired", from("event.repaired"), boolean},
	{"ndrbridgeUnenriched", from("event.unenriched"), text},
}

// cefSeverity is the severity of a detection: a number from 0 to 10, or Unknown.
var cefSeverity = named("severity", enum(map[string]string{
	"critical": "10", "high": "8", "medium": "6", "low": "3", "unknown": `"Unknown"`,
}))

func cefDetection(o Options) table {
	return table{
		name: "detection", stream: transform.StreamDetections,
		rows: slices.Concat(cefHeader(o,
			row{"Device Event Class ID", from("detection.type", "=detection"), text},
			row{"Name", from("detection.title", "detection.type", "=Detection"), text},
			row{"Severity", from("event.severity", "=Unknown"), cefSeverity},
		), cefEvent, []row{
			{"rt", from("detection.mod_time", "event.when"), instant},
			{"start", from("detection.start_time"), instant},
			{"end", from("detection.end_time"), instant},
			{"externalId", from("detection.id"), text},
			{"act", from("detection.status", "event.action"), detectionAction},
			{"cat", from("detection.categories"), joined(text)},
			{"src", from("detection.participants[role=offender].object_value"), address4},
			{"c6a2:Source IPv6 Address", from("detection.participants[role=offender].object_value"), address6},
			{"shost", from("detection.participants[role=offender].hostname"), text},
			{"suser", from("detection.participants[role=offender].username"), text},
			{"spt", portOf("offender"), second(port)},
			{"dst", from("detection.participants[role=victim].object_value"), address4},
			{"c6a3:Destination IPv6 Address", from("detection.participants[role=victim].object_value"), address6},
			{"dhost", from("detection.participants[role=victim].hostname"), text},
			{"duser", from("detection.participants[role=victim].username"), text},
			{"dpt", portOf("victim"), second(port)},
			{"msg", from("detection.description"), text},
			{"request", from("detection.url", "link"), text},
			{"reason", from("detection.resolution"), text},
			{"cn1:riskScore", from("detection.risk_score"), integer},
			{"cs1:mitreTactics", from("detection.mitre_tactics"), joined(memberOf("id", text))},
			{"cs2:mitreTechniques", from("detection.mitre_techniques"), joined(memberOf("id", text))},
			{"cs3:status", from("detection.status"), text},
			{"cs4:ticketId", from("detection.ticket_id"), text},
			{"cs5:assignee", from("detection.assignee"), text},
		}),
	}
}

// detectionAction is closed for a closed detection, else what happened to it.
var detectionAction = named("created, updated or closed", enum(map[string]string{
	"closed": `"closed"`, "created": `"created"`, "updated": `"updated"`,
}))

// portOf returns the sources of the port of the first participant with a role: that of
// the client or the server, if the participant is known to be that.
func portOf(role string) []string {
	endpoint := "detection.participants[role=" + role + "].endpoint"
	return from(
		endpoint+" + detection.properties.client_port + =client",
		endpoint+" + detection.properties.server_port + =server",
	)
}

func cefAudit(o Options) table {
	return table{
		name: "audit log entry", stream: transform.StreamAudit,
		rows: slices.Concat(cefHeader(o,
			row{"Device Event Class ID", from("audit.body.operation", "=audit"), text},
			row{"Name", from("audit.body.operation", "=Audit log entry"), text},
			row{"Severity", from("=#3"), integer},
		), cefEvent, []row{
			{"rt", from("audit.time", "event.when"), instant},
			{"start", from("audit.occur_time"), instant},
			{"externalId", from("audit.id"), text},
			{"act", from("audit.body.operation"), text},
			{"cat", from("=audit"), text},
			{"deviceFacility", from("audit.body.component"), text},
			{"suser", from("audit.body.user"), text},
			{"src", from("audit.body.source_ip", "audit.body.ip"), address4},
			{"c6a2:Source IPv6 Address", from("audit.body.source_ip", "audit.body.ip"), address6},
			{"msg", from("audit.body.details"), text},
			{"outcome", from("audit.body.operation + audit.body.details + audit.body.result"), failureSaid},
		}),
	}
}

func cefRecord(o Options) table {
	return table{
		name: "record", stream: transform.StreamRecords,
		rows: slices.Concat(cefHeader(o,
			row{"Device Event Class ID", from("record._type", "=record"), text},
			row{"Name", from("record._type", "=record"), recordName},
			row{"Severity", from("=#1"), integer},
		), cefEvent, []row{
			{"rt", from("record._source.timestamp", "event.when"), instant},
			{"externalId", from("record._id"), text},
			{"cat", from("=network"), text},
			{"act", from("record._source.method", "record._source.msgType"), text},
			{"app", from("record._type"), recordProtocol},
			{"proto", from("record._source.proto"), text},
			{"src", clientOf("Addr"), address4},
			{"c6a2:Source IPv6 Address", clientOf("Addr"), address6},
			{"spt", clientOf("Port"), port},
			{"suser", from("record._source.user", "record._source.sender"), text},
			{"dst", serverOf("Addr"), address4},
			{"c6a3:Destination IPv6 Address", serverOf("Addr"), address6},
			{"dpt", serverOf("Port"), port},
			{"dhost", from("record._source.host"), text},
			{"duser", from("record._source.recipient"), text},
			{"in", from("record._source.reqBytes"), integer32},
			{"out", from("record._source.rspBytes"), integer32},
			{"request", from("record._source.uri"), text},
			{"requestMethod", from("record._type + record._source.method + =~http"), second(text)},
			{"requestClientApplication", from("record._source.userAgent"), text},
			{"requestContext", from("record._source.referer"), text},
			{"filePath", from("record._source.path", "record._source.resource"), text},
			{"outcome", from("record._source.statusCode"), outcomeOfStatus},
			{"reason", from("record._source.error"), text},
			{"cn1:statusCode", from("record._source.statusCode"), integer},
			{"cfp1:processingTime", from("record._source.processingTime"), float},
			{"cs1:flowId", from("record._source.flowId"), text},
			{"cs2:query", from("record._source.qname"), text},
			{"cs3:queryType", from("record._source.qtype"), text},
			{"cs4:protocolVersion", from("record._source.version", "record._source.rspVersion"), text},
			{"cs5:cipher", from("record._source.cipherSuite", "record._source.cipher"), text},
		}),
	}
}

// clientOf and serverOf return the sources of a value of a record's client and server, or
// of a flow's sender and receiver.
func clientOf(value string) []string {
	return from("record._source.client"+value, "record._source.sender"+value)
}

func serverOf(value string) []string {
	return from("record._source.server"+value, "record._source.receiver"+value)
}

var (
	recordName = named("name of the type", enum(map[string]string{
		"~http": `"HTTP transaction"`, "~dns": `"DNS message"`, "~ssl": `"TLS session"`, "~flow": `"Network flow"`,
		"~cifs": `"SMB operation"`, "~rdp": `"RDP session"`, "~ssh": `"SSH session"`, "~ftp": `"FTP command"`,
		"~dhcp": `"DHCP message"`, "~smtp": `"SMTP message"`, "~ntp": `"NTP message"`, "*": `"Network record"`,
	}))
	recordProtocol = named("protocol of the type", enum(map[string]string{
		"~http": `"HTTP"`, "~dns": `"DNS"`, "~ssl": `"TLS"`, "~cifs": `"SMB"`, "~rdp": `"RDP"`, "~ssh": `"SSH"`,
		"~ftp": `"FTP"`, "~dhcp": `"DHCP"`, "~smtp": `"SMTP"`, "~ntp": `"NTP"`,
	}))
)

func cefOwn(o Options) table {
	return table{
		name: "event of the bridge", stream: transform.StreamEvents,
		rows: slices.Concat(cefHeader(o,
			row{"Device Event Class ID", from("event.action"), text},
			row{"Name", from("event.action", "=other"), ownName},
			row{"Severity", from("event.action"), ownSeverity("3", "6")},
		), cefEvent, []row{
			{"rt", from("event.when"), instant},
			{"act", from("event.action"), text},
			{"cat", from("=ndrbridge"), text},
			{"externalId", from("ticket.detection_id"), text},
			{"msg", from("gap.explanation"), text},
			{"reason", from("gap.reason", "skipped.reason", "appliance.reason", "ticket.reason"), text},
			{"cs4:ticketId", from("ticket.ticket_id"), text},
		}),
	}
}

var (
	ownName = named("name of the action", enum(map[string]string{
		"gap": `"Gap in the audit log"`, "unreachable": `"Appliance unreachable"`, "reachable": `"Appliance reachable again"`,
		"applied": `"Ticket command applied"`, "rejected": `"Ticket command rejected"`,
		"skipped": `"Sink skipped events"`, "heartbeat": `"Heartbeat"`, "*": `"Event of the bridge"`,
	}))
)

// ownSeverity is one level for events that need attention, and another for all others.
func ownSeverity(normal, attention string) conversion {
	return named("severity", enum(map[string]string{
		"gap": attention, "unreachable": attention, "rejected": attention, "skipped": attention, "*": normal,
	}))
}
