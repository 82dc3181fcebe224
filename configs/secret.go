package configs

import (
	"fmt"
	"io"
	"net/url"
	"regexp"
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
	File string
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

// inQuotes and named match the content of a file that is more than a secret.
var (
	inQuotes = regexp.MustCompile(`^(".*"|'.*')\s*$`)
	named    = regexp.MustCompile(`^(?i:(export +)?(ndrbridge_\w+|api_?key|key|(client_)?secret|(bearer_|access_)?token|password) *[:=] *\S)`)
)

// Read returns the value without trailing line ends and byte order mark, or "" if s is unset. It reads a file
// at every call, so that a secret can be changed while the bridge is running. It returns
// an error if the file is missing, empty, not a regular file, or larger than 1 MiB, or if
// the secret contains a line break or another control character, which no header, URL or
// password can contain. The error names the file and never contains the secret.
func (s Secret) Read() (string, error) {
	text, origin := "", "the value"
	if s.value != nil {
		text = *s.value
	} else if s.File != "" {
		data, err := secretfile.Read(s.File)
		if err != nil {
			return "", err
		}
		text, origin = strings.TrimPrefix(string(data), "\ufeff"), s.File
	}
	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "" && s.value == nil && s.File != "":
		return "", contentError(origin + " is empty; write the secret into it")
	case secretfile.HasControl(text):
		return "", contentError(origin + " has a line break or another control character within the secret; write only the secret, on one line")
	case s.File != "" && inQuotes.MatchString(text):
		return "", contentError(origin + " has the secret in quotes; write only the secret, without them")
	case s.File != "" && named.MatchString(text):
		return "", contentError(origin + " has a name before the secret; write only the secret, without the name")
	}
	return text, nil
}

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

// UnmarshalText sets the value and leaves File unchanged.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = NewSecret(string(text)).value
	return nil
}

// URL is a URL that may contain secrets, or several separated by commas. The zero URL is
// unset. Whenever it is printed, logged or encoded, it shows only its scheme and host. The
// user name, the password, the query and the path are hidden, because the path may contain
// a key, for example of a chat service.
type URL struct {
	value *string // a pointer for the same reason as in Secret
}

// NewURL returns a URL with this text. If text is empty, the URL is unset.
func NewURL(text string) URL {
	if text == "" {
		return URL{}
	}
	return URL{value: &text}
}

// Value returns the full text with its secrets, or "" if u is unset.
func (u URL) Value() string {
	if u.value == nil {
		return ""
	}
	return *u.value
}

// String returns u with its secrets hidden.
func (u URL) String() string { return u.shown(false) }

// shown returns u with its secrets hidden. The path is shown if withPath is true.
func (u URL) shown(withPath bool) string {
	if u.value == nil {
		return ""
	}
	parts := strings.Split(*u.value, ",")
	for i, part := range parts {
		parts[i] = hideURL(strings.TrimSpace(part), withPath)
	}
	return strings.Join(parts, ",")
}

// hasUser reports whether u contains a user name.
func (u URL) hasUser() bool {
	parsed, err := url.Parse(u.Value())
	return err == nil && parsed.User != nil
}

func hideURL(text string, withPath bool) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		return hidden
	}
	var b strings.Builder
	b.WriteString(parsed.Scheme + "://")
	if parsed.User != nil {
		b.WriteString(hidden + "@")
	}
	b.WriteString(parsed.Host)
	if path := parsed.EscapedPath(); strings.Trim(path, "/") != "" && !withPath {
		b.WriteString("/" + hidden)
	} else {
		b.WriteString(path)
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		b.WriteString("?" + hidden)
	}
	return b.String()
}

// Format prints String for every verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText returns String, so that JSON, YAML and slog do not show secrets.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText sets the text.
func (u *URL) UnmarshalText(text []byte) error {
	*u = NewURL(string(text))
	return nil
}

// hosts returns the hosts of u and their ports. It leaves out what is not a URL.
func (u URL) hosts() string {
	var hosts []string
	for text := range strings.SplitSeq(u.Value(), ",") {
		if parsed, err := url.Parse(strings.TrimSpace(text)); err == nil && parsed.Host != "" {
			hosts = append(hosts, parsed.Host)
		}
	}
	return strings.Join(hosts, ", ")
}
