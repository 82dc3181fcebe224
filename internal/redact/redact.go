// Package redact takes secrets out of texts that others wrote: a server may
// repeat in its answer what it was sent.
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

// Secrets are words that no error may show. The zero value hides nothing. They
// are safe for concurrent use.
type Secrets struct {
	plain    []string // forms that a secret may have, but for base64
	replacer *strings.Replacer
	longest  int
}

// New makes secrets of words, in the forms that a server could repeat them in:
// as they are, percent-encoded, escaped for JSON, Go or HTML, once or twice, and in
// base64, alone or within a longer text. Empty words do not count.
func New(words ...string) Secrets {
	var plain, forms []string
	for _, word := range words {
		if word == "" {
			continue
		}
		// What a server repeats within a text of JSON, or a library quotes of it, was
		// encoded twice.
		for _, once := range append(encoded(word), word) {
			plain = append(append(plain, once), encoded(once)...)
		}
		forms = appendBase64(forms, word)
	}
	slices.Sort(plain)
	plain = slices.Compact(plain)
	forms = append(forms, plain...)
	// The replacer prefers what comes first, and a whole is to be found before
	// its part.
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

// encoded is a text percent-encoded, and escaped for HTML, JSON and Go.
func encoded(text string) []string {
	object, _ := json.Marshal(text) // a string cannot fail
	quoted := strconv.Quote(text)
	return []string{
		url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text),
		string(object[1 : len(object)-1]), quoted[1 : len(quoted)-1],
	}
}

// appendBase64 appends what base64 makes of a word, by both alphabets: of it alone,
// and of it at each of the three places that it can have in the groups of a longer
// text, less the characters at its ends, which its neighbours have a part in.
func appendBase64(forms []string, word string) []string {
	// What is shorter would be found in texts that have nothing to do with the word.
	const shortest = 8
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if whole := encoding.EncodeToString([]byte(word)); len(whole) >= shortest {
			forms = append(forms, whole)
		}
		for before := range 3 {
			encoded := encoding.EncodeToString([]byte("\x00\x00"[:before] + word))
			from, to := (before*8+5)/6, (before+len(word))*8/6
			if to-from >= shortest {
				forms = append(forms, encoded[from:to])
			}
		}
	}
	return forms
}

// Hide returns the text with "[redacted]" in the place of every secret. Part of
// a secret is not recognised: a text is to be cut short after this, not before.
func (s Secrets) Hide(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// HideBeginning is Hide for a text that was cut off somewhere: what may be the beginning
// of a secret at its end is left out, but for one in base64, of which any letter may be
// one.
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

// Longest is the number of bytes of the longest form of a secret.
func (s Secrets) Longest() int { return s.longest }

// QueryValues are the values of a URL's query, each as it was sent and as it is.
func QueryValues(rawQuery string) []string {
	var values []string
	for pair := range strings.SplitSeq(rawQuery, "&") {
		_, sent, _ := strings.Cut(pair, "=")
		values = append(values, sent)
		if value, err := url.QueryUnescape(sent); err == nil {
			values = append(values, value)
		}
	}
	return values
}

// harmless are the headers that say what is sent, and hold no key at any receiver.
var harmless = []string{"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type", "User-Agent"}

// HarmlessHeader reports whether the configured value of an HTTP header may be shown. That
// of any other name may not: receivers take keys in headers of any name.
func HarmlessHeader(name string) bool {
	return slices.Contains(harmless, textproto.CanonicalMIMEHeaderKey(name))
}
