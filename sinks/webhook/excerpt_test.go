package webhook

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ndrbridge/internal/redact"
	"ndrbridge/test/require"
)

func TestAnExcerptNeverShowsASecretWhereverItStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Neither dead letter is in the text around, so that any part of it shows.
		secret := strings.Repeat(rapid.StringMatching(`[XY]{4,8}`).Draw(t, "secret"), rapid.IntRange(1, 600).Draw(t, "repeated"))
		pad := rapid.SampledFrom([]string{" ", ".", "é", "\n", "\x00", "."})
		var answer strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "times") {
			answer.WriteString(strings.Repeat(pad.Draw(t, "pad"), rapid.IntRange(0, 1500).Draw(t, "length")))
			answer.WriteString(secret)
		}
		got := excerpt(strings.NewReader(answer.String()), redact.New(secret))
		require.True(t, !strings.ContainsAny(got, "XY"), "a secret of", len(secret), "bytes shows", got)
		require.True(t, utf8.RuneCountInString(got) <= maxExcerpt && !strings.ContainsFunc(got, func(c rune) bool { return !unicode.IsPrint(c) }), "excerpt", got)
	})
}
