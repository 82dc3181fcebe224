package sinks

import (
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTemplate(t *testing.T) {
	e, err := transform.New(transform.Attributes{
		ID: "1-2", Source: "ndrbridge://hq/audit", Type: "io.ndrbridge.audit.logged", Appliance: "hq",
	}, []byte("{}"))
	require.NoError(t, err)
	for text, want := range map[string]struct{ expanded, filled string }{
		"ndr":                              {"ndr", "ndr"},
		"ndr.{stream}":                     {"ndr.audit", "ndr.*"},
		"{appliance}.{stream}.{action}":    {"hq.audit.logged", "*.*.*"},
		"a{action}{action}b-{appliance}.c": {"aloggedloggedb-hq.c", "a**b-*.c"},
	} {
		template, err := ParseTemplate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		assert.Equal(t, template.Expand(e), want.expanded, text, "expands to")
		assert.Equal(t, template.Fill("*"), want.filled, text, "filled")
		assert.Equal(t, template.String(), text, "String()", template)
	}
}

func TestParseTemplateErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "empty",
		"ndr.{stram}":      "{stram}",
		"ndr.{}":           "{}",
		"ndr.{stream":      "brace",
		"ndr.stream}":      "brace",
		"ndr.{{stream}}":   "brace",
		"ndr.{str{stream}": "brace",
	} {
		_, err := ParseTemplate(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		assert.True(t, text == "" || strings.Contains(err.Error(), "{appliance}, {stream} and {action}"), text, "the error does not name the placeholders", err)
	}
}

func FuzzParseTemplate(f *testing.F) {
	f.Add("ndr.{appliance}.{stream}")
	f.Add("{a}}{")
	f.Fuzz(func(t *testing.T, text string) {
		template, err := ParseTemplate(text)
		if err == nil && strings.ContainsAny(template.Fill("x"), "{}") {
			t.Errorf("%q: a brace is left in %q", text, template.Fill("x"))
		}
	})
}
