package nats

import (
	"cmp"
	"strings"
)

// token returns subject with "_" in place of empty tokens and of characters that are not
// allowed in a token.
func token(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, text := range tokens {
		b := []byte(cmp.Or(text, "_"))
		for j := range b {
			if !allowed(b[j]) {
				b[j] = '_'
			}
		}
		tokens[i] = string(b)
	}
	return strings.Join(tokens, ".")
}

// allowed reports whether c may be part of a token.
func allowed(c byte) bool { return c > ' ' && c != 0x7f && c != '*' && c != '>' }

// filter returns the narrowest subject with wildcards that matches all subjects of a
// template. filled is the template filled with "*".
func filter(filled string) string {
	tokens := strings.Split(filled, ".")
	for i, text := range tokens {
		if strings.Contains(text, "*") {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// captures reports whether a stream's subject matches everything that filter matches.
func captures(stream, filter string) bool {
	want := strings.Split(filter, ".")
	have := strings.Split(stream, ".")
	for i, text := range have {
		switch {
		case text == ">":
			return i < len(want)
		case i >= len(want) || text != "*" && text != want[i]:
			return false
		}
	}
	return len(have) == len(want)
}
