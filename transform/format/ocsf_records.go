package format

import (
	"bytes"
	"slices"
	"strings"

	"ndrbridge/transform"
)

// ocsfRecords returns the classes of records: one for each type of record that has a
// class of its own, and Network Activity for all others.
func ocsfRecords(o Options) []table {
	return []table{
		ocsfFlow(o), ocsfHTTP(o), ocsfDNS(o), ocsfDHCP(o), ocsfRDP(o), ocsfSMB(o), ocsfSSH(o), ocsfFTP(o), ocsfEmail(o), ocsfNTP(o),
		ocsfNetwork(o),
	}
}

// recordClass returns the class of the records of a type; empty: of all others.
func recordClass(uid int, name, recordType string, activities map[int]string) ocsfClass {
	c := ocsfClass{uid: uid, name: name, category: 4, categoryName: "Network Activity", activities: activities, stream: transform.StreamRecords}
	if recordType != "" {
		c.where = condition{source: "event.subject", is: []string{recordType}}
	}
	return c
}

// fields returns the sources of a row that reads fields of a record.
func fields(names ...string) []string {
	var sources []string
	for _, name := range names {
		parts := strings.Split(name, " + ")
		for i, part := range parts {
			if !strings.HasPrefix(part, "=") {
				parts[i] = "record._source." + part
			}
		}
		sources = append(sources, strings.Join(parts, " + "))
	}
	return sources
}

// recordRows are the rows of all records.
func recordRows() []row {
	return append([]row{
		{"metadata.event_code", from("record._type"), text},
		{"metadata.log_name", from("record._index"), text},
		{"metadata.original_event_uid", from("record._id", "event.id"), text},
		{"metadata.original_time", fields("timestamp"), text},
	}, informational...)
}

// endpointRows are the rows of an endpoint. of are the beginnings of its fields' names in
// the order in which they are tried, such as client and sender.
func endpointRows(field string, of ...string) []row {
	names := func(suffix string) []string {
		var names []string
		for _, side := range of {
			names = append(names, side+suffix)
		}
		return fields(names...)
	}
	return append([]row{
		{field + ".ip!", names("Addr"), firstOf(address)},
		{field + ".uid!", names(""), firstOf(text)},
		{field + ".port", names("Port"), port},
	}, siblings(field+".network_scope_id", field+".network_scope", networkScope, fields(of[0]+"IsExternal")...)...)
}

// requestRows are the rows of records of requests and responses, and directionRows those of
// one direction: the endpoints.
func requestRows() []row {
	return slices.Concat(endpointRows("src_endpoint", "client", "sender"), endpointRows("dst_endpoint", "server", "receiver"), sourceRows())
}

func directionRows() []row {
	return slices.Concat(endpointRows("src_endpoint", "sender", "client"), endpointRows("dst_endpoint", "receiver", "server"), sourceRows())
}

// sourceRows are further rows of the source endpoint.
func sourceRows() []row {
	return []row{
		{"src_endpoint.name?", from("=unknown"), text}, // a class requires one endpoint
		{"src_endpoint.vlan_uid", fields("vlan"), text},
		{"src_endpoint.owner.name!", fields("user"), userName},
	}
}

// connectionRows are the rows of the connection and its traffic, which all classes have but
// Email Activity.
func connectionRows() []row {
	return slices.Concat(
		siblings("connection_info.direction_id", "connection_info.direction", ocsfDirection("Lateral"), directionSources()...),
		siblings("connection_info.protocol_ver_id", "connection_info.protocol_ver", addressVersion, fields("clientAddr", "senderAddr")...),
		[]row{
			{"app_name", fields("application"), firstOf(text)},
			{"connection_info.uid", fields("flowId"), text},
			{"connection_info.protocol_name", fields("proto"), protocolName},
			{"connection_info.protocol_num", fields("proto"), protocolNumber},
			{"connection_info.tcp_flags", fields("tcpFlags"), tcpFlags},
			{"traffic.bytes", fields("bytes"), integer},
			{"traffic.packets", fields("pkts"), integer},
			{"traffic.bytes_out", fields("reqBytes"), integer},
			{"traffic.bytes_in", fields("rspBytes"), integer},
			{"traffic.packets_out", fields("reqPkts"), integer},
			{"traffic.packets_in", fields("rspPkts"), integer},
			{"start_time", fields("first"), millis},
			{"end_time", fields("last"), millis},
			{"duration", fields("first + last"), duration},
		})
}

