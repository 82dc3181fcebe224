package format

import (
	"slices"

	"ndrbridge/transform"
)

// ecsRecords returns the tables of records, by their type.
func ecsRecords() []table {
	record := func(name string, types []string, rows ...row) table {
		t := table{name: "record: " + name, stream: transform.StreamRecords, rows: slices.Concat(rows, ecsRecord())}
		if types != nil {
			t.where = condition{source: "event.subject", is: types}
		}
		return t
	}
	return []table{
		record("HTTP", []string{"~http"}, ecsHTTP()...),
		record("DNS", []string{"~dns"}, ecsDNS()...),
		record("TLS", []string{"~ssl"}, ecsTLS()...),
		record("mail", []string{"~smtp"},
			row{"event.category", from(`=#["email","network"]`), raw},
			row{"event.type", from(`=#["info"]`), raw},
			row{"event.action", from("=mail-command"), text},
			row{"network.protocol", from("=smtp"), text},
			row{"email.sender.address", from("record._source.sender"), text},
			row{"email.to.address", from("record._source.recipientList", "record._source.recipient"), each(text)},
			row{"error.message", from("record._source.error"), text},
		),
		record("file", []string{"~cifs", "~ftp"},
			row{"event.category", from(`=#["file","network"]`), raw},
			row{"event.type", from(`=#["access"]`), raw},
			row{"event.action", from("=file-command"), text},
			row{"network.protocol", from("record._type"), protocolOfType},
			row{"file.path", from("record._source.resource", "record._source.path"), text},
			row{"error.message", from("record._source.error"), text},
		),
		record("flow", []string{"~flow"},
			row{"event.category", from(`=#["network"]`), raw},
			row{"event.type", from(`=#["connection"]`), raw},
			row{"event.action", from("=network-flow"), text},
			row{"network.protocol", from("record._source.l7proto", "record._source.proto"), applicationProtocol},
		),
		record("any other", nil,
			row{"event.category", from(`=#["network"]`), raw},
			row{"event.type", from(`=#["protocol"]`), raw},
			row{"event.action", from("=network-record"), text},
			row{"network.protocol", from("record._type"), protocolOfType},
			row{"error.message", from("record._source.error"), text},
		),
	}
}

// ecsRecord are the rows of every record. Clients and servers are sources and
// destinations, too; senders and receivers are only these.
func ecsRecord() []row {
	const s = "record._source."
	return []row{
		{"event.kind", from("=event"), text},
		{"event.dataset", from("=ndrbridge.record"), text},
		{"event.created", from("event.recordedtime"), timestamp},
		{"event.start", from(s + "first"), timestamp},
		{"event.end", from(s + "last"), timestamp},
		{"message", from("record._type", "event.type"), text},
		{"observer.type", from("=ids"), text},

		{"client.address", from(s + "clientAddr"), text},
		{"client.ip", from(s + "clientAddr"), address},
		{"client.port", from(s + "clientPort"), port},
		{"client.bytes", from(s + "reqBytes"), integer},
		{"client.packets", from(s + "reqPkts"), integer},
		{"server.address", from(s + "serverAddr"), text},
		{"server.ip", from(s + "serverAddr"), address},
		{"server.port", from(s + "serverPort"), port},
		{"server.bytes", from(s + "rspBytes"), integer},
		{"server.packets", from(s + "rspPkts"), integer},
		{"source.address", from(s+"clientAddr", s+"senderAddr"), text},
		{"source.ip", from(s+"clientAddr", s+"senderAddr"), address},
		{"source.port", from(s+"clientPort", s+"senderPort"), port},
		{"source.bytes", from(s + "reqBytes"), integer},
		{"source.packets", from(s + "reqPkts"), integer},
		{"destination.address", from(s+"serverAddr", s+"receiverAddr"), text},
		{"destination.ip", from(s+"serverAddr", s+"receiverAddr"), address},
		{"destination.port", from(s+"serverPort", s+"receiverPort"), port},
		{"destination.bytes", from(s + "rspBytes"), integer},
		{"destination.packets", from(s + "rspPkts"), integer},
		{"user.name", from(s + "user"), text},

		{"network.bytes", from(s+"bytes", s+"reqBytes + "+s+"rspBytes"), sum},
		{"network.packets", from(s+"pkts", s+"reqPkts + "+s+"rspPkts"), sum},
		{"network.transport", from(s + "proto"), transportProtocol},
		{"network.type", from(s+"clientAddr", s+"senderAddr"), networkType},
		{"network.direction", from(
			s+"clientIsExternal + "+s+"serverIsExternal", s+"senderIsExternal + "+s+"receiverIsExternal",
		), direction},
		{"network.community_id", from(s+"communityId", s+"community_id"), text},
		{"network.vlan.id", from(s + "vlan"), text},

		{"related.ip", from(s + "clientAddr + " + s + "serverAddr + " + s + "senderAddr + " + s + "receiverAddr + " + s + "origin + " + s + "offeredAddr"), allOf(address)},
		{"related.hosts", from(s + "host + " + s + "clientName + " + s + "qname"), allOf(text)},
		{"related.user", from(s + "user"), allOf(text)},

		{"ndrbridge.record.id", from("record._id"), text},
		{"ndrbridge.record.index", from("record._index"), text},
		{"ndrbridge.record.type", from("record._type"), text},
		{"ndrbridge.record.flow_id", from(s + "flowId"), text},
		{"ndrbridge.record.timestamp", from(s + "timestamp"), text}, // with its fraction
		{"ndrbridge.record.client", from(s + "client"), each(text)},
		{"ndrbridge.record.server", from(s + "server"), each(text)},
		{"ndrbridge.record.sender", from(s + "sender"), each(text)},
		{"ndrbridge.record.receiver", from(s + "receiver"), each(text)},
	}
}

