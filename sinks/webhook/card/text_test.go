package card_test

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/card"
	"ndrbridge/test/assert"
)

// wide writes some characters as several, as escapers do.
func wide(c rune) string {
	if c == '&' {
		return "[amp]"
	}
	return string(c)
}

func TestATextIsCutBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		name, text string
		limit      int
		want       string
	}{
		{"what fits is whole", "abc", 3, "abc"},
		{"what does not ends with an ellipsis", "abcd", 3, "ab…"},
		{"an escape is whole or not there", "a&b", 6, "a…"},
		{"an escape at the end fits", "a&", 6, "a[amp]"},
		{"two units of one character count as two", "a😀b", 3, "a…"},
		{"no space for a character", "&&", 1, "…"},
		{"nothing is nothing", "", 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, card.Fit(test.text, test.limit, wide), test.want)
		})
	}
}

func TestAFittedTextIsABeginning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab&😀漢é\u0301"))).Draw(t, "text")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		fitted := card.Fit(text, limit, wide)
		if n := len(utf16.Encode([]rune(fitted))); n > limit || !utf8.ValidString(fitted) || card.Length(fitted) != n {
			t.Fatalf("%q: %d units", fitted, n)
		}
		read, cut := strings.CutSuffix(strings.ReplaceAll(fitted, "[amp]", "&"), card.Ellipsis)
		if !strings.HasPrefix(text, read) || !cut && read != text {
			t.Fatalf("%q of %q", fitted, text)
		}
		if whole := len(utf16.Encode([]rune(strings.ReplaceAll(text, "&", "[amp]")))); cut == (whole <= limit) {
			t.Fatalf("%q was cut: %v", text, cut)
		}
	})
}
