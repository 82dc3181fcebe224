package transform_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// ownAttributes returns the attributes of one of the bridge's own events.
func ownAttributes(id, kind string) transform.Attributes {
	number, severity := int32(9), "low"
	switch kind {
	case "appliance.unreachable", "audit.gap", "sink.halted", "sink.skipped", "blindspot.opened":
		number, severity = 17, "high"
	case "ticket.rejected", "rule.rejected", "note.rejected", "rule.created", "rule.updated":
		number, severity = 13, "medium"
	}
	return transform.Attributes{
		SeverityNumber: number, SeverityText: severity,
		ID: id, Source: "ndrbridge://hq/events", Type: "io.ndrbridge." + kind, Subject: "hq", Time: recorded,
		PartitionKey: "hq", Appliance: "hq", RecordedTime: recorded,
	}
}

func TestAuditGapEvents(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  transform.AuditGap
		id   string
		data string
	}{
		{
			"with how many entries were purged",
			transform.AuditGap{Reason: transform.GapPurged, Last: transform.AuditPosition{ID: 7, Time: 1}, First: transform.AuditPosition{ID: 25769804127, Time: 9}, Missing: 12},
			"audit.gap-7-1-25769804127-9",
			`{"gap":{"reason":"purged","explanation":"Entries of the audit log were purged before the bridge had read them.",` +
				`"last":{"id":7,"time":1},"first":{"id":25769804127,"time":9},"missing":12}}`,
		},
		{
			"without a number if the ids do not determine it",
			transform.AuditGap{Reason: transform.GapRestarted, Last: transform.AuditPosition{ID: 7, Time: 5}, First: transform.AuditPosition{ID: 1, Time: 9}},
			"audit.gap-7-5-1-9",
			`{"gap":{"reason":"restarted","explanation":"The audit log started over, for example after a restore from a backup: ` +
				`entries after the last one read may be missing.","last":{"id":7,"time":5},"first":{"id":1,"time":9}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := require.Value(encoder.AuditGap(c.gap, recorded))(t)
			expect(t, e, ownAttributes(c.id, "audit.gap"), c.data)
			assert.Equal(t, e.Stream(), "events", "stream")
		})
	}
}

func TestReachabilityEvents(t *testing.T) {
	since := time.Date(2026, 11, 21, 2, 0, 0, 5e6, time.FixedZone("east", 3600))
	for _, c := range []struct {
		name  string
		event transform.Reachability
		kind  string
		data  map[string]any
	}{
		{
			"when it cannot", transform.Reachability{Since: since, Failures: 3, Reason: `answered 503 "<b>"`}, "appliance.unreachable",
			map[string]any{"since": "2026-11-21T01:00:00.005Z", "failures": 3.0, "reason": `answered 503 "<b>"`},
		},
		{
			"when it can again", transform.Reachability{Reachable: true, Since: since, Failures: 9, For: 90500 * time.Millisecond}, "appliance.reachable",
			map[string]any{"was_unreachable_since": "2026-11-21T01:00:00.005Z", "failures": 9.0, "unreachable_seconds": 91.0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := require.Value(encoder.Reachability(c.event, recorded))(t)
			expect(t, e, ownAttributes(c.kind+"-1795222923004", c.kind), string(e.Data()))
			got := make(map[string]map[string]any)
			require.NoError(t, json.Unmarshal(e.Data(), &got))
			require.True(t, len(got) == 1 && len(got["appliance"]) == len(c.data), "data", string(e.Data()))
			for name, want := range c.data {
				assert.Equal(t, got["appliance"][name], want, name)
			}
		})
	}
}

func TestHeartbeatEvents(t *testing.T) {
	c := transform.Encoder{Appliance: transform.Bridge}
	e := require.Value(c.Heartbeat("1.2.3", recorded.Add(-time.Hour), recorded))(t)
	want := ownAttributes("heartbeat-1795222923004", "heartbeat")
	want.Source, want.Subject, want.PartitionKey, want.Appliance = "ndrbridge://bridge/events", "bridge", "bridge", "bridge"
	expect(t, e, want, `{"heartbeat":{"version":"1.2.3","started":"`+recorded.Add(-time.Hour).Format("2006-01-02T15:04:05.999Z07:00")+`"}}`)
}

func TestSinkSkippedEvents(t *testing.T) {
	c := transform.Encoder{Appliance: transform.Bridge}
	want := ownAttributes("sink.skipped-chat-4-9", "sink.skipped")
	want.Source, want.Subject, want.PartitionKey, want.Appliance = "ndrbridge://bridge/events", "bridge", "bridge", "bridge"
	oldest := time.Date(2026, 11, 21, 2, 0, 0, 5e6, time.UTC)
	for _, c2 := range []struct {
		name    string
		skipped transform.Skipped
		data    string
	}{
		{
			"with its size and age",
			transform.Skipped{Sink: "chat", First: 4, Last: 9, Events: 6, Bytes: 100, Oldest: oldest, Newest: oldest.Add(time.Second), Reason: "too old"},
			`{"skipped":{"sink":"chat","events":6,"bytes":100,"oldest":"2026-11-21T02:00:00.005Z","newest":"2026-11-21T02:00:01.005Z","reason":"too old"}}`,
		},
		{
			"without the facts of events that are gone",
			transform.Skipped{Sink: "chat", First: 4, Last: 9, Events: 6, Reason: "trimmed"},
			`{"skipped":{"sink":"chat","events":6,"reason":"trimmed"}}`,
		},
	} {
		t.Run(c2.name, func(t *testing.T) {
			e := require.Value(c.SinkSkipped(c2.skipped, recorded))(t)
			expect(t, e, want, c2.data)
		})
	}
}

func TestSinkHaltEvents(t *testing.T) {
	c := transform.Encoder{Appliance: transform.Bridge}
	since := recorded.Add(-90 * time.Second)
	for _, of := range []struct {
		name, kind string
		halt       transform.SinkHalt
		data       string
	}{
		{
			"when it halts", "sink.halted", transform.SinkHalt{Sink: "lake", Since: since, Reason: "401 Unauthorized"},
			`{"sink":{"name":"lake","reason":"401 Unauthorized","since":"2026-11-21T01:00:33.004Z"}}`,
		},
		{
			"when it delivers again", "sink.resumed", transform.SinkHalt{Sink: "lake", Since: since, Over: true},
			`{"sink":{"halted_seconds":90,"name":"lake","was_halted_since":"2026-11-21T01:00:33.004Z"}}`,
		},
		{
			"when it is removed", "sink.resumed", transform.SinkHalt{Sink: "lake", Since: since, Over: true, Reason: "removed"},
			`{"sink":{"halted_seconds":90,"name":"lake","reason":"removed","was_halted_since":"2026-11-21T01:00:33.004Z"}}`,
		},
	} {
		t.Run(of.name, func(t *testing.T) {
			want := ownAttributes(of.kind+"-lake-1795222833004", of.kind)
			want.Source, want.Subject, want.PartitionKey, want.Appliance = "ndrbridge://bridge/events", "lake", "bridge", "bridge"
			e := require.Value(c.SinkHalt(of.halt, recorded))(t)
			expect(t, e, want, of.data)
			assert.Equal(t, e.IsTrouble(), true, "trouble")
		})
	}
}

func TestTicketEvents(t *testing.T) {
	nobody := ""
	for _, c := range []struct {
		name   string
		ticket transform.Ticket
		id     string
		kind   string
		data   string
	}{
		{
			"when it was applied",
			transform.Ticket{Command: 7, TicketID: "SEC-1", DetectionID: 25769804127, Status: "closed", Resolution: "action_taken"},
			"ticket.applied-7-", "ticket.applied",
			`{"ticket":{"command":7,"ticket_id":"SEC-1","detection_id":25769804127,"status":"closed","resolution":"action_taken"}}`,
		},
		{
			"when it was rejected",
			transform.Ticket{Command: 8, TicketID: "SEC-2", Assignee: &nobody, Reason: "answered 404"},
			"ticket.rejected-8-", "ticket.rejected",
			`{"ticket":{"command":8,"ticket_id":"SEC-2","assignee":"","reason":"answered 404"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := require.Value(encoder.TicketResult(c.ticket, recorded))(t)
			expect(t, e, ownAttributes(c.id+strconv.FormatInt(recorded.UnixMilli(), 10), c.kind), c.data)
		})
	}
}

