package configs

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

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