func directionSources() []string {
	return fields("clientIsExternal + serverIsExternal", "senderIsExternal + receiverIsExternal", "=unknown")
}

// errorRows are the rows of records that have an error if something failed, and a status
// code.
func errorRows() []row {
	return append(siblings("status_id", "status", ocsfFailure, fields("error", "statusCode")...), []row{
		{"status_code", fields("statusCode"), text},
		{"status_detail", fields("error"), text},
	}...)
}

// connectionActivities are the activities of Network Activity and SSH Activity.
var connectionActivities = map[int]string{1: "Open", 2: "Close", 3: "Reset", 4: "Fail", 5: "Refuse", 6: "Traffic", 7: "Listen"}

// traffic picks the activity of what is seen on the network.
var traffic = picker{"6", func([]byte) (choice, fit) { return choice{6, "Traffic"}, part }}

// ocsfApplicationProtocol is the type of a record without its tilde.
var ocsfApplicationProtocol = conversion{"text without the tilde", func(dst, value []byte) ([]byte, fit) {
	name, found := bytes.CutPrefix(value, []byte(`"~`))
	if !found || len(name) <= len(`"`) {
		return dst, none
	}
	return appendString(dst, append([]byte{'"'}, name...)), part
}}

func ocsfFlow(o Options) table {
	return recordClass(4001, "Network Activity", "~flow", connectionActivities).table(o, traffic, from("=traffic"),
		recordRows(), directionRows(), connectionRows())
}

func ocsfNetwork(o Options) table {
	return recordClass(4001, "Network Activity", "", connectionActivities).table(o, traffic, from("=traffic"),
		recordRows(), requestRows(), connectionRows(), errorRows(), []row{
			{"app_protocol_name", from("record._type"), ocsfApplicationProtocol},
			{"tls.version!", fields("version"), text},
			{"tls.cipher", fields("cipherSuite", "cipher"), text},
			{"tls.sni", fields("host"), text},
			{"tls.ja3_hash.value!", fields("ja3Hash"), text},
			{"tls.ja3_hash.algorithm_id", from("=#1"), verbatim},
			{"tls.ja3_hash.algorithm", from("=MD5"), text},
			{"tls.ja3s_hash.value!", fields("ja3sHash"), text},
			{"tls.ja3s_hash.algorithm_id", from("=#1"), verbatim},
			{"tls.ja3s_hash.algorithm", from("=MD5"), text},
		})
}

func ocsfHTTP(o Options) table {
	class := recordClass(4002, "HTTP Activity", "~http", map[int]string{
		1: "Connect", 2: "Delete", 3: "Get", 4: "Head", 5: "Options", 6: "Post", 7: "Put", 8: "Trace", 9: "Patch",
	})
	activity := map[string]choice{"unknown": {0, "Unknown"}, "*": {99, ""}}
	for id, name := range class.activities {
		activity[strings.ToLower(name)] = choice{id, name}
	}
	return class.table(o, words(part, activity), fields("method", "=unknown"),
		recordRows(), requestRows(), connectionRows(), siblings("status_id", "status", ocsfHTTPOutcome, fields("statusCode")...), []row{
			{"status_code", fields("statusCode"), text},
			{"http_request.uid", from("record._id", "event.id"), text},
			{"http_request.http_method", fields("method"), ocsfHTTPMethod},
			{"http_request.url.path!", fields("host + uri"), ocsfURLPath},
			{"http_request.url.url_string?", fields("uri", "host"), text},
			{"http_request.url.hostname", fields("host"), text},
			{"http_request.url.port", fields("serverPort"), port},
			{"http_request.url.query_string", fields("query"), text},
			{"http_request.referrer", fields("referer"), text},
			{"http_request.user_agent", fields("userAgent"), text},
			{"http_request.x_forwarded_for", fields("origin"), each(address)},
			{"http_request.body_length", fields("reqSize"), integer},
			{"http_response.code!", fields("statusCode"), ocsfHTTPStatus},
			{"http_response.content_type", fields("contentType"), text},
			{"http_response.body_length", fields("rspSize"), integer},
			{"http_response.latency", fields("processingTime"), rounded},
		})
}

