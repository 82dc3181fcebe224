package format

import (
	"slices"
	"strconv"

	"ndrbridge/transform"
)

// ocsfVersion is the version of the schema, https://schema.ocsf.io/1.8.0.
const ocsfVersion = "1.8.0"

// ocsfTables returns the tables of OCSF.
func ocsfTables(o Options) []table {
	return slices.Concat([]table{ocsfDetection(o)}, ocsfAudit(o), ocsfRecords(o), []table{ocsfEvent(o)})
}

// ocsfClass is an event class.
type ocsfClass struct {
	uid          int
	name         string
	category     int
	categoryName string
	activities   map[int]string // but 0, Unknown, and 99, Other
	profiles     string         // a JSON array; empty if none is used
	stream       string
	where        condition
}

// table returns the table of a class: the fields that all classes have, those of the
// activity, which pick selects from the first of the sources that it accepts, and rows.
func (c ocsfClass) table(o Options, pick picker, activity []string, rows ...[]row) table {
	common := []row{
		{"metadata.version", from("=" + ocsfVersion), text},
		{"metadata.uid", from("event.id"), text},
		{"metadata.product.name", from("=ndrbridge"), text},
		{"metadata.product.vendor_name", from("=ndrbridge"), text},
		{"metadata.product.version", from("=" + o.Version), text},
		{"metadata.logged_time", from("event.recordedtime"), millis},
		{"metadata.type", from("event.type"), text},
		{"metadata.source", from("event.source"), text},
		{"metadata.reporter.name!", from("event.appliance"), text},
		{"metadata.labels", from("event.causedby"), each(text)},
		{"time", from("event.when", "=#0"), millis},
		{"class_uid", from("=#" + strconv.Itoa(c.uid)), verbatim},
		{"class_name", from("=" + c.name), text},
		{"category_uid", from("=#" + strconv.Itoa(c.category)), verbatim},
		{"category_name", from("=" + c.categoryName), text},
		{"activity_id", activity, pick.id()},
		{"activity_name", activity, pick.caption()},
		{"type_uid", activity, c.typeUID(pick)},
		{"type_name", activity, c.typeName(pick)},
	}
	if c.profiles != "" {
		common = append(common, row{"metadata.profiles", from("=#" + c.profiles), verbatim})
	}
	return table{
		name: c.name + " (" + strconv.Itoa(c.uid) + ")", stream: c.stream, where: c.where, rest: "unmapped",
		rows: append(common, slices.Concat(rows...)...),
	}
}

func (c ocsfClass) typeUID(pick picker) conversion {
	return conversion{"the class times 100, and the activity", func(dst, value []byte) ([]byte, fit) {
		of, f := pick.choose(value)
		return strconv.AppendInt(dst, int64(c.uid*100+of.id), 10), min(f, part)
	}}
}

func (c ocsfClass) typeName(pick picker) conversion {
	return conversion{"the class and the activity", func(dst, value []byte) ([]byte, fit) {
		of, f := pick.choose(value)
		name, found := c.activities[of.id]
		switch {
		case found:
		case of.id == 0:
			name = "Unknown"
		default:
			name = "Other"
		}
		return append(append(append(append(append(dst, '"'), c.name...), ": "...), name...), '"'), min(f, part)
	}}
}

// verbatim is a constant.
var verbatim = conversion{"as it is", func(dst, value []byte) ([]byte, fit) { return append(dst, value...), whole }}

// informational are the fields of an event that is no alert.
var informational = []row{
	{"severity_id", from("=#1"), verbatim},
	{"severity", from("=Informational"), text},
}

// ocsfEvent is the class of the bridge's own events, and of any other.
func ocsfEvent(o Options) table {
	class := ocsfClass{
		uid: 0, name: "Base Event", categoryName: "Uncategorized",
		stream: transform.StreamEvents,
	}
	severity := words(part, map[string]choice{
		"heartbeat": {1, "Informational"}, "reachable": {1, "Informational"}, "applied": {1, "Informational"},
		"rejected": {3, "Medium"}, "gap": {4, "High"}, "unreachable": {4, "High"}, "skipped": {4, "High"},
		"*": {1, "Informational"},
	})
	action := from("event.action", "=other")
	return class.table(o, words(part, map[string]choice{"*": {99, ""}}), action, siblings("severity_id", "severity", severity, action...), []row{
		{"message", from("ticket.reason", "appliance.reason", "gap.explanation", "skipped.reason", "event.type"), text},
	})
}
