package pagerduty

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/fixture"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

const key = "0123456789abcdef0123456789abcdef"

func at(url string) (*webhook.Preset, error) {
	return Spec().Open(webhook.PresetSettings{URL: url + "/v2/enqueue", Key: key})
}

// pager answers as PagerDuty does, and keeps the alerts.
type pager struct {
	alerts  map[string]string // the state of each, by its key
	changes int
}

func newPager() *pager { return &pager{alerts: map[string]string{}} }

func (p *pager) answer(r presettest.Request) presettest.Reply {
	var m struct {
		RoutingKey  string `json:"routing_key"`
		EventAction string `json:"event_action"`
		DedupKey    string `json:"dedup_key"`
		Payload     struct{ Summary, Source, Severity, Timestamp string }
		Links       []struct{ Href, Text string }
	}
	invalid := func(why string) presettest.Reply {
		return presettest.Reply{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"status":"invalid event","message":"Event object is invalid","errors":[%q]}`, why)}
	}
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return invalid(err.Error())
	}
	change := r.Path == "/v2/change/enqueue"
	_, timeErr := time.Parse(time.RFC3339, m.Payload.Timestamp)
	switch {
	case len(r.Body) > 512<<10:
		return presettest.Reply{Status: http.StatusRequestEntityTooLarge}
	case m.RoutingKey != key:
		return invalid("Length of 'routing_key' is incorrect (should be 32 characters)")
	case m.Payload.Summary == "" || len([]rune(m.Payload.Summary)) > 1024 || m.Payload.Source == "":
		return invalid("payload")
	case timeErr != nil:
		return invalid(timeErr.Error())
	case change && (m.EventAction != "" || m.DedupKey != "" || m.Payload.Severity != ""):
		return invalid("a change has no action")
	case change:
		p.changes++
		return presettest.Reply{Status: http.StatusAccepted, Body: `{"status":"success"}`}
	case r.Path != "/v2/enqueue":
		return presettest.Reply{Status: http.StatusNotFound}
	case len(m.DedupKey) > 255 || m.DedupKey == "":
		return invalid("dedup_key")
	case !slices.Contains([]string{"critical", "error", "warning", "info"}, m.Payload.Severity):
		return invalid("payload.severity")
	case !slices.Contains([]string{"trigger", "acknowledge", "resolve"}, m.EventAction):
		return invalid("event_action")
	}
	p.alerts[m.DedupKey] = m.EventAction
	return presettest.Reply{Status: http.StatusAccepted, Body: `{"status":"success","dedup_key":"` + m.DedupKey + `"}`}
}

func TestEveryKindOfEventIsAnAlertOrAChange(t *testing.T) {
	presettest.EveryKind(t, func() func(presettest.Request) presettest.Reply { return newPager().answer }, at)
}

func TestAnAlertLivesAsItsDetectionDoes(t *testing.T) {
	byName := map[string]transform.Event{}
	for _, kind := range presettest.Events(t) {
		byName[kind.Name] = kind.Event
	}
	byName["context of a closed detection"] = require.Value(fixture.Event(fixture.Spec{Name: "detection.context", Set: map[string]any{"status": "closed"}}))(t)
	byName["shown again, closed"] = require.Value(fixture.Event(fixture.Spec{Name: "detection.shown", Set: map[string]any{"status": "closed"}}))(t)
	const scan, unreachable = "hq/detections/25769804201", "hq/events/unreachable"
	p := newPager()
	s := presettest.Serve(t, p.answer)
	for _, step := range []struct{ name, alert, state string }{
		{"detection-created", scan, "trigger"},
		{"detection-in-progress", scan, "acknowledge"},
		{"detection-closed", scan, "resolve"},
		{"detection-created", scan, "trigger"},
		{"detection-hidden", scan, "resolve"},
		{"detection-noted", scan, "resolve"},
		{"detection-shown", scan, "trigger"},
		{"detection-gone", scan, "resolve"},
		{"detection-context", scan, "trigger"},
		{"context of a closed detection", "hq/detections/25769804127", "resolve"},
		{"shown again, closed", "hq/detections/25769804127", "resolve"},
		{"blindspot-opened", "hq/events/blindspot/exclusion_interval/7", "trigger"},
		{"blindspot-closed", "hq/events/blindspot/exclusion_interval/7", "resolve"},
		{"unreachable", unreachable, "trigger"},
		{"reachable", unreachable, "resolve"},
		{"sink-halted", "hq/events/halted/lake", "trigger"},
		{"sink-resumed", "hq/events/halted/lake", "resolve"},
	} {
		require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), byName[step.name]))
		if p.alerts[step.alert] != step.state {
			t.Errorf("after %s: %v, want %s", step.name, p.alerts, step.state)
		}
	}
	for _, quiet := range []string{
		"audit", "record", "heartbeat", "detection-noted", "detection-evidence", "rule-created", "rule-updated", "rules-removed",
	} {
		before := p.changes
		require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), byName[quiet]))
		if p.changes != before+1 {
			t.Errorf("%s is not a change event", quiet)
		}
	}
	if len(p.alerts) != 5 {
		t.Errorf("alerts: %v", p.alerts)
	}
}

func TestTheAlertOfATestIsOfTheLowestSeverityAndResolvesAtOnce(t *testing.T) {
	p := newPager()
	s := presettest.Serve(t, p.answer)
	e := require.Value(transform.Encoder{Appliance: transform.Bridge}.SinkTest("soc", time.Unix(1773480000, 0)))(t)
	preset := presettest.Open(t, at, s.URL)
	require.NoError(t, presettest.Send(t, s.URL, preset, e))
	require.Equal(t, len(s.Requests()), 2, "requests")
	var keys []string
	for i, action := range []string{"trigger", "resolve"} {
		var m message
		require.NoError(t, json.Unmarshal(s.Requests()[i].Body, &m))
		assert.Equal(t, m.EventAction, action)
		assert.Equal(t, m.Payload.Severity, "info", action)
		assert.Equal(t, m.Payload.Summary, transform.TestTitle, action)
		keys = append(keys, m.DedupKey)
	}
	assert.Equal(t, keys[0], keys[1], "key")
	assert.Equal(t, p.alerts[keys[0]], "resolve", "the alert")
}

func TestARedeliveredVersionReopensItsAlertUntilALaterOneResolvesIt(t *testing.T) {
	p := newPager()
	s := presettest.Serve(t, p.answer)
	all := presettest.Events(t)
	created, closed := all[0].Event, all[1].Event
	for i, step := range []struct {
		event transform.Event
		state string
	}{{created, "trigger"}, {closed, "resolve"}, {created.Redeliver(1), "trigger"}, {closed.Redeliver(1), "resolve"}} {
		require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), step.event))
		assert.Equal(t, p.alerts["hq/detections/25769804201"], step.state, "step", i)
	}
}

func TestASlashBehindTheURLDoesNotCount(t *testing.T) {
	p := newPager()
	s := presettest.Serve(t, p.answer)
	preset := require.Value(Spec().Open(webhook.PresetSettings{URL: s.URL + "/v2/enqueue/", Key: key}))(t)
	if err := presettest.Send(t, s.URL, preset, presettest.Only(presettest.Events(t))...); err != nil || p.changes == 0 || len(p.alerts) == 0 {
		t.Errorf("%d changes, %d alerts: %v", p.changes, len(p.alerts), err)
	}
}

func TestEachEventOfABurstIsARequest(t *testing.T) {
	p := newPager()
	s := presettest.Serve(t, p.answer)
	require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), presettest.Burst(t, 40)...))
	assert.Equal(t, len(p.alerts), 36, "alerts")
	assert.Equal(t, len(s.Requests()), 40, "requests")
}

func TestEventsAcceptedBeforeA429AreNotSentAgain(t *testing.T) {
	n := 0
	s := presettest.Serve(t, func(presettest.Request) presettest.Reply {
		if n++; n > 3 {
			return presettest.Reply{Status: 429, Header: map[string]string{"Retry-After": "60"}}
		}
		return presettest.Reply{Status: 202}
	})
	err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), presettest.Burst(t, 8)...)
	each, ok := err.(failure.EventErrors)
	if !ok || len(each) != 8 || n != 4 {
		t.Fatalf("%d requests: %v", n, err)
	}
	for i, err := range each {
		class, wait := presettest.Result(err)
		if i < 3 && err != nil || i >= 3 && (class != failure.Throttled || wait != time.Minute) {
			t.Errorf("event %d: %v", i, err)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	p := newPager()
	s := presettest.Serve(t, p.answer)
	for _, text := range presettest.Hostile {
		if err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), presettest.Titled(t, strings.Repeat(text, 5))); err != nil {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}

func TestPagerDutysAnswers(t *testing.T) {
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	presettest.Answers(t, presettest.Events(t)[0].Event, at, []presettest.Case{
		{Name: "accepted is durable", Reply: text(202, `{"status":"success"}`)},
		{Name: "an invalid event is rejected", Reply: text(400, `{"status":"invalid event","errors":["'payload.severity' is invalid"]}`), Class: failure.Rejected},
		{Name: "a key of the wrong length halts", Reply: text(400, `{"status":"invalid event","errors":["Length of 'routing_key' is incorrect (should be 32 characters)"]}`), Class: failure.Halted},
		{Name: "a key that is not known halts", Reply: text(400, `{"status":"invalid event","message":"Invalid routing key","errors":[]}`), Class: failure.Halted},
		{Name: "too many wait", Reply: text(429, ""), Class: failure.Throttled},
		{Name: "a server that fails passes", Reply: text(500, ""), Class: failure.Transient},
	})
	s := presettest.Serve(t, func(r presettest.Request) presettest.Reply {
		return presettest.Reply{Status: 400, Body: string(r.Body)}
	})
	if err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), presettest.Events(t)[0].Event); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("the error shows the routing key, or there is none: %v", err)
	}
}

func TestARoutingKeyCannotBeChecked(t *testing.T) {
	presettest.Checks(t, []presettest.CheckTest{
		presettest.NoCheck("pagerduty", at),
	})
}
