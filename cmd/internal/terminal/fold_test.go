package terminal

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"a text that fits", "one two", 7, []string{"one two"}},
		{"a break between words", "one two three", 8, []string{"one two", "  three"}},
		{"a break at a blank", "one two three", 7, []string{"one two", "  three"}},
		{"a word that is too long", "https://a.example/b", 8, []string{"https://", "  a.exam", "  ple/b"}},
		{"the indent of the text itself", "  one two", 6, []string{"  one", "  two"}},
		{"characters of several bytes", "… äöü ß", 5, []string{"… äöü", "  ß"}},
		{"no text", "", 5, []string{""}},
		{"no width", "ab", 0, []string{"a", "  b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Fold(test.text, test.width, "  "); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	t.Run("nothing but blanks is lost, and each line fits", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab ß")), 0, 60, -1).Draw(t, "text")
		width := rapid.IntRange(3, 20).Draw(t, "width")
		lines := Fold(text, width, "  ")
		without := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if without(strings.Join(lines, "")) != without(text) {
			t.Fatalf("%q", lines)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Fatalf("%q is longer than %d", line, width)
			}
		}
	}))
}
