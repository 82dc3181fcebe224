package configs

import (
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"ndrbridge/internal/secretfile"
)

// Headers holds HTTP header fields by name. All values are literal Secrets, because
// receivers accept keys in headers of any name.
type Headers map[string]Secret

// UnmarshalText parses pairs "Name: value"; see parsePairs.
func (h *Headers) UnmarshalText(text []byte) (err error) {
	*h, err = parsePairs(string(text), "Name: value", NewSecret)
	return err
}

// parsePairs parses pairs that are separated by commas, which is the form of maps in
// environment variables. A value with a comma can be set only in the file.
func parsePairs[V any](text, form string, parse func(string) V) (map[string]V, error) {
	pairs := make(map[string]V)
	for _, part := range splitList(text) {
		name, value, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("expected %s pairs separated by commas; set a value that contains a comma in the file", form)
		}
		pairs[strings.TrimSpace(name)] = parse(strings.TrimSpace(value))
	}
	return pairs, nil
}

// headers checks the names and values of header fields.
func (c checks) headers(path string, headers Headers) {
	before := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name].value
		at := join(path, printable(name))
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !forms["header"].pattern.MatchString(name):
			c.wrong(at, "is not the name of a header; write letters, digits and -")
		case value != nil && secretfile.HasControl(*value):
			c.wrong(at, "has a value with a line end or another control character; remove it")
		case before[canonical]:
			c.wrong(at, "is set twice with different capitalization; keep one of them")
		}
		before[canonical] = true
	}
}
