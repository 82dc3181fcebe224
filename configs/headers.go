package configs

import (
	"errors"
	"strings"
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

// speaksOfSecret tells whether a header of that name as a rule holds a secret.
func speaksOfSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "key", "token", "cookie", "secret", "passw", "credential", "signature", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