func ecsHTTP() []row {
	const s = "record._source."
	return []row{
		{"event.category", from(`=#["network","web"]`), raw},
		{"event.type", from(s+"statusCode", "=0"), httpType},
		{"event.action", from("=http-request"), text},
		{"event.outcome", from(s + "statusCode"), httpOutcome},
		{"network.protocol", from("=http"), text},
		{"http.version", from(s + "rspVersion"), text},
		{"http.request.method", from(s + "method"), text},
		{"http.request.referrer", from(s + "referer"), text},
		{"http.request.bytes", from(s + "reqBytes"), integer},
		{"http.request.body.bytes", from(s + "reqSize"), integer},
		{"http.response.status_code", from(s + "statusCode"), httpStatus},
		{"http.response.mime_type", from(s + "contentType"), mimeType},
		{"http.response.bytes", from(s + "rspBytes"), integer},
		{"http.response.body.bytes", from(s + "rspSize"), integer},
		{"url.domain", from(s + "host"), text},
		{"url.original", from(s + "uri"), text},
		{"url.path", from(s + "uri"), urlPath},
		{"url.query", from(s + "query"), text},
		{"user_agent.original", from(s + "userAgent"), text},
		{"error.message", from(s + "error"), text},
	}
}

func ecsDNS() []row {
	const s = "record._source."
	return []row{
		{"event.category", from(`=#["network"]`), raw},
		{"event.type", from(`=#["protocol"]`), raw},
		{"event.action", from("=dns-message"), text},
		{"network.protocol", from("=dns"), text},
		{"dns.type", from(s + "answers"), dnsType},
		{"dns.op_code", from(s + "opcode"), text},
		{"dns.response_code", from(s+"error", s+"rcode"), text},
		{"dns.question.name", from(s + "qname"), text},
		{"dns.question.type", from(s + "qtype"), text},
		{"dns.answers", from(s + "answers"), dnsAnswers},
		{"dns.resolved_ip", from(s+"answers[].data", s+"answers"), each(address)},
	}
}

func ecsTLS() []row {
	const s = "record._source."
	return []row{
		{"event.category", from(`=#["network"]`), raw},
		{"event.type", from(`=#["protocol"]`), raw},
		{"event.action", from("=tls-session"), text},
		{"network.protocol", from("=tls"), text},
		{"tls.version", from(s + "version"), tlsVersion},
		{"tls.version_protocol", from(s + "version"), tlsProtocol},
		{"tls.cipher", from(s+"cipherSuite", s+"cipher"), text},
		{"tls.client.server_name", from(s + "host"), text},
		{"tls.client.ja3", from(s + "ja3Hash"), text},
		{"tls.server.ja3s", from(s + "ja3sHash"), text},
		{"tls.server.subject", from(s + "certificateSubject"), text},
		{"tls.server.issuer", from(s + "certificateIssuer"), text},
		{"tls.server.not_after", from(s + "certificateNotAfter"), timestamp},
		{"tls.server.not_before", from(s + "certificateNotBefore"), timestamp},
		{"error.message", from(s + "error"), text},
	}
}
