package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A search for a free name that began again for each name would take hours here.
func TestManyLeftoversOfOneNameHaveDifferentNames(t *testing.T) {
	const n = 200_000
	e := event(t, "detections", `{"detection":{"x_3":0`+strings.Repeat(`,"x":1`, n)+`}}`)
	document := newEncoder("application/json", []table{{rest: "rest"}}, (*plan).appendDocument).Encode(e).Payload()
	if !jsontext.Value(document).IsValid() {
		t.Fatalf("a name occurs twice: %.300s", document)
	}
	var got struct{ Rest map[string]int }
	if err := json.Unmarshal(document, &got); err != nil || len(got.Rest) != n+1 {
		t.Errorf("%d values, %v", len(got.Rest), err)
	}
	if last := fmt.Sprintf("x_%d", n+1); got.Rest[last] != 1 || got.Rest["x_3"] != 0 || got.Rest["x"] != 1 {
		t.Errorf("no %s", last)
	}
}

// Small elements take much more memory than their JSON if each has its own slices.
func TestAnEncoderKeepsLittleOfALargeEvent(t *testing.T) {
	for name, data := range map[string]string{
		"many participants":         `{"detection":{"participants":[{"role":"x"}` + strings.Repeat(`,{"role":1}`, 20_000) + `]}}`,
		"many participants of none": `{"detection":{"participants":[{}` + strings.Repeat(`,{}`, 100_000) + `]}}`,
		"many leftovers":            `{"detection":{"x":1` + strings.Repeat(`,"x":1`, 50_000) + `}}`,
		"few values":                `{"detection":{"x":1,"participants":[{"role":"offender"}]}}`,
	} {
		for _, format := range Names()[1:] {
			c, err := New(format, Options{})
			if err != nil {
				t.Fatal(err)
			}
			c.Encode(event(t, "detections", data))
			if values := cap(c.s.rest) + cap(c.s.elements); values > maxKeptValues || len(c.s.names) > maxKeys {
				t.Errorf("%s in %s: %d values and %d names are kept", name, format, values, len(c.s.names))
			}
		}
	}
}

func TestAllOfManyParticipantsAreInTheDocument(t *testing.T) {
	const n = 3 * maxKeptParticipants
	var participants []string
	for i := range n {
		participants = append(participants, fmt.Sprintf(`{"object_id":%d}`, i))
	}
	value := []byte("[" + strings.Join(participants, ",") + "]")
	r := new(participantReader)
	evidences, _ := r.evidences().append(nil, []byte("["+string(value)+",null,null]"))
	if len(r.elements) > maxKeptParticipants {
		t.Errorf("%d participants are kept", len(r.elements))
	}
	resources, _ := r.resources().append(nil, value)
	for name, array := range map[string][]byte{"evidences": evidences, "resources": resources} {
		var got []any
		if err := json.Unmarshal(array, &got); err != nil || len(got) != n {
			t.Errorf("%d %s, %v", len(got), name, err)
		}
	}
	if r.json != nil || len(r.elements) > 0 {
		t.Error("the participants are kept for the next event")
	}
}
