package card

import (
	"strings"
	"unicode/utf16"
)

// Escaper returns a character escaped so that a service displays it literally. The
// result must not depend on the characters around it.
type Escaper func(c rune) string

// Ellipsis ends a truncated text.
const Ellipsis = "…"

// Fit escapes text and truncates it to limit, between two characters and never within
// an escape sequence. Lengths are in UTF-16 code units, which is what services count,
// or more than they count. limit must be at least 1.
func Fit(text string, limit int, escape Escaper) string {
	var b strings.Builder
	length := 0
	short := 0 // length in bytes at which an ellipsis still fits
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

// Plain is the Escaper for fields without markup.
func Plain(c rune) string { return string(c) }

// Length returns the number of UTF-16 code units of text.
func Length(text string) int {
	n := 0
	for _, c := range text {
		n += utf16.RuneLen(c)
	}
	return n
}
