package format

import (
	"bytes"
	"math"
	"net/netip"
	"strconv"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// The conversions of records' fields.

// directionOf picks the direction of a connection from two values: whether its client and
// its server are external. internal is the caption of a connection between hosts inside.
func directionOf(internal string) picker {
	return picker{"3: both are internal; 2: the client is internal; 1: the server is internal; 0: any other", func(value []byte) (choice, fit) {
		if value[0] != '[' {
			return choice{0, "Unknown"}, part
		}
		switch external := elementsOf(value); string(external[0]) + " " + string(external[1]) {
		case "false true":
			return choice{2, "Outbound"}, part
		case "true false":
			return choice{1, "Inbound"}, part
		case "false false":
			return choice{3, internal}, part
		}
		return choice{}, none
	}}
}

// addressVersion picks the version of an address.
var addressVersion = picker{"the version of the address, 4 or 6", func(value []byte) (choice, fit) {
	if value[0] != '"' || len(value) > len(`""`)+45 {
		return choice{}, none
	}
	a, err := netip.ParseAddr(string(value[1 : len(value)-1]))
	switch {
	case err != nil:
		return choice{}, none
	case a.Is4():
		return choice{4, "Internet Protocol version 4 (IPv4)"}, part
	}
	return choice{6, "Internet Protocol version 6 (IPv6)"}, part
}}

// protocols are the numbers of IP protocols.
var protocols = map[string]string{
	"icmp": "1", "igmp": "2", "ipip": "4", "tcp": "6", "udp": "17", "gre": "47", "esp": "50", "ah": "51", "icmp6": "58", "icmpv6": "58", "ospf": "89", "sctp": "132",
}

// protocolName is the name of an IP protocol in lower case.
var protocolName = conversion{"text in lower case", func(dst, value []byte) ([]byte, fit) {
	var buffer [32]byte
	name, ok := unquoted(buffer[:0], value)
	if name = lower(name); ok && protocols[string(name)] != "" {
		return append(append(append(dst, '"'), name...), '"'), whole
	}
	return text.append(dst, value)
}}

// protocolNumber is its number.
var protocolNumber = conversion{"number of the protocol", func(dst, value []byte) ([]byte, fit) {
	var buffer [32]byte
	name, _ := unquoted(buffer[:0], value)
	number, found := protocols[string(lower(name))]
	return append(dst, number...), min(part, fits(found))
}}

// tcpFlag are the bits of TCP's flags.
var tcpFlag = map[string]int64{"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ECE": 64, "CWR": 128}

// tcpFlags is a number, or an array of flags' names.
var tcpFlags = conversion{"integer, or the sum of an array of flags", func(dst, value []byte) ([]byte, fit) {
	if value[0] != '[' {
		return integer.append(dst, value)
	}
	var sum int64
	f := whole
	for element := range jsonscan.Elements(value) {
		flag := tcpFlag[string(bytes.Trim(element, `"`))]
		if sum |= flag; flag == 0 {
			f = part
		}
	}
	if sum == 0 {
		return dst, none
	}
	return strconv.AppendInt(dst, sum, 10), f
}}

// duration is the time between two times in milliseconds.
var duration = conversion{"milliseconds between the two", func(dst, value []byte) ([]byte, fit) {
	times := elementsOf(value)
	if times[0] == nil || times[1] == nil {
		return dst, none
	}
	first, hasFirst := jsonscan.Millis(times[0])
	last, hasLast := jsonscan.Millis(times[1])
	return strconv.AppendInt(dst, last-first, 10), min(part, fits(hasFirst && hasLast && first <= last))
}}

// rounded is a number without its fraction.
var rounded = scaled("integer, rounded", 1)

// secondsInMillis is a number of seconds in milliseconds.
var secondsInMillis = scaled("milliseconds, of seconds", 1000)

func scaled(name string, by float64) conversion {
	return conversion{name, func(dst, value []byte) ([]byte, fit) {
		digits := jsonscan.Number(value)
		n, err := strconv.ParseFloat(string(digits), 64)
		if n = math.Round(n * by); err != nil || math.Abs(n) >= 1<<53 {
			return dst, none
		}
		start := len(dst)
		dst = strconv.AppendInt(dst, int64(n), 10)
		return dst, max(part, fits(bytes.Equal(dst[start:], digits)))
	}}
}

// failurePicker picks the outcome from an error, or from a status code.
var failurePicker = picker{"2: an error, or a status code from 400; 1: any other status code, or answers", func(value []byte) (choice, fit) {
	switch {
	case value[0] == '[':
		return choice{1, "Success"}, part
	case value[0] == '{' || isEmpty(value):
		return choice{}, none
	}
	var buffer [32]byte
	code, _ := unquoted(buffer[:0], value)
	if string(code) == "STATUS_SUCCESS" {
		return choice{1, "Success"}, part
	}
	if n, err := strconv.Atoi(string(code)); err == nil && n < 400 {
		return choice{1, "Success"}, part
	}
	return choice{2, "Failure"}, part
}}

// httpOutcomePicker picks the outcome from the status of a response.
var httpOutcomePicker = picker{"1: below 400; 2: from 400", func(value []byte) (choice, fit) {
	switch code, ok := asInteger(value); {
	case !ok || code <= 0:
		return choice{}, none
	case code < 400:
		return choice{1, "Success"}, part
	}
	return choice{2, "Failure"}, part
}}

// httpMethod is a method that the schema knows.
var httpMethod = named("one of the schema's methods", only(text, func(method []byte) bool {
	switch string(method) {
	case "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE":
		return true
	}
	return false
}))

// uriPath converts a host and a URI, which may begin with the host, to the path.
var uriPath = conversion{"the path: the URI without the host", func(dst, value []byte) ([]byte, fit) {
	values := elementsOf(value)
	host, uri := values[0], values[1]
	if uri == nil || uri[0] != '"' {
		return dst, none
	}
	f := whole
	switch {
	case host == nil:
	case host[0] != '"':
		f = part // it is in no other field
	default:
		if rest, found := bytes.CutPrefix(uri[1:], host[1:len(host)-1]); found && rest[0] == '/' {
			return appendString(dst, append([]byte{'"'}, rest...)), f
		}
	}
	if uri[1] != '/' {
		return dst, none
	}
	return appendString(dst, uri), f
}}

// baseName is the last part of a path with either kind of slash.
var baseName = conversion{"the name at the end of the path", func(dst, value []byte) ([]byte, fit) {
	if value[0] != '"' {
		return dst, none
	}
	path, _ := unquoted(nil, value)
	name := path[bytes.LastIndexAny(path, `/\`)+1:]
	return appendText(dst, string(name)), min(part, fits(len(name) > 0))
}}

// smbActivity picks the activity from isCommandCreate, or from the method.
var smbActivity = picker{"3: `isCommandCreate`; 99: any other method", func(value []byte) (choice, fit) {
	switch {
	case string(value) == "true":
		return choice{3, "File Create"}, part
	case value[0] != '"' || isEmpty(value):
		return choice{}, none
	case string(value) == `"unknown"`:
		return choice{0, "Unknown"}, part
	}
	return choice{99, ""}, part
}}

// dnsActivity picks the activity from an array of what only responses have.
var dnsActivity = picker{"2: with answers, an error or the bytes of a response; 1: any other", func(value []byte) (choice, fit) {
	if value[0] == '[' {
		return choice{2, "Response"}, part
	}
	return choice{1, "Query"}, part
}}

// dnsCode picks the response code from an error, or from answers.
var dnsCode = func() picker {
	named := words(part, map[string]choice{
		"noerror": {0, "NoError"}, "formerr": {1, "FormError"}, "servfail": {2, "ServError"}, "nxdomain": {3, "NXDomain"}, "notimp": {4, "NotImp"},
		"refused": {5, "Refused"}, "yxdomain": {6, "YXDomain"}, "yxrrset": {7, "YXRRSet"}, "nxrrset": {8, "NXRRSet"}, "notauth": {9, "NotAuth"},
		"notzone": {10, "NotZone"}, "*": {99, ""},
	})
	return picker{named.name + "; 0: answers and no error", func(value []byte) (choice, fit) {
		if value[0] == '[' {
			return choice{0, "NoError"}, part
		}
		return named.choose(value)
	}}
}()

// answers converts answers: objects with data, or data alone.
var answers = conversion{"array, each an answer: `data`, `type`, `ttl`", func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst = append(dst, '[')
	all := whole
	for answer := range elements(value) {
		if string(answer) == "null" {
			continue
		}
		before := len(dst)
		dst = append(transform.AppendComma(dst), '{')
		var f fit
		if answer[0] != '{' {
			dst, f = appendField(dst, "rdata", text, answer)
		} else {
			dst, f = appendAnswer(dst, answer)
		}
		if all = min(all, max(f, part)); f == none {
			dst, all = dst[:before], part
			continue
		}
		dst = append(dst, '}')
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), all
}}

func appendAnswer(dst, answer []byte) ([]byte, fit) {
	var data, kind, ttl []byte
	f := whole
	for name, value := range jsonscan.Members(answer) {
		switch string(name) {
		case "data":
			data = value
		case "type":
			kind = value
		case "ttl":
			ttl = value
		default:
			f = part
		}
	}
	dst, of := appendField(dst, "rdata", text, data)
	if of == none {
		return dst, none
	}
	dst, ofKind := appendField(dst, "type", text, kind)
	dst, ofTTL := appendField(dst, "ttl", integer, ttl)
	if kind != nil && ofKind != whole || ttl != nil && ofTTL != whole {
		f = part
	}
	return dst, f
}

// recipients is an array of addresses, which may be empty if there are none at all.
var recipients = conversion{"array, each e-mail address", func(dst, value []byte) ([]byte, fit) {
	if string(value) == "[]" {
		return append(dst, value...), whole
	}
	return each(emailAddress).append(dst, value)
}}

// ntpStratum picks the kind of a stratum.
var ntpStratum = picker{"1: 1; 2: 2 to 15; 16: 16; 17: above; 0: 0", func(value []byte) (choice, fit) {
	switch n, ok := asInteger(value); {
	case !ok || n < 0:
		return choice{}, none
	case n == 0:
		return choice{0, "Unknown"}, whole
	case n == 1:
		return choice{1, "Primary Server"}, whole
	case n < 16:
		return choice{2, "Secondary Server"}, part
	case n == 16:
		return choice{16, "Unsynchronized"}, whole
	}
	return choice{17, "Reserved"}, part
}}
