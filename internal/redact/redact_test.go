package redact_test

import (
	"encoding/json"
	"errors"
	"html"
	"net/url"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/internal/redact"
	"ndrbridge/test/assert"
)

func TestHide(t *testing.T) {
	for _, test := range []struct {
		name       string
		words      []string
		text, want string
	}{
		{"a secret goes wherever it stands", []string{"keys"}, "keys, a keys and keyskeys", "[redacted], a [redacted] and [redacted][redacted]"},
		{"a secret goes whole, not only the other one in it", []string{"keys", "monkeys"}, "monkeys keys", "[redacted] [redacted]"},
		{"nothing goes without secrets", nil, "key", "key"},
		{"an empty word is ignored", []string{""}, "key", "key"},
		{"a word that any text contains shows itself if it is hidden", []string{"a", "in", "not"}, "a key is not in it", "a key is not in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, redact.New(test.words...).Hide(test.text), test.want)
		})
	}
	for _, test := range []struct{ name, text, want string }{
		{"half a secret at the end goes, too", "you sent a monk", "you sent a "},
		{"as goes half of an escaped one", `you sent bb%22`, "you sent "},
		{"a whole one goes as ever", "monkeys sent", "[redacted] sent"},
		{"other text stays", "you sent", "you sent"},
		{"a text that is only a beginning is removed", "mon", ""},
	} {
		t.Run("of a text that was cut off, "+test.name, func(t *testing.T) {
			assert.Equal(t, redact.New("monkeys", `bb"c`).HideBeginning(test.text), test.want)
		})
	}
	cause := errors.New("it said keys")
	err := redact.New("keys").HideError(cause)
	assert.True(t, err.Error() == "it said [redacted]" && errors.Is(err, cause), "an error becomes", err)
	assert.Equal(t, (redact.Secrets{}).Hide("key"), "key", "the zero value makes it")
}

func TestASecretIsHiddenInEveryFormThatAServerMayRepeatItIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`XX[ -~é"\\/&<+%\n]{0,20}XX`).Draw(t, "word")
		secrets := redact.New(word)
		object, _ := json.Marshal(word)
		forms := []string{word, url.QueryEscape(word), url.PathEscape(word), html.EscapeString(word), string(object), strconv.Quote(word)}
		for _, once := range forms {
			again, _ := json.Marshal(once)
			forms = append(forms, url.QueryEscape(once), html.EscapeString(once), string(again), strconv.Quote(once))
		}
		for _, form := range forms {
			assert.NotContains(t, secrets.Hide("you sent "+form), "X", word, "shows")
			// Those in quotes have some around them, and these may be escaped.
			if len(form) > secrets.Longest()+len("&#34;&#34;") {
				t.Errorf("%q is longer than %d bytes", form, secrets.Longest())
			}
			half := form[:rapid.IntRange(0, len(form)).Draw(t, "cut")]
			assert.NotContains(t, secrets.HideBeginning("you sent "+half), "X", "half of", word, "shows")
		}
	})
}
