package format

import (
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// findingActivity picks the activity from an array of the event's action and the status.
var findingActivity = picker{
	"3: status `closed`; 1: a new detection whose status is null or `new`; 2: any other",
	func(value []byte) (choice, fit) {
		v := elementsOf(value)
		action, status := v[0], v[1]
		switch {
		case string(status) == `"closed"`:
			return choice{3, "Close"}, part
		case string(action) == `"created"` && (status == nil || string(status) == `"new"`):
			return choice{1, "Create"}, part
		}
		return choice{2, "Update"}, part
	},
}

// statusDetail is a resolution, or a status that says more than its number.
var statusDetail = only(text, func(text []byte) bool {
	switch string(text) {
	case "new", "open", "in_progress", "closed":
		return false
	}
	return true
})

// tickets converts an array of a ticket's id and address.
var tickets = conversion{"a ticket of id and address", func(dst, value []byte) ([]byte, fit) {
	values := elementsOf(value)
	start := len(dst)
	dst = append(dst, `[{`...)
	dst, id := appendField(dst, "uid", text, values[0])
	dst, url := appendField(dst, "src_url", webURL, values[1])
	if len(dst) == start+len(`[{`) {
		return dst, none
	}
	f := whole
	for i, of := range []fit{id, url} {
		if of == none && values[i] != nil {
			f = part
		}
	}
	return append(dst, `}]`...), f
}}

// deviceEnrichments converts the appliance's own objects of devices.
var deviceEnrichments = conversion{"array, each a device by its id", func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst = append(dst, '[')
	for device := range elements(value) {
		if string(device) == "null" {
			continue
		}
		dst = append(transform.AppendComma(dst), `{"name":"detection.participants.object_id"`...)
		before := len(dst)
		if device[0] == '{' {
			dst, _ = appendField(dst, "value", text, lookup(device, "id"))
		}
		if len(dst) == before {
			dst = append(dst, `,"value":"unknown"`...)
		}
		dst, _ = appendField(dst, "data", raw, device)
		dst = append(dst, '}')
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), whole
}}

// elements yields the elements of an array, or a value that is none.
func elements(value []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if value[0] != '[' {
			yield(value)
			return
		}
		for element := range jsonscan.Elements(value) {
			if !yield(element) {
				return
			}
		}
	}
}
