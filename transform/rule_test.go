package transform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func parseRule(t *testing.T, object string) transform.Rule {
	t.Helper()
	return require.Value(transform.ParseRule([]byte(object)))(t)
}

const tuned = `{"id": 9007199254740993, "author": "ada", "create_time": 1773479898715, "description": "Scans <at> night", "detection_type": "port_scan", ` +
	`"enabled": true, "expiration": null, "offender": {"object_type": "ipaddr", "object_value": ["192.0.2.7", "10.0.0.0/8"]}, "victim": "Any", ` +
	`"properties": [{"property": "uris", "operator": "=", "operand": "b"}, {"property": "hacking_tool", "operator": "~", "operand": "a"}], ` +
	`"detections_hidden": 7, "participants_hidden": 9}`

func TestTheFieldsOfARuleThatPeopleChange(t *testing.T) {
	for name, c := range map[string]struct{ old, new, changes string }{
		"none if only counters differ": {`"detections_hidden": 7, "participants_hidden": 9`, `"detections_hidden": 9007199254740993`, ``},
		"a property that is gone":      {`{"property": "uris", "operator": "=", "operand": "b"}, `, ``, `{"properties":{"from":[{"operand":"a","operator":"~","property":"hacking_tool"},{"operand":"b","operator":"=","property":"uris"}],"to":[{"operand":"a","operator":"~","property":"hacking_tool"}]}}`},
		"none if properties are reordered": {
			`{"property": "uris", "operator": "=", "operand": "b"}, {"property": "hacking_tool", "operator": "~", "operand": "a"}`,
			`{"property": "hacking_tool", "operator": "~", "operand": "a"}, {"property": "uris", "operator": "=", "operand": "b"}`, ``,
		},
		"none if members are reordered":      {`"object_type": "ipaddr", "object_value": ["192.0.2.7", "10.0.0.0/8"]`, `"object_value": [ "10.0.0.0/8","192.0.2.7"],"object_type":"ipaddr"`, ``},
		"none if text is escaped":            {`Scans <at> night`, `Scans \u003cat\u003e night`, ``},
		"none if the types become a list":    {`"detection_type": "port_scan"`, `"detection_types": ["port_scan"]`, ``},
		"none if both say the same":          {`"detection_type": "port_scan"`, `"detection_type": "port_scan", "detection_types": ["port_scan"]`, ``},
		"none if 0 is written for never":     {`"expiration": null`, `"expiration": 0`, ``},
		"none if an upgrade adds a field":    {`"enabled": true`, `"enabled": true, "hide_past_detections": true, "mod_time": 5`, ``},
		"a type that joins":                  {`"detection_type": "port_scan"`, `"detection_types": ["sweep", "port_scan"], "detection_type": "sweep"`, `{"detection_types":{"from":["port_scan"],"to":["port_scan","sweep"]}}`},
		"an end":                             {`"expiration": null`, `"expiration": 1774084698715`, `{"expiration":{"from":null,"to":1774084698715}}`},
		"off":                                {`"enabled": true`, `"enabled": false`, `{"enabled":{"from":true,"to":false}}`},
		"an id that differs in the last bit": {`{"object_type": "ipaddr", "object_value": ["192.0.2.7", "10.0.0.0/8"]}`, `{"object_type":"device","object_id":9007199254740993}`, `{"offender":{"from":{"object_type":"ipaddr","object_value":["10.0.0.0/8","192.0.2.7"]},"to":{"object_id":9007199254740993,"object_type":"device"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := parseRule(t, tuned)
			require.True(t, strings.Contains(tuned, c.old), c.old)
			after := parseRule(t, strings.Replace(tuned, c.old, c.new, 1))
			assert.Equal(t, after.Differs(before), c.changes != "", "differs")
			e := require.Value(encoder.Rule(transform.RuleChange{Action: "updated", Rule: after, Before: before}, recorded))(t)
			var data struct{ Changes json.RawMessage }
			require.NoError(t, json.Unmarshal(e.Data(), &data))
			want := c.changes
			if want == "" {
				want = "{}"
			}
			assert.Equal(t, string(data.Changes), want)
		})
	}
}

func TestRuleEvents(t *testing.T) {
	rule := parseRule(t, tuned)
	const shown = `{"detection_types":["port_scan"],"offender":{"object_type":"ipaddr","object_value":["10.0.0.0/8","192.0.2.7"]},"victim":"Any",` +
		`"properties":[{"operand":"a","operator":"~","property":"hacking_tool"},{"operand":"b","operator":"=","property":"uris"}],"enabled":true,` +
		`"description":"Scans <at> night","id":9007199254740993,"author":"ada","create_time":1773479898715`
	const counters = `,"detections_hidden":7,"participants_hidden":9`
	for name, c := range map[string]struct {
		action string
		rule   transform.Rule
		by     string
		data   string
		number int32
	}{
		"a new one shows how much it hides":             {"created", rule, "", `{"rule":` + shown + counters + `}}`, 13},
		"a new one that the bridge made shows for whom": {"created", rule, `an "a"`, `{"rule":` + shown + counters + `,"by":"an \"a\""}}`, 13},
		"an old one ends":                               {"expired", rule, "", `{"rule":` + shown + counters + `}}`, 9},
		"one that is gone is shown as it is remembered": {"removed", parseRule(t, string(rule.Fields)), "", `{"rule":` + shown + `}}`, 9},
	} {
		t.Run(name, func(t *testing.T) {
			e := require.Value(encoder.Rule(transform.RuleChange{Action: c.action, Rule: c.rule, By: c.by}, recorded))(t)
			want := ownAttributes("rule."+c.action+"-9007199254740993-1795222923004", "rule."+c.action)
			want.Subject = "9007199254740993"
			expect(t, e, want, c.data)
			assert.Equal(t, e.SeverityNumber, c.number)
		})
	}
	t.Run("many are gone at once", func(t *testing.T) {
		e := require.Value(encoder.RulesRemoved([]string{"9007199254740993", "12"}, recorded))(t)
		expect(t, e, ownAttributes("rule.removed-all-2-1795222923004", "rule.removed"), `{"rules":[9007199254740993,12]}`)
	})
}

func TestARuleIsBoundedAndStaysTheSameWhenItIsRemembered(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	object := fmt.Sprintf(`{"id": 5, "description": %q, "description": %q, "properties": %s, "offender": {"object_value": [%q]}, "detection_types": [%q], "detections_hidden": %q}`,
		long, long, deep, long, long, long)
	rule := parseRule(t, object)
	assert.True(t, len(rule.Fields) < 20<<10, len(rule.Fields), "bytes")
	again := parseRule(t, string(rule.Fields))
	assert.Equal(t, string(again.Fields), string(rule.Fields))
	assert.False(t, again.Differs(rule))
	assert.True(t, parseRule(t, strings.Replace(object, `xx"]}, "detection_types`, `xy"]}, "detection_types`, 1)).Differs(rule), "the last byte is compared, too")
	e := require.Value(encoder.Rule(transform.RuleChange{Action: "created", Rule: rule}, recorded))(t)
	assert.True(t, json.Valid(e.Data()) && len(e.Data()) < 20<<10, len(e.Data()), "bytes of data")
}

func TestRedactionOfARuleRedactsItsChanges(t *testing.T) {
	before := parseRule(t, `{"id":7,"description":"old","enabled":true}`)
	e := require.Value(encoder.Rule(transform.RuleChange{Action: "updated", Rule: parseRule(t, `{"id":7,"description":"new","enabled":false}`), Before: before}, recorded))(t)
	for path, want := range map[string]string{
		"rule.description": `{"rule":{"enabled":false,"id":7},"changes":{"enabled":{"from":true,"to":false}}}`,
		"rule":             `{"changes":{}}`,
	} {
		redacted := require.Value(require.Value(transform.ParseRedaction([]string{path}))(t).Apply(e))(t)
		assert.Equal(t, string(redacted.Data()), want, path)
	}
}

func TestARuleWithoutAnIDIsInvalid(t *testing.T) {
	for _, object := range []string{`{}`, `{"id": null}`, `{"id": "x"}`, `{"id": 1.5}`, `{"id": 18446744073709551616}`} {
		_, err := transform.ParseRule([]byte(object))
		require.True(t, err != nil, object)
		assert.True(t, strings.HasPrefix(err.Error(), "id: "), err)
	}
}

func TestBlindSpotEvents(t *testing.T) {
	since := time.Date(2026, 3, 14, 9, 31, 0, 0, time.UTC)
	object := `{"id": 9007199254740993, "name": "Patch <day>", "start": 5, "name": "Patch day", "mod_time": 1, "description": null}`
	spot := transform.BlindSpot(transform.BlindInterval, since, since.Add(time.Hour), []byte(object))
	const shown = `{"kind":"exclusion_interval","since":"2026-03-14T09:31:00.000Z","until":"2026-03-14T10:31:00.000Z","id":9007199254740993,"name":"Patch day","start":5}`
	for _, c := range []struct {
		open bool
		kind string
	}{{true, "blindspot.opened"}, {false, "blindspot.closed"}} {
		t.Run(c.kind, func(t *testing.T) {
			e := require.Value(encoder.BlindSpot(c.open, transform.BlindInterval, "9007199254740993", spot, recorded))(t)
			want := ownAttributes(c.kind+"-exclusion_interval-9007199254740993-1795222923004", c.kind)
			want.Subject = "9007199254740993"
			expect(t, e, want, `{"blindspot":`+shown+`}`)
		})
	}
	assert.Equal(t, string(transform.BlindSpot(transform.BlindIngest, since, time.Time{}, []byte(`{"ingest_enabled":false}`))),
		`{"kind":"record_ingest","since":"2026-03-14T09:31:00.000Z"}`)
}
