package events

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"ndrbridge/internal/fixture"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// example is an event of the page, by its name in the page.
type example struct {
	name  string
	event transform.Event
}

// recorded is the recordedtime of the examples.
var recorded = time.Date(2026, time.March, 14, 9, 31, 41, 112e6, time.UTC)

// examples returns the events of the page: those of a bridge that ran, by their types, and others
// created with its code.
func examples(t *testing.T) []example {
	m := maker{
		appliance: transform.Encoder{Appliance: "hq"},
		bridge:    transform.Encoder{Appliance: transform.Bridge},
		made:      ran(t),
	}
	m.detections()
	m.audit()
	m.records()
	m.own()
	require.NoError(t, m.err)
	return m.made
}

// maker collects examples until the first error.
type maker struct {
	appliance, bridge transform.Encoder
	made              []example
	err               error
}

func (m *maker) add(name string, event transform.Event, err error) transform.Event {
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: %w", name, err)
	}
	m.made = append(m.made, example{name, event})
	return event
}

// fixture returns an object as returned by an appliance. repaired reports whether it
// contained bytes that are not UTF-8.
func (m *maker) fixture(name string) (object []byte, repaired bool) {
	object, err := fixture.Object(name)
	if err != nil && m.err == nil {
		m.err = err
	}
	return object, bytes.ContainsRune(object, '\uFFFD')
}

func (m *maker) detection(name string) transform.Detection {
	object, repaired := m.fixture(name)
	detection, err := transform.ParseDetection(object, repaired)
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: %w", name, err)
	}
	return detection
}

func (m *maker) detections() {
	first, closed, small := m.detection("detection"), m.detection("closed"), m.detection("small")
	named := func(name string) transform.Event {
		return m.made[slices.IndexFunc(m.made, func(e example) bool { return e.name == name })].event
	}

	event, err := m.appliance.Detection(closed, transform.Observation{Before: first.Digested().Tracked, Recorded: recorded, CausedBy: transform.CausedByWriteback})
	m.add("causedby", event, err)

	event, err = m.appliance.Detection(closed, transform.Observation{Before: closed.Digested().Tracked, Repeat: 2, Recorded: recorded, Added: transform.Enrichment{
		Devices: []byte(`[{"id":245,"display_name":"files-3","ipaddr4":"10.3.99.164","device_class":"node"}]`),
		Link:    "https://sensor.example/#/detections/detail/25769804127",
		Failed:  "format",
	}})
	m.add("enriched", event, err)

	event, err = m.appliance.Detection(small, transform.Observation{Recorded: recorded})
	m.add("repaired", event, err)

	redaction, err := transform.ParseRedaction([]string{"detection.assignee", "detection.participants.object_value"})
	if err != nil {
		m.err = err
		return
	}
	event, err = redaction.Apply(named("updated"))
	m.add("redacted", event, err)

	m.add("redelivered", named("created").Redeliver(1), nil)
}

func (m *maker) audit() {
	object, repaired := m.fixture("audit")
	entry, err := transform.ParseAuditEntry(object, repaired)
	if err != nil {
		m.err = err
		return
	}
	event, err := m.appliance.AuditEntry(entry, recorded)
	m.add("audit", event, err)

	event, err = m.appliance.AuditGap(transform.AuditGap{
		Reason:  transform.GapPurged,
		Last:    transform.AuditPosition{ID: 1482, Time: 1773480413000},
		First:   transform.AuditPosition{ID: 1910, Time: 1773666813000},
		Missing: 427,
	}, recorded)
	m.add("gap", event, err)
}

func (m *maker) records() {
	object, repaired := m.fixture("record")
	event, err := m.appliance.Record("web", transform.ParseRecord(object, repaired), recorded)
	m.add("record", event, err)
}

func (m *maker) own() {
	since := recorded.Add(-47 * time.Second)
	event, err := m.appliance.Reachability(transform.Reachability{
		Since: since, Failures: 3, Reason: "GET /api/v1/detections/search: connection refused",
	}, recorded)
	m.add("unreachable", event, err)

	event, err = m.appliance.Reachability(transform.Reachability{
		Reachable: true, Since: since, Failures: 31, For: 9*time.Minute + 47*time.Second,
	}, recorded.Add(9*time.Minute))
	m.add("reachable", event, err)

	assignee := "ada"
	command := transform.Ticket{
		Command: 17, TicketID: "SEC-1", DetectionID: 25769804127, Status: "closed", Resolution: "action_taken", Assignee: &assignee,
	}
	event, err = m.appliance.TicketResult(command, recorded)
	m.add("applied", event, err)

	command.Reason = "the appliance answered 404: no detection has the id 25769804127"
	event, err = m.appliance.TicketResult(command, recorded)
	m.add("rejected", event, err)

	for _, kind := range []string{"rule.applied", "rule.rejected", "note.applied", "note.rejected", "ticket.opened", "ticket.updated", "ticket.conflict", "ticket.lost"} {
		event, err = fixture.Event(fixture.Spec{Name: kind, Appliance: "hq"})
		m.add(kind, event, err)
	}

	event, err = m.bridge.MessageRefused(transform.RefusedMessage{
		Message: "stream TICKETS, message 42", Reason: "status: \"done\" is none of new, in_progress, closed, acknowledged", Sent: since,
	}, recorded)
	m.add("refused", event, err)

	event, err = m.bridge.SinkSkipped(transform.Skipped{
		Sink: "chat", First: 1201, Last: 1544, Events: 344, Bytes: 761203,
		Oldest: recorded.Add(-8 * time.Hour), Newest: recorded.Add(-6 * time.Hour),
		Reason: "older than lag.max_age (6h0m0s)",
	}, recorded)
	m.add("skipped", event, err)

	event, err = m.bridge.SinkTest("chat", recorded)
	m.add("test", event, err)

	halt := transform.SinkHalt{Sink: "lake", Since: since, Reason: "POST https://lake.example: 401 Unauthorized"}
	event, err = m.bridge.SinkHalt(halt, recorded)
	m.add("halted", event, err)

	halt.Over, halt.Reason = true, ""
	event, err = m.bridge.SinkHalt(halt, recorded.Add(9*time.Minute))
	m.add("resumed", event, err)

	event, err = m.bridge.Heartbeat("1.4.0", recorded.Add(-36*time.Hour), recorded)
	m.add("heartbeat", event, err)
}