func ocsfDNS(o Options) table {
	class := recordClass(4003, "DNS Activity", "~dns", map[int]string{1: "Query", 2: "Response", 6: "Traffic"})
	return class.table(o, ocsfDNSActivity, fields("answers + error + rspBytes", "=query"),
		recordRows(), requestRows(), connectionRows(),
		siblings("rcode_id", "rcode", ocsfDNSCode, fields("error", "answers")...),
		siblings("status_id", "status", ocsfFailure, fields("error", "answers")...), []row{
			{"status_detail", fields("error"), text},
			{"query.hostname!", fields("qname"), text},
			{"query.type", fields("qtype"), text},
			{"query.opcode", fields("opcode"), text},
			{"query.opcode_id", fields("opcode"), ocsfDNSOpcode.id()},
			{"answers", fields("answers"), ocsfDNSAnswers},
		})
}

func ocsfDHCP(o Options) table {
	class := recordClass(4004, "DHCP Activity", "~dhcp", map[int]string{
		1: "Discover", 2: "Offer", 3: "Request", 4: "Decline", 5: "Ack", 6: "Nak", 7: "Release", 8: "Inform", 9: "Expire",
	})
	activity := map[string]choice{"unknown": {0, "Unknown"}, "*": {99, ""}}
	for id, name := range class.activities {
		activity["dhcp"+strings.ToLower(name)] = choice{id, name}
	}
	return class.table(o, words(whole, activity), fields("msgType", "=unknown"),
		recordRows(), requestRows(), connectionRows(), errorRows(), []row{
			{"transaction_uid", fields("txId"), text},
			{"relay.ip!", fields("gwAddr"), firstOf(address)},
			{"src_endpoint.mac", fields("chaddr"), macAddress},
		})
}

func ocsfRDP(o Options) table {
	class := recordClass(4005, "RDP Activity", "~rdp", map[int]string{6: "Traffic"})
	return class.table(o, traffic, from("=traffic"), recordRows(), requestRows(), connectionRows(), errorRows(), []row{
		{"src_endpoint.name!", fields("clientName"), text},
		{"identifier_cookie", fields("cookie"), text},
		{"capabilities", fields("requestedProtocols"), each(text)},
		{"keyboard_info.keyboard_layout", fields("keyboardLayout"), text},
		{"remote_display.physical_height", fields("desktopHeight"), integer},
		{"remote_display.physical_width", fields("desktopWidth"), integer},
		{"remote_display.color_depth", fields("requestedColorDepth"), integer},
	})
}

func ocsfSMB(o Options) table {
	class := recordClass(4006, "SMB Activity", "~cifs", map[int]string{
		1: "File Supersede", 2: "File Open", 3: "File Create", 4: "File Open If", 5: "File Overwrite", 6: "File Overwrite If",
	})
	return class.table(o, ocsfSMBActivity, fields("isCommandCreate", "method", "=unknown"),
		recordRows(), requestRows(), connectionRows(), errorRows(), []row{
			{"command", fields("method"), text},
			{"dialect", fields("dialect"), text},
			{"share", fields("share"), text},
			{"file.name!", fields("resource"), baseName},
			{"file.path", fields("resource"), text},
			{"file.type_id", from("=#0"), verbatim},
			{"file.type", from("=Unknown"), text},
		})
}

