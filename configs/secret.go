package configs

import (
	"fmt"
	"io"
	"strings"

	"ndrbridge/internal/secretfile"
)

// hidden stands wherever a secret would.
const hidden = "***"

// Secret is a value that is never printed, or the path of the file that holds
// it. The zero Secret is unset. However one is printed, logged or encoded, it
// shows *** or the path.
type Secret struct {
	// A pointer, since fmt does not ask for methods, and prints what it finds,
	// where a verb does not fit or a struct holds this in an unexported field.
	value *string

	// File is the path of the file, empty for a literal value.
	File string `env:"FILE"`
}

// NewSecret is a Secret with a literal value; an empty one is unset.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// IsSet reports whether s has a value or a file.
func (s Secret) IsSet() bool { return s.value != nil || s.File != "" }

// Read gives the value, less the line ends at its end. A file is read again at every
// call, so that a secret may be changed under a running bridge. An unset Secret reads
// as empty. A file that is missing, empty, no regular file or above 1 MiB is an error,
// and so is a line break or another control character within a secret: no header, URL
// or password can hold one. The error names the file, and never shows the secret.
func (s Secret) Read() (string, error) {
	if s.value != nil {
		text := trimLineEnds(*s.value)
		if secretfile.HasControl(text) {
			return "", fmt.Errorf("read secret: the value %s", errBrokenSecret)
		}
		return text, nil
	}
	if s.File == "" {
		return "", nil
	}
	data, err := secretfile.Read(s.File)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := trimLineEnds(string(data))
	switch {
	case text == "":
		return "", fmt.Errorf("read secret: %s is empty", s.File)
	case secretfile.HasControl(text):
		return "", fmt.Errorf("read secret: %s %s", s.File, errBrokenSecret)
	}
	return text, nil
}

const errBrokenSecret = "has a line break or another control character within the secret: write the secret alone, on one line"

func trimLineEnds(text string) string { return strings.TrimRight(text, "\r\n") }

// String is *** for a value, the path for a file, empty for neither.
func (s Secret) String() string {
	if s.value != nil {
		return hidden
	}
	return s.File
}

// Format prints String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is String, so that JSON, YAML and slog show no more.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secrets are literal Secrets, in an order that may matter.
type Secrets []Secret

// UnmarshalText reads secrets with commas between them, which is how the
// environment holds them.
func (s *Secrets) UnmarshalText(text []byte) error {
	*s = nil
	for _, part := range splitList(string(text)) {
		*s = append(*s, NewSecret(part))
	}
	return nil
}

// UnmarshalText sets the value; it leaves File as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = NewSecret(string(text)).value
	return nil
}
