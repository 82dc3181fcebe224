package configs

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// URL is a URL, or several by comma, that may hold secrets. The zero URL is
// unset. However it is printed, logged or encoded, it shows its scheme and host alone:
// user names and passwords, the path, where chat services and others keep the key of a
// hook, and the query are hidden.
type URL struct {
	value *string // a pointer for the reason that Secret has
}

// NewURL is a URL of the text; an empty one is unset.
func NewURL(text string) URL {
	if text == "" {
		return URL{}
	}
	return URL{value: &text}
}

// Value is the whole text, its secrets included; empty for an unset URL.
func (u URL) Value() string {
	if u.value == nil {
		return ""
	}
	return *u.value
}

// String is u with its secrets hidden.
func (u URL) String() string {
	return u.shown(false)
}

// shown is String, with the path of a URL that has no secret in it by its kind.
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

// Format prints String, whatever the verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText is String, so that JSON, YAML and slog show no more.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText sets the text.
func (u *URL) UnmarshalText(text []byte) error {
	*u = NewURL(string(text))
	return nil
}
