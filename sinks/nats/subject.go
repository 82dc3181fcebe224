package nats

import (
	"cmp"
	"strings"
)

// token returns subject with "_" in place of empty tokens and of characters that are not
// allowed in a token.
func token(subject string) string {
	subject = strings.Map(func(c rune) rune {
		if c <= ' ' || c == 0x7f || c == '*' || c == '>' {
			return '_'
		}
		return c
	}, subject)
	if !strings.Contains("."+subject+".", "..") {
		return subject // usually
	}
	tokens := strings.Split(subject, ".")
	for i, text := range tokens {
		tokens[i] = cmp.Or(text, "_")
	}
	return strings.Join(tokens, ".")
}

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
