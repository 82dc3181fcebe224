package format

import (
	"strings"
	"testing"

	"ndrbridge/transform"
)

// encodeLine returns the line of an event in a format.
func encodeLine(t testing.TB, n Name, e transform.Event) string {
	t.Helper()
	c, err := New(n, Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	e = c.Encode(e)
	if e.ContentType() != "text/plain; charset=utf-8" {
		t.Errorf("the content type is %s", e.ContentType())
	}
	return string(e.Payload())
}

func TestCharactersThatEndAValueAreEscapedInCEF(t *testing.T) {
	e := event(t, "detections", `{"detection":{"type":"a|b","title":"x|y\\z\nw","description":"a=b\\n\r\nc|d","properties":{"k":"e=f\tg"}}}`)
	line := encodeLine(t, CEF, e)
	for _, want := range []string{
		`CEF:0|ndrbridge|ndrbridge|1.2.3|a\|b|x\|y\\z w|Unknown|`,
		` msg=a\=b\\n\r\nc|d `,
		` ndrbridgeTitle=x|y\\z\nw`,
		` ndrbridgePropertiesK="e\=f\\tg"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the line has no %s:\n%s", want, line)
		}
	}
}

func TestCharactersThatLEEFCannotContainAreReplaced(t *testing.T) {
	e := event(t, "detections", `{"detection":{"type":"a|b","title":"x|y\\z\tw","description":"a=b\\n\r\nc|d"}}`)
	line := encodeLine(t, LEEF, e)
	for _, want := range []string{
		"LEEF:2.0|ndrbridge|ndrbridge|1.2.3|a b|0x09|",
		"\ttitle=x|y\\z w\t",
		"\tdescription=a=b\\n  c|d\t",
		"\tndrbridgeType=a|b\t",
		"\tndrbridgeTitle=\"x|y\\\\z\\tw\"",
		"\tndrbridgeDescription=\"a=b\\\\n\\r\\nc|d\"",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the line has no %q:\n%q", want, line)
		}
	}
}