func TestResultsOfCommandsOnRules(t *testing.T) {
	rule := transform.RuleCommand{Command: 7, Action: "extend", ID: 9007199254740993, Expiration: 1774084698715, By: "ana"}
	at := strconv.FormatInt(recorded.UnixMilli(), 10)
	e := require.Value(encoder.RuleResult(rule, recorded))(t)
	expect(t, e, ownAttributes("rule.applied-7-"+at, "rule.applied"), `{"rule":{"command":7,"action":"extend","id":9007199254740993,"expiration":1774084698715,"by":"ana"}}`)
	rule = transform.RuleCommand{Command: 8, Action: "hide", DetectionID: 25769804127, By: "ana", Reason: "answered 404"}
	e = require.Value(encoder.RuleResult(rule, recorded))(t)
	expect(t, e, ownAttributes("rule.rejected-8-"+at, "rule.rejected"), `{"rule":{"command":8,"action":"hide","detection_id":25769804127,"by":"ana","reason":"answered 404"}}`)
}

func TestResultsOfCommandsOnNotes(t *testing.T) {
	note := transform.NoteCommand{Command: 7, DetectionID: 9007199254740993, By: "ana"}
	at := strconv.FormatInt(recorded.UnixMilli(), 10)
	e := require.Value(encoder.NoteResult(note, recorded))(t)
	expect(t, e, ownAttributes("note.applied-7-"+at, "note.applied"), `{"note":{"command":7,"detection_id":9007199254740993,"by":"ana"}}`)
	note.Reason = "answered 404"
	e = require.Value(encoder.NoteResult(note, recorded))(t)
	expect(t, e, ownAttributes("note.rejected-7-"+at, "note.rejected"), `{"note":{"command":7,"detection_id":9007199254740993,"by":"ana","reason":"answered 404"}}`)
}

