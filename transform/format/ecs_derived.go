package format

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// detectionCategory is event.category: network for performance, else intrusion_detection
// and network, with malware for some categories.
var detectionCategory = conversion(func(dst, value []byte) ([]byte, fit) {
	var performance, other, malware bool
	for category := range jsonscan.Elements(value) {
		switch {
		case string(category) == `"perf"` || bytes.HasPrefix(category, []byte(`"perf.`)):
			performance = true
		default:
			other = true
			malware = malware || string(category) == `"sec.ransomware"` || string(category) == `"sec.cryptomining"`
		}
	}
	switch {
	case malware:
		return appendNames(dst, "intrusion_detection", "malware", "network"), part
	case performance && !other:
		return appendNames(dst, "network"), part
	}
	return appendNames(dst, "intrusion_detection", "network"), part
})

// ruleCategory is the first category that is not a group of categories, else the first.
var ruleCategory = conversion(func(dst, value []byte) ([]byte, fit) {
	var first []byte
	for category := range jsonscan.Elements(value) {
		switch {
		case category[0] != '"' || len(category) == len(`""`):
		case bytes.IndexByte(category, '.') > 0:
			return appendString(dst, category), part
		case first == nil:
			first = category
		}
	}
	if first == nil {
		return dst, none
	}
	return appendString(dst, first), part
})

// portOfEndpoint converts the endpoint of a participant, that of its peer, the client's
// port and the server's: to the participant's port if it is the client or the server and
// its peer the other, or unknown.
var portOfEndpoint = conversion(func(dst, value []byte) ([]byte, fit) {
	v := elementsOf(value)
	number := v[2]
	switch own, peer := string(v[0]), string(v[1]); {
	case own == `"client"` && (peer == `"server"` || peer == ""):
	case own == `"server"` && (peer == `"client"` || peer == ""):
		number = v[3]
	default:
		return dst, none
	}
	if number == nil {
		return dst, none
	}
	dst, f := port(dst, number)
	return dst, min(f, part)
})

// sum is a number, or the sum of an array of numbers.
var sum = conversion(func(dst, value []byte) ([]byte, fit) {
	if value[0] != '[' {
		return integer(dst, value)
	}
	total := int64(0)
	for element := range jsonscan.Elements(value) {
		n, ok := asInteger(element)
		if !ok || n < 0 || n > math.MaxInt64-total {
			return dst, none
		}
		total += n
	}
	return strconv.AppendInt(dst, total, 10), part
})

var transportProtocols = map[string]string{
	"tcp": "tcp", "udp": "udp", "icmp": "icmp", "icmp6": "ipv6-icmp", "icmpv6": "ipv6-icmp", "ipv6-icmp": "ipv6-icmp",
	"sctp": "sctp", "gre": "gre", "esp": "esp", "ah": "ah", "igmp": "igmp", "ospf": "ospf", "eigrp": "eigrp", "pim": "pim",
	"vrrp": "vrrp", "ipip": "ipip", "l2tp": "l2tp",
}

var (
	// transportProtocol is the name of a protocol above IP.
	transportProtocol = derived(func(text string) string { return transportProtocols[text] })
	// applicationProtocol is any other protocol, in lower case.
	applicationProtocol = derived(func(text string) string {
		if transportProtocols[text] != "" {
			return ""
		}
		return text
	})
	// protocolOfType is the protocol of a record's type, such as ~ssh.
	protocolOfType = derived(func(text string) string {
		name, found := strings.CutPrefix(text, "~")
		if !found || name == "detection" {
			return ""
		}
		return name
	})
	// networkType is that of an address.
	networkType = conversion(func(dst, value []byte) ([]byte, fit) {
		version, f := addressVersion(value)
		return appendText(dst, "ipv"+version.json), f
	})
)

// The conversions of fields of HTTP. The status 0 stands for a request without a response.
var (
	httpStatus = integerIn(1, math.MaxInt64)
	mimeType   = derived(func(text string) string {
		name, _, _ := strings.Cut(text, ";")
		return strings.TrimSpace(name)
	})
	// urlPath is the path of a URI that may begin with a host.
	urlPath = conversion(func(dst, value []byte) ([]byte, fit) {
		text, ok := unquoted(nil, value)
		at := strings.IndexByte(string(text), '/')
		if !ok || value[0] != '"' || at < 0 {
			return dst, none
		}
		return appendText(dst, string(text[at:])), part
	})
)

