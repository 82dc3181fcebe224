// Package redact takes secrets out of texts that others wrote: a server may
// repeat in its answer what it was sent.
package redact

import (
	"cmp"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secrets are words that no error may show. The zero value hides nothing. They
// are safe for concurrent use.
type Secrets struct {
	replacer *strings.Replacer
	longest  int
}

// New makes secrets of words, in the forms that a server could repeat them in:
// as they are, percent-encoded, and escaped for JSON, Go or HTML. Empty words do
// not count.
func New(words ...string) Secrets {
	forms := make([]string, 0, 6*len(words))
	for _, word := range words {
		if word == "" {
			continue
		}
		object, _ := json.Marshal(word) // a string cannot fail
		quoted := strconv.Quote(word)
		forms = append(forms, word, url.QueryEscape(word), url.PathEscape(word), html.EscapeString(word),
			string(object[1:len(object)-1]), quoted[1:len(quoted)-1])
	}
	// The replacer prefers what comes first, and a whole is to be found before
	// its part.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var s Secrets
	var pairs []string
	for _, form := range slices.Compact(forms) {
		s.longest = max(s.longest, len(form))
		pairs = append(pairs, form, "[redacted]")
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

// Hide returns the text with "[redacted]" in the place of every secret. Part of
// a secret is not recognised: a text is to be cut short after this, not before.
func (s Secrets) Hide(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// Longest is the number of bytes of the longest form of a secret.
func (s Secrets) Longest() int { return s.longest }
