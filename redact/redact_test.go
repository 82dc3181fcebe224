package redact_test

import (
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/redact"
)

func TestHide(t *testing.T) {
	for _, test := range []struct {
		name       string
		words      []string
		text, want string
	}{
		{"a secret goes wherever it stands", []string{"key"}, "key, a key and keykey", "[redacted], a [redacted] and [redacted][redacted]"},
		{"a secret goes whole, not only the other one in it", []string{"key", "monkeys"}, "monkeys key", "[redacted] [redacted]"},
		{"nothing goes without secrets", nil, "key", "key"},
		{"an empty word is no secret", []string{""}, "key", "key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := redact.New(test.words...).Hide(test.text); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if got := (redact.Secrets{}).Hide("key"); got != "key" {
		t.Errorf("the zero value makes it %q", got)
	}
}

func TestASecretIsHiddenInEveryFormThatAServerMayRepeatItIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`X[ -~é"\\/&<+%\n]{0,20}X`).Draw(t, "word")
		secrets := redact.New(word)
		object, _ := json.Marshal(word)
		for _, form := range []string{word, url.QueryEscape(word), url.PathEscape(word), html.EscapeString(word), string(object), strconv.Quote(word)} {
			if got := secrets.Hide("you sent " + form); strings.Contains(got, "X") {
				t.Errorf("%q shows: %q", word, got)
			}
			if len(strings.Trim(form, `"`)) > secrets.Longest() {
				t.Errorf("%q is longer than %d bytes", form, secrets.Longest())
			}
		}
	})
}