func ocsfSSH(o Options) table {
	hassh := func(field, name string) []row {
		return []row{
			{field + ".fingerprint.value!", fields(name), text},
			{field + ".fingerprint.algorithm_id", from("=#20"), verbatim},
			{field + ".fingerprint.algorithm", from("=HASSH"), text},
		}
	}
	return recordClass(4007, "SSH Activity", "~ssh", connectionActivities).table(o, traffic, from("=traffic"),
		recordRows(), requestRows(), connectionRows(), errorRows(), hassh("client_hassh", "hasshClient"), hassh("server_hassh", "hasshServer"), []row{
			{"protocol_ver", fields("clientVersion", "serverVersion"), text},
		})
}

func ocsfFTP(o Options) table {
	class := recordClass(4008, "FTP Activity", "~ftp", map[int]string{1: "Put", 2: "Get", 3: "Poll", 4: "Delete", 5: "Rename", 6: "List"})
	activity := words(part, map[string]choice{
		"stor": {1, "Put"}, "stou": {1, "Put"}, "appe": {1, "Put"}, "retr": {2, "Get"}, "dele": {4, "Delete"}, "rmd": {4, "Delete"},
		"rnfr": {5, "Rename"}, "rnto": {5, "Rename"}, "list": {6, "List"}, "nlst": {6, "List"}, "mlsd": {6, "List"}, "mlst": {6, "List"},
		"unknown": {0, "Unknown"}, "*": {99, ""},
	})
	return class.table(o, activity, fields("method", "=unknown"), recordRows(), requestRows(), connectionRows(), errorRows(), []row{
		{"command", fields("method"), text},
		{"codes", fields("statusCode"), each(integer)},
		{"name", fields("args"), text},
		{"file.name!", fields("path"), baseName},
		{"file.path", fields("path"), text},
		{"file.size", fields("transferBytes"), integer},
		{"file.type_id", from("=#0"), verbatim},
		{"file.type", from("=Unknown"), text},
	})
}

func ocsfEmail(o Options) table {
	class := recordClass(4009, "Email Activity", "~smtp", map[int]string{1: "Send"})
	send := picker{"1", func([]byte) (choice, fit) { return choice{1, "Send"}, part }}
	return class.table(o, send, from("=send"), recordRows(), requestRows(), errorRows(),
		siblings("direction_id", "direction", ocsfDirection("Internal"), directionSources()...), []row{
			{"protocol_name", from("=SMTP"), text},
			{"command", fields("method"), text},
			{"from", fields("sender"), emailAddress},
			{"email.from", fields("sender"), emailAddress},
			{"to", fields("recipientList", "recipient"), each(emailAddress)},
			{"email.to", fields("recipientList", "recipient", "=#[]"), recipients},
			{"email.size", fields("dataSize"), integer},
		})
}

func ocsfNTP(o Options) table {
	class := recordClass(4013, "NTP Activity", "~ntp", map[int]string{
		1: "Symmetric Active Exchange", 2: "Symmetric Passive Response", 3: "Client Synchronization", 4: "Server Response",
		5: "Broadcast", 6: "Control", 7: "Private Use Case",
	})
	activity := words(whole, map[string]choice{
		"symmetric active": {1, "Symmetric Active Exchange"}, "symmetric passive": {2, "Symmetric Passive Response"},
		"client": {3, "Client Synchronization"}, "server": {4, "Server Response"}, "broadcast": {5, "Broadcast"},
		"ntp control message": {6, "Control"}, "reserved for private use": {7, "Private Use Case"}, "unknown": {0, "Unknown"}, "*": {99, ""},
	})
	return class.table(o, activity, fields("modeName", "=unknown"), recordRows(), directionRows(), connectionRows(),
		siblings("stratum_id", "stratum", ntpStratum, fields("stratum")...), []row{
			{"version", fields("version", "=unknown"), text},
			{"delay", fields("rootDelay"), secondsInMillis},
			{"dispersion", fields("rootDispersion"), secondsInMillis},
		})
}