func TestMessageRefusedEvents(t *testing.T) {
	e, err := encoder.MessageRefused(transform.RefusedMessage{
		Message: "stream NDR, message 17", Reason: "ticket_id is missing", Sent: time.UnixMilli(1700000000123),
	}, recorded)
	require.NoError(t, err)
	expect(t, e, ownAttributes("ticket.rejected-stream-NDR-message-17-1700000000123", "ticket.rejected"),
		`{"ticket":{"message":"stream NDR, message 17","reason":"ticket_id is missing","sent":"2023-11-14T22:13:20.123Z"}}`)
	for _, sent := range []int64{math.MinInt64, 1700000000123000000, math.MaxInt64} { // of a producer that writes nanoseconds
		e, err := encoder.MessageRefused(transform.RefusedMessage{Message: "record t/0/1", Reason: "x", Sent: time.UnixMilli(sent)}, recorded)
		require.NoError(t, err)
		expect(t, e, ownAttributes(fmt.Sprintf("ticket.rejected-record-t/0/1-%d", sent), "ticket.rejected"), `{"ticket":{"message":"record t/0/1","reason":"x"}}`)
	}
}

func TestTheChangesBetweenTwoVersionsAreTheFieldsThatDiffer(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"none", `{"status":"new"}`, `{"status":"new"}`, ``},
		{"a value, and one that came", `{"status":"new"}`, `{"status":"closed","resolution":"action_taken"}`, `status "new" "closed";resolution  "action_taken";`},
		{"one that went", `{"assignee":"ana","title":"x"}`, `{"title":"x"}`, `assignee "ana" ;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for change := range transform.Changes([]byte(c.before), []byte(c.after)) {
				got += fmt.Sprintf("%s %s %s;", change.Field, change.From, change.To)
			}
			assert.Equal(t, got, c.want)
		})
	}
}
