package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add("Sun Nov  6 08:49:37 1994", "never")
	f.Add("-1", "")
	f.Add("18446744073709551616", "")
	now := time.Date(2026, 10, 21, 7, 28, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, date string) {
		wait, ok := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, now)
		if wait < 0 || wait > maxWait || !ok && wait != 0 {
			t.Errorf("%q with date %q: wait %v, %v", text, date, wait, ok)
		}
	})
}

func TestAnExcerptNeverShowsASecretWhereverItStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Neither letter is in the text around, so that any part of it shows.
		secret := strings.Repeat(rapid.StringMatching(`[XY]{1,5}`).Draw(t, "secret"), rapid.IntRange(1, 600).Draw(t, "repeated"))
		pad := rapid.SampledFrom([]string{" ", ".", "é", "\n", "\x00", "."})
		var answer strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "times") {
			answer.WriteString(strings.Repeat(pad.Draw(t, "pad"), rapid.IntRange(0, 1500).Draw(t, "length")))
			answer.WriteString(secret)
		}
		got := hiding([]string{secret}).excerpt(strings.NewReader(answer.String()))
		if strings.ContainsAny(got, "XY") {
			t.Fatalf("a secret of %d bytes shows: %q", len(secret), got)
		}
		if utf8.RuneCountInString(got) > maxExcerpt || strings.ContainsFunc(got, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Fatalf("excerpt %q", got)
		}
	})
}
