package format

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// secretive are events of every kind with values that occur nowhere else, by the field of a
// detection that they are of.
func secretive(t *testing.T) (events []kind, values map[string][]string) {
	t.Helper()
	values = map[string][]string{
		"detection.assignee":                  {"xassigneex", "xformerx", "xnotex", "xrulex"},
		"detection.ticket_id":                 {"xticketx"},
		"detection.status":                    {"xstatusx"},
		"detection.resolution":                {"xresolutionx"},
		"detection.title":                     {"xtitlex", "xnotex", "xrulex", "xrelatedx"},
		"detection.description":               {"xnotex", "xrulex"},
		"detection.properties":                {"xnotex", "xrecordx"},
		"detection.type":                      {"xtypex", "xdisplaynamex", "xhiddentypex"},
		"detection.url":                       {"xurlx"},
		"detection.participants":              {"xhostx", "xuserx", "203.0.113.77", "xdevicex", "xnotex", "xrulex", "xcontextx", "xrecordx", "xrelatedx", "xruleoffenderx"},
		"detection.participants.hostname":     {"xhostx", "xdevicex"},
		"detection.participants.object_value": {"203.0.113.77"},
		"detection.participants.username":     {"xuserx", "xnotex", "xrulex", "xcontextx", "xrecordx"},
	}
	const object = `{"id": 25769804127, "mod_time": 1773480413000, "title": "xtitlex", "type": "xtypex", "url": "https://sensor.example/xurlx",
		"status": "xstatusx", "resolution": "xresolutionx", "assignee": "xassigneex", "ticket_id": "xticketx", "ticket_url": "https://t.example/xticketx",
		"risk_score": 83, "categories": ["sec.exfil"], "participants": [{"object_type": "device", "object_id": 245, "role": "offender",
		"hostname": "xhostx", "username": "xuserx", "object_value": "203.0.113.77"}]}`
	const former = `{"status":"xstatusx-old","resolution":"xresolutionx-old","assignee":"xformerx","ticket_id":"xticketx-old","ticket_url":"https://t.example/xticketx-old","title":"xtitlex-old","type":"xtypex-old"}`
	added := transform.Enrichment{
		Devices: []byte(`[{"id":245,"display_name":"xdevicex","dns_name":"xhostx","ipaddr4":"203.0.113.77"}]`),
		Format:  "xdisplaynamex", Link: "https://sensor.example/xurlx",
	}
	var c collector
	c.fixtures()
	c.own()
	for member, value := range map[string]string{
		"visibility": `{"state":"hidden","rules":[{"id":12,"description":"xrulex","author":"xassigneex"}],"explanation":"hidden by rule 12"}`,
		"note":       `{"text":"xnotex","author":"xassigneex"}`,
		"context":    `{"devices":[{"id":245,"name":"xcontextx","ipaddr":"203.0.113.77"}]}`,
		"evidence":   `{"total":1,"records":[{"_source":{"host":"xrecordx","clientAddr":"203.0.113.77","user":"xuserx"}}]}`,
		"related":    `[{"id":8,"title":"xrelatedx"}]`,
	} {
		kind := map[string]string{"visibility": "hidden", "note": "noted", "related": "evidence"}[member]
		c.followUp("secretive/"+member, object, cmp.Or(kind, member), member, value)
	}
	before := require.Value(transform.ParseRule([]byte(`{"id":12,"detection_types":["xhiddentypex"],"description":"x","offender":{"object_value":"xruleoffenderx"}}`)))(t)
	after := require.Value(transform.ParseRule([]byte(`{"id":12,"detection_types":["x"],"description":"about xuserx","offender":"Any"}`)))(t)
	for _, r := range []transform.RuleChange{{Action: "removed", Rule: before}, {Action: "updated", Rule: after, Before: before}, {Action: "updated", Rule: before, Before: after}} {
		e, err := hq.Rule(r, recorded)
		c.add("secretive/rule."+r.Action, e, err)
	}
	c.detection("secretive/created", object, transform.Observation{Created: true, Added: added})
	c.detection("secretive/updated", object, transform.Observation{Before: []byte(former), Added: added})
	assignee := "xassigneex"
	command := transform.Ticket{Command: 17, TicketID: "xticketx", DetectionID: 25769804127, Status: "xstatusx", Resolution: "xresolutionx", Assignee: &assignee}
	e, err := hq.TicketResult(command, recorded)
	c.add("secretive/ticket.applied", e, err)
	command.Reason = "write ticket xticketx: no xassigneex, xstatusx or xresolutionx"
	e, err = hq.TicketResult(command, recorded)
	c.add("secretive/ticket.rejected", e, err)
	e, err = bridge.MessageRefused(transform.RefusedMessage{Message: "stream TICKETS, message 42", Reason: command.Reason, Sent: recorded}, recorded)
	c.add("secretive/ticket.rejected message", e, err)
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.kinds, values
}

func TestARedactedValueIsInNoDocument(t *testing.T) {
	events, values := secretive(t)
	for field, hidden := range values {
		redaction := require.Value(transform.ParseRedaction([]string{field}))(t)
		for _, name := range Names() {
			t.Run(field+" in "+string(name), func(t *testing.T) {
				encode := func(e transform.Event) transform.Event { return e }
				if name != CloudEvents {
					encoder := require.Value(New(name, Options{Version: "1.4.0"}))(t)
					encode = encoder.Encode
				}
				found := map[string]bool{}
				for _, k := range events {
					before := encode(k.event).Payload()
					redacted := require.Value(redaction.Apply(k.event))(t)
					after := encode(redacted).Payload()
					for _, value := range hidden {
						found[value] = found[value] || bytes.Contains(before, []byte(value))
						assert.False(t, bytes.Contains(after, []byte(value)), k.name, "holds", value, string(after))
					}
					if strings.HasPrefix(k.name, "own/") && !strings.Contains(k.name, "ticket") && !strings.Contains(k.name, "rule") && !strings.Contains(k.name, "note") && !bytes.Equal(before, after) {
						t.Errorf("%s was changed: %s", k.name, after)
					}
				}
				for value, there := range found {
					if !there && name == CloudEvents {
						t.Errorf("no event held %s", value)
					}
				}
			})
		}
	}
}
