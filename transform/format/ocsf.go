package format

import (
	"bytes"
	"cmp"
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
	return func(dst, value []byte) ([]byte, fit) {
		of, f := pick(value)
		if f == none {
			return dst, none
		}
		return strconv.AppendInt(dst, int64(class*100+number(of.json)), 10), part
	}
}

func typeName(class string, pick picker) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		of, f := pick(value)
		return appendText(dst, class+": "+cmp.Or(of.caption, "Other")), min(f, part)
	}
}

// verbatim is a constant.
var verbatim = conversion(func(dst, value []byte) ([]byte, fit) { return append(dst, value...), whole })

// userName is the name of a user, or that of an object.
var userName = conversion(func(dst, value []byte) ([]byte, fit) {
	if value[0] != '{' {
		return text(dst, value)
	}
	return memberOf("name", text)(dst, value)
})

// protocolOfRecord is the type of a record without its tilde.
var protocolOfRecord = conversion(func(dst, value []byte) ([]byte, fit) {
	name, found := bytes.CutPrefix(value, []byte(`"~`))
	if !found || len(name) <= len(`"`) {
		return dst, none
	}
	return appendString(dst, append([]byte{'"'}, name...)), part
})
