package configs

import (
	"maps"
	"net/textproto"
	"slices"

	"ndrbridge/internal/secretfile"
)

// headers checks the names and values of header fields.
func (c checks) headers(path string, headers map[string]Secret) {
	before := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name].value
		at := join(path, printable(name))
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !forms["header"].pattern().MatchString(name):
			c.wrong(at, "is not the name of a header; write letters, digits and -")
		case value != nil && secretfile.HasControl(*value):
			c.wrong(at, "has a value with a line end or another control character; remove it")
		case before[canonical]:
			c.wrong(at, "is set twice with different capitalization; keep one of them")
		}
		before[canonical] = true
	}
}
