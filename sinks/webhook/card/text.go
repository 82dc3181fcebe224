package card

import (
	"strings"
	"unicode/utf16"
)

// Escaper writes one character so that a service shows it and does nothing else.
// It must not depend on what stands around the character.
type Escaper func(c rune) string

// Ellipsis ends a text that was cut short.
const Ellipsis = "…"

// Fit escapes text and cuts it, where that is longer than limit, between two
// characters, never within an escape. Lengths are UTF-16 code units, which is
// what services count, or more than that. limit is 1 at least.
func Fit(text string, limit int, escape Escaper) string {
	var b strings.Builder
	length := 0
	short := 0 // bytes behind which an ellipsis fits
	for _, c := range text {
		piece := escape(c)
		units := Length(piece)
		if length+units > limit {
			return b.String()[:short] + Ellipsis
		}
		b.WriteString(piece)
		if length += units; length+Length(Ellipsis) <= limit {
			short = b.Len()
		}
	}
	return b.String()
}

// Plain is the Escaper of places where nothing is read into a text.
func Plain(c rune) string { return string(c) }

// Length is the number of UTF-16 code units of text.
func Length(text string) int {
	n := 0
	for _, c := range text {
		n += utf16.RuneLen(c)
	}
	return n
}
