package format

import (
	"bytes"
	"math"
	"net/netip"
	"slices"
	"strconv"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// The conversions of records' fields.

// addressVersion picks the version of an address.
var addressVersion = picker(func(value []byte) (choice, fit) {
	if value[0] != '"' || len(value) > len(`""`)+45 {
		return choice{}, none
	}
	a, err := netip.ParseAddr(string(value[1 : len(value)-1]))
	switch {
	case err != nil:
		return choice{}, none
	case a.Is4():
		return choice{"4", "Internet Protocol version 4 (IPv4)"}, part
	}
	return choice{"6", "Internet Protocol version 6 (IPv6)"}, part
})

// protocolName is the name of an IP protocol in lower case.
var protocolName = conversion(func(dst, value []byte) ([]byte, fit) { return text(dst, lower(bytes.Clone(value))) })

// tcpFlag are the bits of TCP's flags.
var tcpFlag = map[string]int64{"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ECE": 64, "CWR": 128}

// tcpFlags is a number, or an array of flags' names.
var tcpFlags = conversion(func(dst, value []byte) ([]byte, fit) {
	if value[0] != '[' {
		return integer(dst, value)
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
})

// duration is the time between two times in milliseconds.
var duration = conversion(func(dst, value []byte) ([]byte, fit) {
	times := elementsOf(value)
	if times[0] == nil || times[1] == nil {
		return dst, none
	}
	first, hasFirst := jsonscan.Millis(times[0])
	last, hasLast := jsonscan.Millis(times[1])
	return strconv.AppendInt(dst, last-first, 10), min(part, fits(hasFirst && hasLast && first <= last))
})

// rounded is a number without its fraction.
var rounded = scaled(1)

// secondsInMillis is a number of seconds in milliseconds.
var secondsInMillis = scaled(1000)

func scaled(by float64) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		digits := jsonscan.Number(value)
		n, err := strconv.ParseFloat(string(digits), 64)
		if n = math.Round(n * by); err != nil || math.Abs(n) >= 1<<53 {
			return dst, none
		}
		start := len(dst)
		dst = strconv.AppendInt(dst, int64(n), 10)
		return dst, max(part, fits(bytes.Equal(dst[start:], digits)))
	}
}

// httpMethod is a method that the schema knows.
var httpMethod = only(text, func(method []byte) bool {
	return slices.Contains([]string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}, string(method))
})

// uriPath converts a host and a URI, which may begin with the host, to the path.
var uriPath = conversion(func(dst, value []byte) ([]byte, fit) {
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
})

// baseName is the last part of a path with either kind of slash.
var baseName = conversion(func(dst, value []byte) ([]byte, fit) {
	if value[0] != '"' {
		return dst, none
	}
	path, _ := unquoted(nil, value)
	name := path[bytes.LastIndexAny(path, `/\`)+1:]
	return appendText(dst, string(name)), min(part, fits(len(name) > 0))
})

// answers converts answers: objects with data, or data alone.
var answers = conversion(func(dst, value []byte) ([]byte, fit) {
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
})

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
var recipients = conversion(func(dst, value []byte) ([]byte, fit) {
	if string(value) == "[]" {
		return append(dst, value...), whole
	}
	return each(emailAddress)(dst, value)
})
