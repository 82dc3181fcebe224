package syslog

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/transform"
)

// The lengths of the header's fields (RFC 5424, section 6).
const (
	maxHostname = 255
	maxAppName  = 48
	maxMsgID    = 32
)

// structuredData is the id of the messages' structured data. The number is the one that RFC
// 5612 reserves for examples and documentation, because the bridge has no enterprise number
// of its own.
const structuredData = "ndrbridge@32473"

// Facilities are the names of the facilities, in the order of their numbers: 0 to 11, and 16
// to 23 for the last eight.
var facilities = [...]string{
	"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
	"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

func facilityOf(name string) int {
	i := slices.Index(facilities[:], name)
	if i >= 12 {
		i += 4 // 12 to 15 have no common names
	}
	return i
}

// The severities of detections' events: notice, warning, error, critical; others are
// informational.
var severities = [...]int{5, 5, 4, 3, 2}

const informational = 6

func severityOf(e transform.Event) int {
	if s, found := e.Severity(); found {
		return severities[s]
	}
	return informational
}

// message encodes events as messages of RFC 5424.
type message struct {
	facility int
	names    string // HOSTNAME, APP-NAME and PROCID, with the spaces around them
	framing  string // empty: none
	maxBytes int
}

func newMessage(o Options) message {
	m := message{names: " " + o.Hostname + " " + o.AppName + " - ", framing: o.Framing, maxBytes: o.MaxBytes}
	m.facility = facilityOf(o.Facility)
	if o.Network == networkUDP {
		m.framing = ""
	}
	return m
}

// append appends the message of an event. MSG is the event's payload on one line. It has no
// byte order mark: it is MSG-ANY in the terms of RFC 5424, section 6.4, although it is UTF-8,
// because receivers of CEF, LEEF and JSON expect these at the beginning of MSG.
func (m *message) append(b []byte, e transform.Event) []byte {
	b = append(b, '<')
	b = strconv.AppendInt(b, int64(m.facility*8+severityOf(e)), 10)
	b = append(b, ">1 "...)
	b = appendTime(b, e.When())
	b = append(b, m.names...)
	b = append(b, printable(e.Action(), maxMsgID)...)
	b = append(b, " ["+structuredData...)
	b = appendParameter(b, "id", e.ID)
	b = appendParameter(b, "source", e.Source)
	b = appendParameter(b, "type", e.Type)
	b = append(b, "] "...)
	b = transform.AppendLine(b, e.Payload())
	return b[:len(b)-1]
}

// appendFrame appends a message in its frame.
func (m *message) appendFrame(b, message []byte) []byte {
	if m.framing == octetCounting {
		b = strconv.AppendInt(b, int64(len(message)), 10)
		b = append(b, ' ')
	}
	b = append(b, message...)
	if m.framing == newline {
		b = append(b, '\n')
	}
	return b
}

// appendTime appends a TIMESTAMP, or the nil value for a time that is unknown or that RFC
// 3339 cannot represent.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return append(b, '-')
	}
	return transform.AppendTime(b, t)
}

// appendParameter appends an SD-PARAM. Control characters in the value become spaces: they
// would end a line or confuse terminals.
func appendParameter(b []byte, name, value string) []byte {
	b = append(b, ' ')
	b = append(b, name...)
	b = append(b, `="`...)
	for i := range len(value) {
		switch c := value[i]; {
		case c == '"' || c == '\\' || c == ']':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// printable returns the first most bytes of a text, with _ for every character that is not
// PRINTUSASCII, or the nil value for an empty text.
func printable(text string, most int) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}, text[:min(len(text), most)])
}
