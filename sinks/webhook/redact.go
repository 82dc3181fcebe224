package webhook

import (
	"cmp"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secrets takes what must not be seen out of texts that others wrote: a server
// may repeat in its answer what it was sent.
type secrets struct {
	replacer *strings.Replacer
	longest  int // bytes of the longest secret
}

// newSecrets collects the credentials, the values of the configured headers, and
// of the URL everything behind the host, since webhooks carry tokens in it.
func newSecrets(o Options, proxy *url.URL) secrets {
	var words []string
	whole := func(text string) { words = append(words, text) }
	// A part that is this short is no secret, and would tear holes into texts.
	const shortest = 6
	part := func(text string) {
		if len(text) >= shortest {
			whole(text)
		}
	}
	credentials := func(username, password string) {
		if username == "" && password == "" {
			return
		}
		if password == "" {
			whole(username) // a token alone may stand in the name's place
		}
		whole(password)
		whole(strings.TrimPrefix(basic(username, password), "Basic "))
	}

	whole(o.Bearer)
	credentials(o.Username, o.Password)
	for _, value := range o.Headers {
		part(value)
		for word := range strings.FieldsSeq(value) {
			part(word)
		}
	}
	target, err := url.Parse(o.URL)
	if err != nil {
		target = &url.URL{}
	}
	for _, u := range []*url.URL{target, proxy} {
		if u != nil && u.User != nil {
			password, _ := u.User.Password()
			credentials(u.User.Username(), password)
			whole(u.User.String())
		}
	}
	part(target.RequestURI())
	part(target.RawQuery)
	part(target.Fragment)
	for segment := range strings.SplitSeq(target.EscapedPath(), "/") {
		part(segment)
	}
	for segment := range strings.SplitSeq(target.Path, "/") {
		part(segment)
	}
	for _, values := range target.Query() {
		for _, value := range values {
			part(value)
		}
	}
	return hiding(words)
}

// hiding makes secrets of words, as they are and as an answer may escape them.
// Empty ones do not count.
func hiding(words []string) secrets {
	forms := make([]string, 0, 4*len(words))
	for _, word := range words {
		if word == "" {
			continue
		}
		object, _ := json.Marshal(word) // a string cannot fail
		quoted := strconv.Quote(word)
		forms = append(forms, word, url.QueryEscape(word), html.EscapeString(word),
			string(object[1:len(object)-1]), quoted[1:len(quoted)-1])
	}
	// The replacer prefers what comes first, and a whole is to be found before
	// its part.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var s secrets
	var pairs []string
	for _, form := range slices.Compact(forms) {
		s.longest = max(s.longest, len(form))
		pairs = append(pairs, form, "[redacted]")
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

// hide is excerpt for a text.
func (s secrets) hide(text string) string { return s.excerpt(strings.NewReader(text)) }

// maxExcerpt is how many characters of other people's texts an error repeats.
const maxExcerpt = 256

// excerpt is the beginning of a text as one line of printable characters,
// without secrets.
func (s secrets) excerpt(r io.Reader) string {
	const enough = 4 << 10
	raw, err := io.ReadAll(io.LimitReader(r, int64(enough+s.longest)))
	text := s.replacer.Replace(string(raw))
	if err != nil || len(raw) == enough+s.longest {
		// The end may be the beginning of a secret, which was not recognised.
		text = text[:max(0, len(text)-s.longest)]
	}
	printable := func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}
	characters := []rune(strings.Join(strings.Fields(strings.Map(printable, text)), " "))
	return string(characters[:min(len(characters), maxExcerpt)])
}