// The conversions of a version such as TLSv1.3.
var (
	tlsVersion = derived(func(text string) string {
		_, number := cutVersion(text)
		return number
	})
	tlsProtocol = derived(func(text string) string {
		protocol, _ := cutVersion(text)
		return protocol
	})
)

func cutVersion(text string) (protocol, number string) {
	protocol, number, _ = strings.Cut(text, "v")
	if protocol != "tls" && protocol != "ssl" && protocol != "dtls" || strings.Trim(number, "0123456789.") != "" {
		return "", ""
	}
	return protocol, number
}

// dnsAnswers are objects of the fields of dns.answers. An answer that is a text is its data.
var dnsAnswers = conversion(func(dst, value []byte) ([]byte, fit) {
	if value[0] != '[' {
		return dst, none
	}
	dst, f := append(dst, '['), whole
	empty := len(dst)
	for element := range jsonscan.Elements(value) {
		before := len(dst)
		dst = append(transform.AppendComma(dst), '{')
		start := len(dst)
		if element[0] == '"' {
			dst, _ = text(append(dst, `"data":`...), element)
		}
		var seen string
		for name, member := range jsonscan.Members(element) {
			as := text
			switch name := string(name); {
			case string(member) == "null":
				continue
			case strings.Contains(seen, " "+name+" "):
				f = part
				continue
			case name == "ttl":
				as = integer
			case name != "name" && name != "type" && name != "class" && name != "data":
				f = part
				continue
			}
			seen += " " + string(name) + " "
			from := len(dst)
			dst = append(append(append(transform.AppendComma(dst), '"'), name...), `":`...)
			var of fit
			if dst, of = as(dst, member); of == none {
				dst, f = dst[:from], part
			}
		}
		if len(dst) == start {
			dst, f = dst[:before], part
			continue
		}
		dst = append(dst, '}')
	}
	if len(dst) == empty {
		return dst, none
	}
	return append(dst, ']'), f
})

// The words of operations of the audit log.
var (
	deletionWords = []string{"delete", "remove", "revoke", "purge", "unlink"}
	creationWords = []string{"create", "add", "generate", "upload", "import", "new"}
	changeWords   = []string{
		"modify", "modified", "modifies", "change", "update", "edit", "set", "reset", "enable", "disable", "assign", "unassign", "apply",
		"applied", "applies", "rename", "upgrade", "replace", "restore", "start", "stop", "restart", "shutdown", "lock", "unlock",
	}
	accessWords = []string{"view", "read", "get", "list", "search", "download", "export", "access", "open"}
)

// effect returns what an operation, in lower case, does: deletion, creation, change,
// access or info.
func effect(operation string) string {
	words := strings.FieldsFunc(operation, func(r rune) bool { return r < 'a' || 'z' < r })
	for _, known := range []struct {
		effect string
		words  []string
	}{{"deletion", deletionWords}, {"creation", creationWords}, {"change", changeWords}, {"access", accessWords}} {
		for _, word := range words {
			for _, w := range known.words {
				if word == w || word == w+"d" || word == w+"s" || word == w+"ed" || word == strings.TrimSuffix(w, "e")+"ing" {
					return known.effect
				}
			}
		}
	}
	return "info"
}

// lowerText returns a text of reasonable length in lower case, "" for anything else.
func lowerText(value []byte) string {
	if len(value) == 0 || len(value) > 4*maxSelected {
		return ""
	}
	text, _ := unquoted(nil, value)
	return string(lower(text))
}

// The conversions of operations to event.type.
var (
	configurationType = conversion(func(dst, value []byte) ([]byte, fit) {
		return appendNames(dst, effect(lowerText(value))), part
	})
	// iamType converts the operation and the component.
	iamType = conversion(func(dst, value []byte) ([]byte, fit) {
		v := elementsOf(value)
		kind, object := effect(lowerText(v[0])), "user"
		if kind == "access" {
			kind = "info"
		}
		if strings.Contains(lowerText(v[1]), "group") {
			object = "group"
		}
		return appendNames(dst, object, kind), part
	})
)

// ownAction is the type of an own event without its prefix, such as audit.gap.
var ownAction = conversion(func(dst, value []byte) ([]byte, fit) {
	text, _ := unquoted(nil, value)
	names := strings.Split(string(text), ".")
	names = names[max(0, len(names)-2):]
	if names[len(names)-1] == "heartbeat" {
		names = names[len(names)-1:]
	}
	return appendText(dst, strings.Join(names, ".")), part
})
