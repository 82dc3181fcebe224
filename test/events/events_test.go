package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
)

// top is the top of the repository.
const top = "../.."

func TestPageSaysWhatTheCodeMakes(t *testing.T) {
	want, err := page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(top, pageFile)); err != nil || !bytes.Equal(got, want) {
		t.Error(pageFile, "does not: run make reference", err)
	}
}

func TestExamplesAreCloudEvents(t *testing.T) {
	made, err := examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range made {
		t.Run(e.name, func(t *testing.T) {
			var decoded event.Event
			if err := json.Unmarshal(e.event.Structured(), &decoded); err != nil {
				t.Fatal(err)
			}
			if err := decoded.Validate(); err != nil {
				t.Error(err)
			}
			if decoded.ID() != e.event.ID || decoded.Type() != e.event.Type || !bytes.Equal(decoded.Data(), e.event.Data()) {
				t.Errorf("is read as\n%s", decoded)
			}
			if !strings.Contains(text, `"`+e.name+`"`) {
				t.Error("is not on the page")
			}
		})
	}
}

// Whatever attribute an example has is in the table, and the other way round.
func TestEveryAttributeIsExplained(t *testing.T) {
	made, err := examples()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range made {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(e.event.Structured(), &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			seen[name] = true
		}
	}
	delete(seen, "data")
	_, table, _ := strings.Cut(text, "## Attributes")
	table, _, _ = strings.Cut(table, "## Detections")
	told := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			told[strings.Trim(name, "`")] = true
		}
	}
	if !maps.Equal(seen, told) {
		t.Errorf("the examples have\n%v\nthe table has\n%v", slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(told)))
	}
}
