package configs

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// URL is a URL, or several by comma, that may hold secrets. The zero URL is
// unset. However it is printed, logged or encoded, it hides user names and
// passwords, its query, and long parts of its path, which is where chat
// services keep the key of a hook.
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

// longSegment is the length from which on a part of a path is taken for a key.
const longSegment = 20

// String is u with its secrets hidden.
func (u URL) String() string {
	if u.value == nil {
		return ""
	}
	parts := strings.Split(*u.value, ",")
	for i, part := range parts {
		parts[i] = hideURL(strings.TrimSpace(part))
	}
	return strings.Join(parts, ",")
}

func hideURL(text string) string {
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
	segments := strings.Split(parsed.EscapedPath(), "/")
	for i, segment := range segments {
		if len(segment) >= longSegment {
			segments[i] = hidden
		}
	}
	b.WriteString(strings.Join(segments, "/"))
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
