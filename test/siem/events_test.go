package siem_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/siem"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// recorded is the recordedtime of the events.
var recorded = time.Date(2026, time.March, 14, 9, 31, 41, 112e6, time.UTC)

var encoder = transform.Encoder{Appliance: "hq"}

// fixture returns the event of a detection of docs/events.md.
func fixture(t *testing.T, name string, o transform.Observation) transform.Event {
	t.Helper()
	object := require.Value(os.ReadFile(filepath.Join("..", "..", "internal", "fixture", "objects", name)))(t)
	return detection(t, string(bytes.TrimSpace(object)), o)
}

func detection(t *testing.T, object string, o transform.Observation) transform.Event {
	t.Helper()
	d := require.Value(transform.ParseDetection([]byte(object), false))(t)
	o.Recorded = recorded
	e := require.Value(encoder.Detection(d, o))(t)
	return e
}

// hazards are texts that a careless encoder confuses with its own syntax.
var hazards = []string{
	`a|b\|c||`, `k=v x\=y =`, "line\nline\r\nline\rline", "tab\ttab", `back\slash\\n`, `"quoted" 'text' ]`, "<134>1 2026 - - - - CEF:0|a|b|c|d|e|5|",
	"{}[],:", `{"event": "x"}` + "\n" + `{"create":{}}`, " spaces ", "\u2028\u2029\u0085\u0000\u0007\u007f\ufeff", "😀漢é", "", strings.Repeat("a|b=c\\\n", 50),
}

// withTexts returns the event of a detection with an id, a description, and another text in
// every other field that holds one.
func withTexts(t *testing.T, id int, text, description string) transform.Event {
	t.Helper()
	text, description = quote(t, text), quote(t, description)
	return detection(t, fmt.Sprintf(`{"id":%d,"mod_time":1773480500000,"risk_score":61,"title":%s,"type":%[2]s,"description":%s,"status":%[2]s,"assignee":%[2]s,
		"ticket_id":%[2]s,"categories":["sec",%[2]s],"participants":[{"role":"offender","hostname":%[2]s,"object_value":%[2]s,"username":%[2]s}],
		"mitre_techniques":[{"id":%[2]s,"name":%[2]s}],"url":%[2]s}`, id, text, description), transform.Observation{})
}

// manyEvents returns events of 1.2 MB together, with ids that events does not return.
func manyEvents(t *testing.T) []transform.Event {
	t.Helper()
	var all []transform.Event
	for i := range 40 {
		all = append(all, withTexts(t, 1000+i, "a long one", strings.Repeat("It sent 1.10 GB to a host outside. ", 860)))
	}
	return all
}

// events returns events of every kind and with every hazard, with distinct ids.
func events(t *testing.T) []transform.Event {
	t.Helper()
	all := presettest.Only(presettest.Events(t))
	add := func(e transform.Event, err error) {
		t.Helper()
		require.NoError(t, err)
		all = append(all, e)
	}
	assignee := "ada"
	ticket := transform.Ticket{Command: 17, TicketID: "SEC-1", DetectionID: 25769804127, Status: "closed", Assignee: &assignee}
	add(encoder.TicketResult(ticket, recorded))
	ticket.Command, ticket.Reason = 18, "the appliance answered 404"
	add(encoder.TicketResult(ticket, recorded))
	for _, name := range []string{"detection.json", "closed.json", "small.json"} {
		add(fixture(t, name, transform.Observation{}), nil)
	}
	for i, hazard := range hazards {
		add(withTexts(t, 100+i, hazard, hazard), nil)
	}
	known := make(map[string]bool)
	distinct := all[:0]
	for _, e := range all {
		if !known[e.ID] {
			distinct = append(distinct, e)
		}
		known[e.ID] = true
	}
	for _, want := range kinds {
		require.True(t, slices.ContainsFunc(distinct, func(e transform.Event) bool { return e.Type == "io.ndrbridge."+want }), "no event of the type", want)
	}
	return distinct
}

// kinds are the types of events.
var kinds = []string{
	"detection.created", "detection.updated", "audit.logged", "audit.gap", "record.stored", "appliance.unreachable", "appliance.reachable",
	"ticket.applied", "ticket.rejected", "sink.skipped", "sink.halted", "sink.resumed", "heartbeat",
}

func quote(t *testing.T, text string) string {
	t.Helper()
	b := require.Value(json.Marshal(text))(t)
	return string(b)
}

// identify reads a document strictly enough to know that it is of a format, and returns the
// event's id.
func identify(name format.Name, document string) (id string, err error) {
	switch name {
	case format.CEF:
		d, err := siem.ReadCEF(document)
		if err == nil && d.Keys["cs6Label"] != "eventId" {
			err = errors.New("cs6 is not labelled eventId")
		}
		return d.Keys["cs6"], err
	case format.LEEF:
		d, err := siem.ReadLEEF(document)
		return d.Keys["eventId"], err
	}
	var d struct {
		SpecVersion string
		ID          string
		Metadata    struct{ UID, Version string }
		ClassUID    *int      `json:"class_uid"`
		Timestamp   time.Time `json:"@timestamp"`
		ECS         struct{ Version string }
		Event       struct{ ID string }
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		return "", err
	}
	found := false
	switch name {
	case format.OCSF:
		id, found = d.Metadata.UID, d.Metadata.Version == "1.8.0" && d.ClassUID != nil
	case format.ECS:
		id, found = d.Event.ID, d.ECS.Version == "9.4.0" && d.Timestamp.Year() > 2000
	default:
		id, found = d.ID, d.SpecVersion == "1.0"
	}
	if !found || id == "" {
		return id, fmt.Errorf("not a document of %s", name)
	}
	return id, nil
}

// onLine returns a document as the sinks write it on a line.
func onLine(document string) string {
	return strings.TrimSuffix(string(transform.AppendLine(nil, []byte(document))), "\n")
}
