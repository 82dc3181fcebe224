package appliance

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxExcerpt is the maximum length of an excerpt, in characters.
const maxExcerpt = 256

// excerpt returns the message in the body of a failure: that of a JSON error (such as a
// problem document of RFC 9457), the title of an HTML page, or else the text. The
// result is one line of printable characters, and may be longer than maxExcerpt:
// secrets must be removed before it is shortened.
func excerpt(body []byte) string {
	body = bytes.TrimSpace(body)
	text := string(body)
	switch {
	case len(body) == 0:
		return ""
	case isHTML(body):
		text = htmlTitle(body)
	case body[0] == '"':
		_ = json.Unmarshal(body, &text) // on error, text stays the body
	case body[0] == '{':
		if message := jsonMessage(body); message != "" {
			text = message
		}
	}
	return printable(text)
}

func jsonMessage(body []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	for _, name := range []string{"error_message", "detail", "error", "title"} {
		value := fields[name]
		if value == nil || string(value) == "null" {
			continue
		}
		var message string
		if json.Unmarshal(value, &message) != nil {
			return string(value)
		}
		if message != "" {
			return message
		}
	}
	return ""
}

func isHTML(body []byte) bool {
	head := bytes.ToLower(body[:min(len(body), 64)])
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html")) ||
		bytes.HasPrefix(head, []byte("<head")) || bytes.HasPrefix(head, []byte("<!--"))
}

var titlePattern = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

func htmlTitle(body []byte) string {
	if m := titlePattern.FindSubmatch(body); m != nil {
		return html.UnescapeString(string(m[1]))
	}
	return "an HTML page"
}

// printable returns text as one line without control characters.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// shorten truncates text to maxExcerpt characters.
func shorten(text string) string {
	if utf8.RuneCountInString(text) <= maxExcerpt {
		return text
	}
	return string([]rune(text)[:maxExcerpt-1]) + "…"
}
