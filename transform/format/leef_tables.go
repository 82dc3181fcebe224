package format

import (
	"slices"

	"ndrbridge/transform"
)

// leefTables returns the tables of LEEF:2.0.
func leefTables(o Options) []table {
	return []table{leefDetection(o), leefAudit(o), leefRecord(o), leefOwn(o)}
}

// leefHeader returns the rows of the header.
func leefHeader(o Options, id ...string) []row {
	return []row{
		{"Vendor", from("=ndrbridge"), text},
		{"Product", from("=ndrbridge"), text},
		{"Version", from("="+o.Version, "=unknown"), text},
		{"EventID", id, text},
	}
}

// leefEvent are the rows of every event.
var leefEvent = []row{
	{"eventId", from("event.id"), exactText},
	{"appliance", from("event.appliance"), text},
	{"eventType", from("event.type"), text},
	{"eventSource", from("event.source"), text},
	{"causedBy", from("event.causedby"), text},
	{"redelivered", from("event.redelivered"), boolean},
	{"repaired", from("event.repaired"), boolean},
	{"unenriched", from("event.unenriched"), text},
}

// devTime is a time of 13 digits, for which a reader needs no devTimeFormat.
var devTime = named("milliseconds since the epoch, 13 digits", conversion{"", func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst, f := instant.append(dst, value)
	if len(dst)-start != len("1700000000000") {
		f = none
	}
	return dst, f
}})

// leefSeverity is the severity of a detection, from 1 to 10.
var leefSeverity = named("severity", enum(map[string]string{
	"critical": "10", "high": "8", "medium": "6", "low": "3", "unknown": "1",
}))

func leefDetection(o Options) table {
	return table{
		name: "detection", stream: transform.StreamDetections,
		rows: slices.Concat(leefHeader(o, "detection.type", "=detection"), leefEvent, []row{
			{"devTime", from("detection.mod_time", "event.when"), devTime},
			{"sev", from("event.severity", "=unknown"), leefSeverity},
			{"cat", from("detection.categories"), joined(text)},
			{"src", from("detection.participants[role=offender].object_value"), address},
			{"srcPort", portOf("offender"), second(port)},
			{"dst", from("detection.participants[role=victim].object_value"), address},
			{"dstPort", portOf("victim"), second(port)},
			{"usrName", from("detection.participants[role=offender].username"), text},
			// QRadar uses identHostName only together with identSrc.
			{"identSrc", from("detection.participants[role=offender].object_value + detection.participants[role=offender].hostname"), firstIfSecond(address)},
			{"identHostName", from("detection.participants[role=offender].hostname"), text},
			{"url", from("detection.url", "link"), text},
			{"title", from("detection.title"), text},
			{"action", from("detection.status", "event.action"), detectionAction},
			{"detectionId", from("detection.id"), text},
			{"riskScore", from("detection.risk_score"), float},
			{"startTime", from("detection.start_time"), instant},
			{"endTime", from("detection.end_time"), instant},
			{"srcHostName", from("detection.participants[role=offender].hostname"), text},
			{"dstHostName", from("detection.participants[role=victim].hostname"), text},
			{"dstUsrName", from("detection.participants[role=victim].username"), text},
			{"mitreTactics", from("detection.mitre_tactics"), joined(memberOf("id", text))},
			{"mitreTechniques", from("detection.mitre_techniques"), joined(memberOf("id", text))},
			{"status", from("detection.status"), text},
			{"resolution", from("detection.resolution"), text},
			{"ticketId", from("detection.ticket_id"), text},
			{"assignee", from("detection.assignee"), text},
			{"description", from("detection.description"), text},
		}),
	}
}

func leefAudit(o Options) table {
	return table{
		name: "audit log entry", stream: transform.StreamAudit,
		rows: slices.Concat(leefHeader(o, "audit.body.operation", "=audit"), leefEvent, []row{
			{"devTime", from("audit.occur_time", "audit.time", "event.when"), devTime},
			{"sev", from("=#3"), integer},
			{"cat", from("=audit"), text},
			{"usrName", from("audit.body.user"), text},
			{"src", from("audit.body.source_ip", "audit.body.ip"), address},
			{"entryId", from("audit.id"), text},
			{"operation", from("audit.body.operation"), text},
			{"component", from("audit.body.component"), text},
			{"details", from("audit.body.details"), text},
			{"outcome", from("audit.body.operation + audit.body.details + audit.body.result"), failureSaid},
		}),
	}
}

func leefRecord(o Options) table {
	return table{
		name: "record", stream: transform.StreamRecords,
		rows: slices.Concat(leefHeader(o, "record._type", "=record"), leefEvent, []row{
			{"devTime", from("record._source.timestamp", "event.when"), devTime},
			{"sev", from("=#1"), integer},
			{"cat", from("=network"), text},
			{"proto", from("record._source.proto"), only(text, isKeyword)},
			{"src", clientOf("Addr"), address},
			{"srcPort", clientOf("Port"), port},
			{"dst", serverOf("Addr"), address},
			{"dstPort", serverOf("Port"), port},
			{"usrName", from("record._source.user", "record._source.sender"), text},
			{"url", from("record._source.uri"), text},
			{"srcBytes", from("record._source.reqBytes"), count},
			{"dstBytes", from("record._source.rspBytes"), count},
			{"srcPackets", from("record._source.reqPkts"), count},
			{"dstPackets", from("record._source.rspPkts"), count},
			{"totalPackets", from("record._source.pkts"), count},
			{"recordId", from("record._id"), text},
			{"application", from("record._type"), recordProtocol},
			{"dstHostName", from("record._source.host"), text},
			{"dstUsrName", from("record._source.recipient"), text},
			{"method", from("record._source.method", "record._source.msgType"), text},
			{"statusCode", from("record._source.statusCode"), integer},
			{"outcome", from("record._source.statusCode"), outcomeOfStatus},
			{"error", from("record._source.error"), text},
			{"userAgent", from("record._source.userAgent"), text},
			{"referer", from("record._source.referer"), text},
			{"flowId", from("record._source.flowId"), text},
			{"query", from("record._source.qname"), text},
			{"queryType", from("record._source.qtype"), text},
			{"filePath", from("record._source.path", "record._source.resource"), text},
			{"protocolVersion", from("record._source.version", "record._source.rspVersion"), text},
			{"cipher", from("record._source.cipherSuite", "record._source.cipher"), text},
		}),
	}
}

// isKeyword reports whether text can be a protocol's keyword or number at IANA.
func isKeyword(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return 0 < len(text) && len(text) <= 32
}

func leefOwn(o Options) table {
	return table{
		name: "event of the bridge", stream: transform.StreamEvents,
		rows: slices.Concat(leefHeader(o, "event.action"), leefEvent, []row{
			{"devTime", from("event.when"), devTime},
			{"sev", from("event.action"), ownSeverity("1", "6")},
			{"cat", from("=ndrbridge"), text},
			{"title", from("event.action", "=other"), ownName},
			{"explanation", from("gap.explanation"), text},
			{"reason", from("gap.reason", "skipped.reason", "appliance.reason", "ticket.reason"), text},
			{"ticketId", from("ticket.ticket_id"), text},
		}),
	}
}
