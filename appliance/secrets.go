package appliance

import (
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// secrets are texts that no error may hold, in the forms that a server could
// repeat them in.
type secrets []string

func newSecrets(texts ...string) secrets {
	var s secrets
	for _, text := range texts {
		if text == "" {
			continue
		}
		quoted, _ := json.Marshal(text) // of a string: it cannot fail
		for _, form := range []string{string(quoted), strconv.Quote(text)} {
			s = append(s, form[1:len(form)-1])
		}
		s = append(s, text, url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text))
	}
	return s
}

func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}
