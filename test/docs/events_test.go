package docs_test

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/test/assert"
)

func TestEveryJSONIsValidAndItsEventsAreCloudEvents(t *testing.T) {
	for _, b := range blocks(t, "json") {
		t.Run(b.Position, func(t *testing.T) {
			decoder := json.NewDecoder(strings.NewReader(withoutEllipses(b.Text)))
			for {
				var value json.RawMessage
				if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				checkEvent(t, value)
			}
		})
	}
}

// checkEvent validates a value that has the attributes of a CloudEvent.
func checkEvent(t *testing.T, value json.RawMessage) {
	t.Helper()
	var attributes struct {
		SpecVersion string `json:"specversion"`
	}
	if json.Unmarshal(value, &attributes) != nil || attributes.SpecVersion == "" {
		return
	}
	var e event.Event
	if err := json.Unmarshal(value, &e); err != nil {
		t.Error(err)
	} else if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWithoutEllipses(t *testing.T) {
	const shown, want = `{"a": [1, …], "b": {…}, "c…": "…", "d": {"e": 1, …}}`, `{"a": [1 ], "b": {}, "c…": "…", "d": {"e": 1 }}`
	assert.Equal(t, withoutEllipses(shown), want, "it becomes")
}

var (
	ofJSON   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|…`)
	trailing = regexp.MustCompile(`,(\s*[\]}])`)
)

// withoutEllipses removes each … that stands for omitted elements, as in [1, …] and {…}. It
// keeps those in strings.
func withoutEllipses(text string) string {
	text = ofJSON.ReplaceAllStringFunc(text, func(token string) string {
		if token == "…" {
			return ""
		}
		return token
	})
	return trailing.ReplaceAllString(text, "$1")
}
