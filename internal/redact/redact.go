// Package redact removes secrets from text from other systems: a server may repeat the
// request in its answer. The bridge's own sentences contain none and are not redacted: a
// secret that is a common word would garble them, and show itself by that.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secrets are words that must not appear in errors. The zero value hides nothing.
// Secrets are safe for concurrent use.
type Secrets struct {
	plain    []string // forms of the secrets, except base64
	replacer *strings.Replacer
	longest  int
}

// minLength is the length of the shortest word that is hidden, in bytes. Every text has
// shorter ones, so that hiding them would show them.
const minLength = 4

// New returns Secrets for words, in the forms in which a server could repeat them: as
// they are, percent-encoded, escaped for JSON, Go or HTML, once or twice, and in
// base64, alone or within a longer text. Words of less than four bytes are ignored.
func New(words ...string) Secrets {
	var plain, forms []string
	for _, word := range words {
		if len(word) < minLength {
			continue
		}
		// Text that a server quotes in JSON, or a library quotes in an error, may be
		// encoded twice.
		for _, once := range append(encoded(word), word) {
			plain = append(append(plain, once), encoded(once)...)
		}
		forms = appendBase64(forms, word)
	}
	slices.Sort(plain)
	plain = slices.Compact(plain)
	forms = append(forms, plain...)
	// The replacer prefers earlier forms: a form must come before its parts.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s := Secrets{plain: plain}
	var pairs []string
	for _, form := range forms {
		s.longest = max(s.longest, len(form))
		pairs = append(pairs, form, "[redacted]")
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

// encoded returns text percent-encoded, and escaped for HTML, JSON and Go.
func encoded(text string) []string {
	object, _ := json.Marshal(text) // a string cannot fail
	quoted := strconv.Quote(text)
	return []string{
		url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text),
		string(object[1 : len(object)-1]), quoted[1 : len(quoted)-1],
	}
}

// appendBase64 appends the base64 forms of a word, in both alphabets: of the word
// alone, and of the word at each of the three offsets in the groups of a longer text,
// without the characters at its ends, which also depend on its neighbours.
func appendBase64(forms []string, word string) []string {
	// A shorter form would match unrelated text.
	const minForm = 8
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if whole := encoding.EncodeToString([]byte(word)); len(whole) >= minForm {
			forms = append(forms, whole)
		}
		for before := range 3 {
			encoded := encoding.EncodeToString([]byte("\x00\x00"[:before] + word))
			from, to := (before*8+5)/6, (before+len(word))*8/6
			if to-from >= minForm {
				forms = append(forms, encoded[from:to])
			}
		}
	}
	return forms
}

// Hide returns text with every secret replaced by "[redacted]". It does not recognise
// part of a secret: truncate a text after Hide, not before.
func (s Secrets) Hide(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// HideBeginning is Hide for truncated text: it also removes a suffix that may be the
// beginning of a secret, except of one in base64, which any character may begin.
func (s Secrets) HideBeginning(text string) string {
	text = s.Hide(text)
	end := len(text)
	for _, form := range s.plain {
		for n := min(len(form)-1, len(text)); n > len(text)-end; n-- {
			if strings.HasSuffix(text, form[:n]) {
				end = len(text) - n
				break
			}
		}
	}
	return text[:end]
}

// HideError returns an error with the text of err without secrets, which wraps err. It
// returns err if the text contains none.
func (s Secrets) HideError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := s.Hide(text); hidden != text {
		return &redactedError{hidden, err}
	}
	return err
}

// redactedError replaces the text of an error.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Longest returns the length of the longest form of a secret in bytes.
func (s Secrets) Longest() int { return s.longest }

// QueryValues returns the values of a URL's query, each encoded and decoded.
func QueryValues(rawQuery string) []string {
	var values []string
	for pair := range strings.SplitSeq(rawQuery, "&") {
		_, encoded, _ := strings.Cut(pair, "=")
		values = append(values, encoded)
		if value, err := url.QueryUnescape(encoded); err == nil {
			values = append(values, value)
		}
	}
	return values
}

// harmless are headers that describe the content, and contain no key for any receiver.
var harmless = []string{"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type", "User-Agent"}

// HarmlessHeader reports whether the configured value of an HTTP header may be shown.
// Others may not: receivers accept keys in headers of any name.
func HarmlessHeader(name string) bool {
	return slices.Contains(harmless, textproto.CanonicalMIMEHeaderKey(name))
}
