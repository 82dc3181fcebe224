package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

// top is the root of the repository.
const top = "../.."

// make reference runs this with UPDATE=1, which writes the page.
func TestTheReferenceOfEventsIsCurrent(t *testing.T) {
	file, want := filepath.Join(top, pageFile), require.Value(page(t.Context(), examples(t)))(t)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, want, 0o644))
	}
	assert.Equal(t, string(require.Value(os.ReadFile(file))(t)), string(want), pageFile, "is not what a bridge delivers: run make reference")
}

func TestExamplesAreCloudEvents(t *testing.T) {
	for _, e := range examples(t) {
		t.Run(e.name, func(t *testing.T) {
			var decoded event.Event
			require.NoError(t, json.Unmarshal(e.event.Structured(), &decoded))
			assert.NoError(t, decoded.Validate())
			assert.True(t, decoded.ID() == e.event.ID && decoded.Type() == e.event.Type && bytes.Equal(decoded.Data(), e.event.Data()), "is read as", decoded)
			assert.Contains(t, text, `"`+e.name+`"`, "is not on the page")
		})
	}
}

func TestMatchKnowsTheValuesOfAttributes(t *testing.T) {
	var types []string
	for _, e := range examples(t) {
		types = append(types, e.event.Type)
		expression := fmt.Sprintf("event.stream == %q && event.type == %q && event.action == %q", e.event.Stream(), e.event.Type, e.event.Action())
		if e.event.SeverityNumber != 0 {
			expression += fmt.Sprintf(" && event.severitynumber == %d && event.severitytext == %q", e.event.SeverityNumber, e.event.SeverityText)
		}
		if e.event.CausedBy != "" {
			expression += fmt.Sprintf(" && event.causedby == %q", e.event.CausedBy)
		}
		m, err := match.Compile(expression)
		if assert.NoError(t, err, e.name) {
			matches, err := m.Matches(e.event)
			assert.True(t, matches && err == nil, e.name, "does not match", expression, err)
		}
	}
	slices.Sort(types)
	all := transform.Types()
	slices.Sort(all)
	assert.EqualSlices(t, slices.Compact(types), all)
}

func TestEveryAttributeIsExplained(t *testing.T) {
	_, table, _ := strings.Cut(text, "## Attributes")
	table, _, _ = strings.Cut(table, "## Detections")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed = append(listed, strings.Trim(name, "`"))
		}
	}
	there := []string{"specversion", "datacontenttype"}
	attributes := reflect.TypeFor[transform.Attributes]()
	for i := range attributes.NumField() {
		there = append(there, strings.ToLower(attributes.Field(i).Name))
	}
	slices.Sort(there)
	slices.Sort(listed)
	assert.EqualSlices(t, there, listed, "events have", "the table of the page")
}
