package webhook

import (
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"ndrbridge/internal/redact"
)

// secrets are the words that errors must not show. They are safe for concurrent use.
type secrets struct {
	words []string // those of the options

	mu      sync.Mutex
	tokens  []string // the latest OAuth tokens, newest last
	current redact.Secrets
}

// newSecrets returns the secrets of the options and of the proxies.
func newSecrets(o Options, proxies ...*url.URL) *secrets {
	words := secretWords(o, proxies)
	return &secrets{words: words, current: redact.New(words...)}
}

// maxTokens is the number of tokens that are hidden: an answer may show a token that has
// been replaced since its request was sent.
const maxTokens = 4

// addToken hides an OAuth token, too.
func (s *secrets) addToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.tokens, token) {
		return
	}
	s.tokens = append(s.tokens, token)
	s.tokens = s.tokens[max(0, len(s.tokens)-maxTokens):]
	s.current = redact.New(slices.Concat(s.words, s.tokens)...)
}

// hidden returns the words that errors must not show at present.
func (s *Sink) hidden() redact.Secrets {
	s.secrets.mu.Lock()
	defer s.secrets.mu.Unlock()
	return s.secrets.current
}

// excerpt returns the beginning of a text; see the function excerpt.
func (s *Sink) excerpt(text string) string { return excerpt(strings.NewReader(text), s.hidden()) }

// secretWords collects the secrets of the options and of the proxies: credentials, the
// values of the configured headers, and everything after the host of the URL, since webhook URLs
// often contain tokens.
func secretWords(o Options, proxies []*url.URL) []string {
	var words []string
	whole := func(text string) { words = append(words, text) }
	// A shorter part is unlikely to be secret, and would match unrelated text.
	const minPart = 6
	part := func(text string) {
		if len(text) >= minPart {
			whole(text)
		}
	}
	credentials := func(username, password string) {
		if username == "" && password == "" {
			return
		}
		if password == "" {
			whole(username) // it may be a token
		}
		whole(password)
		whole(strings.TrimPrefix(basic(username, password), "Basic "))
	}

	whole(o.Bearer)
	for _, secret := range o.SignSecrets {
		secret = strings.TrimSpace(secret)
		whole(secret)
		whole(strings.TrimPrefix(secret, "whsec_"))
	}
	credentials(o.Username, o.Password)
	headers := []map[string]string{o.Headers}
	if o.Preset != nil {
		headers = append(headers, o.Preset.Header)
		for _, secret := range o.Preset.Secrets {
			whole(secret)
		}
	}
	for _, header := range headers {
		for name, value := range header {
			if redact.HarmlessHeader(name) {
				continue
			}
			part(value)
			fields := strings.Fields(value)
			if len(fields) > 1 && credentialHeader(name) {
				fields = fields[1:] // the scheme, such as Bearer, is not secret
			}
			for _, word := range fields {
				part(word)
			}
		}
	}
	target, err := url.Parse(o.URL)
	if err != nil {
		target = &url.URL{}
	}
	for _, u := range append([]*url.URL{target}, proxies...) {
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
	for _, value := range redact.QueryValues(target.RawQuery) {
		part(value)
	}
	if o.OAuth != nil {
		words = append(words, o.OAuth.Secrets()...)
	}
	return words
}

// credentialHeader reports whether the value of a header is a scheme and credentials.
func credentialHeader(name string) bool {
	return strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization")
}

// maxExcerpt is the number of characters of foreign text quoted in an error.
const maxExcerpt = 256

// excerpt returns the beginning of a text as one line of printable characters, without
// secrets. The text must not have been truncated before: the beginning of a secret cut
// in two would not be recognised.
func excerpt(r io.Reader, secrets redact.Secrets) string {
	const maxRead = 4 << 10
	raw, err := io.ReadAll(io.LimitReader(r, int64(maxRead+secrets.Longest())))
	hide := secrets.Hide
	if err != nil || len(raw) == maxRead+secrets.Longest() {
		hide = secrets.HideBeginning
	}
	printable := func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}
	characters := []rune(strings.Join(strings.Fields(strings.Map(printable, hide(string(raw)))), " "))
	return string(characters[:min(len(characters), maxExcerpt)])
}
