package nats

import (
	"strings"
	"testing"

	"ndrbridge/test/assert"
)

func TestToken(t *testing.T) {
	for subject, want := range map[string]string{
		"ndr.hq.audit.logged": "ndr.hq.audit.logged",
		"ndr.é.x":             "ndr.é.x",
		"ndr.a b.*.>x\t":      "ndr.a_b._._x_",
		"ndr..x.":             "ndr._.x._",
		"":                    "_",
		".":                   "_._",
	} {
		assert.Equal(t, token(subject), want, "token", subject)
	}
}

func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		stream, template string
		want             bool
	}{
		{"ndr.>", "ndr.{a}.{b}", true},
		{">", "ndr", true},
		{"ndr.*.*", "ndr.{a}.{b}", true},
		{"*.*", "ndr.{a}", true},
		{"ndr.*", "ndr.{a}-x", true},
		{"ndr.x", "ndr.x", true},
		{"ndr.>", "ndr", false},
		{"ndr.hq.*", "ndr.{a}.{b}", false},
		{"ndr.*", "ndr.{a}.{b}", false},
		{"ndr.*.*", "ndr.{a}", false},
		{"other.>", "ndr.{a}", false},
	} {
		filled := strings.NewReplacer("{a}", "*", "{b}", "*").Replace(c.template)
		assert.Equal(t, captures(c.stream, filter(filled)), c.want, "a stream of", c.stream, "captures", c.template)
	}
}

func FuzzToken(f *testing.F) {
	f.Add("ndr.hq")
	f.Add(".. *")
	f.Fuzz(func(t *testing.T, text string) {
		subject := token(text)
		assert.True(t, !strings.ContainsAny(subject, " \t\r\n*>") && !strings.Contains("."+subject+".", ".."), "token", text, subject)
		assert.Equal(t, token(subject), subject, "token", text, "is not idempotent")
	})
}
