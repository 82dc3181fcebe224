package configs

import (
	"fmt"
	"io"
	"strings"

	"ndrbridge/internal/secretfile"
)

// hidden is printed instead of a secret.
const hidden = "***"

// Secret is a secret value, or the path of a file with the value. The zero Secret is unset.
// Whenever a Secret is printed, logged or encoded, it shows *** or the path.
type Secret struct {
	// A pointer, because fmt prints fields without calling methods if a verb does not
	// match, or if a Secret is in an unexported field.
	value *string

	// File is the path of the file, or empty for a literal value.
	File string `env:"FILE"`
}

// NewSecret returns a Secret with a literal value. If value is empty, the Secret is unset.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// IsSet reports whether s has a value or a file.
func (s Secret) IsSet() bool { return s.value != nil || s.File != "" }

// Read returns the value without trailing line ends, or "" if s is unset. It reads a file
// at every call, so that a secret can be changed while the bridge is running. It returns
// an error if the file is missing, empty, not a regular file, or larger than 1 MiB, or if
// the secret contains a line break or another control character, which no header, URL or
// password can contain. The error names the file and never contains the secret.
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

const errBrokenSecret = "has a line break or another control character within the secret: write only the secret, on one line"

func trimLineEnds(text string) string { return strings.TrimRight(text, "\r\n") }

// String returns *** for a literal value, the path for a file, or "" if s is unset.
func (s Secret) String() string {
	if s.value != nil {
		return hidden
	}
	return s.File
}

// Format prints String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText returns String, so that JSON, YAML and slog do not show the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secrets is a list of literal Secrets. Their order may matter.
type Secrets []Secret

// UnmarshalText parses secrets that are separated by commas, which is their form in an
// environment variable.
func (s *Secrets) UnmarshalText(text []byte) error {
	*s = nil
	for _, part := range splitList(string(text)) {
		*s = append(*s, NewSecret(part))
	}
	return nil
}

// UnmarshalText sets the value and leaves File unchanged.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = NewSecret(string(text)).value
	return nil
}
