package format

import (
	"iter"
	"slices"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// tickets converts an array of a ticket's id and address.
var tickets = conversion(func(dst, value []byte) ([]byte, fit) {
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
})

// deviceEnrichments converts the appliance's own objects of devices.
var deviceEnrichments = conversion(func(dst, value []byte) ([]byte, fit) {
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
})

// elements returns the elements of an array, or a value that is none; of nil there are none.
func elements(value []byte) iter.Seq[[]byte] {
	if value == nil || value[0] == '[' {
		return jsonscan.Elements(value)
	}
	return slices.Values([][]byte{value})
}
