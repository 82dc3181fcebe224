package webhook

import (
	"io"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"ndrbridge/internal/redact"
)

// secretsOf collects the credentials, the values of the configured headers, and
// of the URL everything behind the host, since webhooks carry tokens in it.
func secretsOf(o Options, proxy *url.URL) redact.Secrets {
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
	for _, secret := range o.SignSecrets {
		secret = strings.TrimSpace(secret)
		whole(secret)
		whole(strings.TrimPrefix(secret, "whsec_"))
	}
	credentials(o.Username, o.Password)
	headers := []map[string]string{o.Headers}
	if o.Preset != nil {
		service := o.Preset.Service()
		headers = append(headers, service.Header)
		for _, secret := range service.Secrets {
			whole(secret)
		}
	}
	for _, header := range headers {
		for name, value := range header {
			if redact.HarmlessHeader(name) {
				continue
			}
			part(value)
			for word := range strings.FieldsSeq(value) {
				part(word)
			}
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
	for _, value := range redact.QueryValues(target.RawQuery) {
		part(value)
	}
	return redact.New(words...)
}

// maxExcerpt is how many characters of other people's texts an error repeats.
const maxExcerpt = 256

// excerpt is the beginning of a text as one line of printable characters,
// without secrets. The text must come whole: whoever cuts it first may cut a secret
// in two, whose beginning is not recognised.
func excerpt(r io.Reader, secrets redact.Secrets) string {
	const enough = 4 << 10
	raw, err := io.ReadAll(io.LimitReader(r, int64(enough+secrets.Longest())))
	hide := secrets.Hide
	if err != nil || len(raw) == enough+secrets.Longest() {
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
