package configs

import (
	"errors"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"ndrbridge/internal/secretfile"
)

// Headers are HTTP header fields by name. Their values are literal Secrets,
// whatever the names, since receivers take keys in headers of any name.
type Headers map[string]Secret

// UnmarshalText reads Name: value, with commas between several, which is how
// the environment holds headers. A value with a comma needs the file.
func (h *Headers) UnmarshalText(text []byte) error {
	headers := make(Headers)
	for _, part := range splitList(string(text)) {
		name, value, ok := strings.Cut(part, ":")
		if !ok {
			return errors.New("expected Name: value, with commas between several; a value with a comma needs the file")
		}
		headers[strings.TrimSpace(name)] = NewSecret(strings.TrimSpace(value))
	}
	*h = headers
	return nil
}

// headers checks the names and values of header fields.
func (c checks) headers(path string, headers Headers) {
	before := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name].value
		at := join(path, printable(name))
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			c.wrong(at, "is not the name of a header; write letters, digits and -")
		case value != nil && secretfile.HasControl(*value):
			c.wrong(at, "has a value with a line end or another control character; take it out")
		case before[canonical]:
			c.wrong(at, "is set twice in different letters; keep one of them")
		}
		before[canonical] = true
	}
}
