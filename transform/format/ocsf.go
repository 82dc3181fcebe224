package format

import (
	"bytes"
	"strconv"
)

// classRows are the rows of a class of OCSF that name it, and the activity that pick selects
// from the first of the sources that it accepts.
func classRows(uid, name string, activity []string, pick picker) []row {
	return []row{
		{"class_uid", from("=#" + uid), verbatim},
		{"class_name", from("=" + name), text},
		{"activity_id", activity, pick.id()},
		{"activity_name", activity, pick.caption()},
		{"type_uid", activity, typeUID(number(uid), pick)},
		{"type_name", activity, typeName(name, pick)},
	}
}

func typeUID(class int, pick picker) conversion {
	return conversion{"the class times 100, and the activity", func(dst, value []byte) ([]byte, fit) {
		of, f := pick.choose(value)
		return strconv.AppendInt(dst, int64(class*100+of.id), 10), min(f, part)
	}}
}

func typeName(class string, pick picker) conversion {
	return conversion{"the class and the activity", func(dst, value []byte) ([]byte, fit) {
		of, f := pick.choose(value)
		name := of.name
		if name == "" {
			name = "Other"
		}
		return append(append(append(append(append(dst, '"'), class...), ": "...), name...), '"'), min(f, part)
	}}
}

// verbatim is a constant.
var verbatim = conversion{"as it is", func(dst, value []byte) ([]byte, fit) { return append(dst, value...), whole }}

// userName is the name of a user, or that of an object.
var userName = conversion{"text, or the `name` of an object", func(dst, value []byte) ([]byte, fit) {
	if value[0] != '{' {
		return text.append(dst, value)
	}
	return memberOf("name", text).append(dst, value)
}}

// protocolOfRecord is the type of a record without its tilde.
var protocolOfRecord = conversion{"text without the tilde", func(dst, value []byte) ([]byte, fit) {
	name, found := bytes.CutPrefix(value, []byte(`"~`))
	if !found || len(name) <= len(`"`) {
		return dst, none
	}
	return appendString(dst, append([]byte{'"'}, name...)), part
}}
