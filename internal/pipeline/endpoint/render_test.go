package endpoint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestRender(t *testing.T) {
	events := []transform.Event{detectionEvent(t, 1, 20), detectionEvent(t, 2, 90), detectionEvent(t, 3, 95)}
	for _, test := range []struct {
		name, webhook, keys string
		urls                []string
		want                []string // in the first body
	}{
		{"slack", `preset: slack, url: "https://hooks.slack.com/services/T0/B0/s3cret-and-some-more-of-it"`, "",
			[]string{"https://hooks.slack.com/***"}, []string{"Port scan 1; ", "Port scan 2; ", `Port scan 3"`}},
		{"a bot of slack", `preset: slack, url: "https://slack.com/api/chat.postMessage", key: s3cret, channel: C1`, "",
			[]string{"https://slack.com/***", "https://slack.com/***", "https://slack.com/***"}, []string{`"channel":"C1"`}},
		{"teams", `preset: teams, url: "https://teams.example/workflows/x?sig=s3cret"`, "",
			[]string{"https://teams.example/***?***"}, []string{`"AdaptiveCard"`}},
		{"discord, which is asked to say what it kept", `preset: discord, url: "https://discord.com/api/webhooks/1/s3cret-and-some-more-of-it"`, "",
			[]string{"https://discord.com/***?***"}, []string{`"embeds"`}},
		{"pagerduty, an event a request, whose key is in the body", `preset: pagerduty, key: s3cret`, "",
			[]string{"https://events.pagerduty.com/v2/enqueue", "https://events.pagerduty.com/v2/enqueue", "https://events.pagerduty.com/v2/enqueue"}, []string{`"routing_key":"[redacted]"`, `"hq/detections/1"`}},
		{"splunk_hec", `preset: splunk_hec, url: "https://splunk.example:8088", key: s3cret, index: main, source_type: ndr`, "",
			[]string{"https://splunk.example:8088/services/collector/event"}, []string{`"index":"main"`, `"sourcetype":"ndr"`}},
		{"elasticsearch", `preset: elasticsearch, url: "https://es.example:9200/ndr", key: s3cret`, "",
			[]string{"https://es.example:9200/ndr/_bulk?***"}, []string{`{"create":{"_id":"hq/detections/1-1"}}`}},
		{"datadog", `preset: datadog, url: "https://intake.example/api/v2/logs", key: s3cret, service: ndr, tags: [env:prod]`, "",
			[]string{"https://intake.example/api/v2/logs"}, []string{`"ddtags":"appliance:hq,stream:detections,env:prod"`, `"service":"ndr"`}},
		{"sentinel", `preset: sentinel, url: "https://dce.example", rule_id: dcr-00000000000000000000000000000000, auth: {oauth: {token_url: "https://t", client_id: i, client_secret: s3cret}}`, "",
			[]string{"https://dce.example/dataCollectionRules/dcr-00000000000000000000000000000000/streams/Custom-NdrbridgeDetection?***"}, []string{`[{"specversion":"1.0"`}},
		{"what the match does not want is left out", `preset: pagerduty, key: s3cret`, `match: "detection.risk_score >= 90", `,
			[]string{"https://events.pagerduty.com/v2/enqueue", "https://events.pagerduty.com/v2/enqueue"}, []string{`"hq/detections/2"`}},
		{"what is redacted is not shown", `preset: elasticsearch, url: "https://es.example:9200/ndr"`, `redact: [detection.title], `,
			[]string{"https://es.example:9200/ndr/_bulk?***"}, []string{`"detection":{"id":1,"mod_time":1,"risk_score":20}`}},
		{"nothing is sent for nothing", `preset: pagerduty, key: s3cret`, `match: "false", `, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := renderer(t, test.keys+"webhook: {"+test.webhook+"}")
			var urls []string
			var bodies [][]byte
			carried := 0
			for request, err := range r.Render(events) {
				require.NoError(t, err)
				carried += request.Events
				urls = append(urls, request.URL)
				bodies = append(bodies, request.Body)
			}
			assert.Equal(t, strings.Join(urls, " "), strings.Join(test.urls, " "), "to", urls, test.urls)
			for _, want := range test.want {
				assert.True(t, bytes.Contains(bodies[0], []byte(want)), want, "is not in", string(bodies[0]))
			}
			all := bytes.Join(bodies, nil)
			assert.False(t, bytes.Contains(all, []byte("s3cret")), "a secret is shown", string(all))
			assert.True(t, test.keys != "" || carried == len(events), carried, "events are carried")
		})
	}

	t.Run("a template makes a request for each event that it does not fail for", func(t *testing.T) {
		r := renderer(t, `webhook: {url: "https://h.example/in?key=s3cret", method: PUT, template: '{{if eq (int .detection.risk_score) 90}}{{truncate 0 .event.id}}{{end}}{"id": {{.detection.id}}}'}`)
		var bodies []string
		failed := 0
		for request, err := range r.Render(events) {
			if err != nil {
				failed++
				continue
			}
			assert.True(t, request.Method == "PUT" && request.URL == "https://h.example/***?***" && request.Events == 1, request)
			bodies = append(bodies, string(request.Body))
		}
		assert.Equal(t, strings.Join(bodies, " "), `{"id": 1} {"id": 3}`, "bodies", bodies)
		assert.Equal(t, failed, 1, "bodies", bodies, "errors")
	})
	t.Run("an event that no service accepts is reported, and the others are shown", func(t *testing.T) {
		r := renderer(t, `webhook: {preset: datadog, url: "https://h.example", key: k}`)
		huge := detectionEvent(t, 7, 50, strings.Repeat("x", 1<<20))
		shown, failed := 0, 0
		for request, err := range r.Render([]transform.Event{events[0], huge, events[1]}) {
			if err == nil {
				shown += request.Events
				continue
			}
			failed++
			class, _ := failure.ClassOf(err)
			assert.Equal(t, class, failure.Rejected, err)
		}
		assert.Equal(t, shown, 2, "events shown")
		assert.Equal(t, failed, 1, "errors")
	})
	t.Run("an event on which the match fails is sent and reported", func(t *testing.T) {
		r := renderer(t, `match: 'detection["title"] > 5', webhook: {preset: pagerduty, key: k}`)
		shown, failed := 0, 0
		for _, err := range r.Render(events[:1]) {
			if err == nil {
				shown++
			} else {
				failed++
			}
		}
		assert.Equal(t, shown, 1, "shown")
		assert.Equal(t, failed, 1, "reported")
	})
	t.Run("the consumer may stop early", func(t *testing.T) {
		for range renderer(t, `webhook: {preset: pagerduty, key: k}`).Render(events) {
			break
		}
	})
	t.Run("a sink without preset and template shows CloudEvents", func(t *testing.T) {
		for _, s := range []configs.Sink{{File: &configs.File{}}, {Webhook: &configs.Webhook{MaxBodyBytes: configs.MiB}}} {
			r := require.Value(endpoint.NewRenderer(s, "test"))(t)
			for request, err := range r.Render(events[:1]) {
				assert.True(t, err == nil && string(request.Body) == string(events[0].Structured()), string(request.Body), err)
			}
		}
	})
	t.Run("a file with a key is not read", func(t *testing.T) {
		w := &configs.Webhook{Preset: "slack", Channel: "C1", URL: configs.NewURL("https://slack.com/api/chat.postMessage"), Key: configs.Secret{File: filepath.Join(t.TempDir(), "none")}}
		_, err := endpoint.NewRenderer(configs.Sink{Webhook: w}, "test")
		assert.NoError(t, err)
	})
}

func TestDecide(t *testing.T) {
	e := detectionEvent(t, 1, 50)
	for _, test := range []struct {
		name, keys string
		want       sinks.Verdict
		nothing    bool
		failed     string
	}{
		{"a sink without match sends everything", `file: {path: "-"}`, sinks.VerdictSend, false, ""},
		{"an event that matches is sent", `file: {path: "-"}, match: detection.risk_score >= 50`, sinks.VerdictSend, false, ""},
		{"an event that does not match is filtered", `file: {path: "-"}, match: detection.risk_score > 50`, sinks.VerdictFilter, false, ""},
		{"an event for which match fails is sent", `file: {path: "-"}, match: 'detection["title"] > 5'`, sinks.VerdictSend, false, "no such overload"},
		{"an event for which match fails is dropped", `file: {path: "-"}, on_error: drop, match: 'detection["title"] > 5'`, sinks.VerdictFilter, false, "no such overload"},
		{"an event for which match fails becomes a dead letter", `file: {path: "-"}, on_error: dead_letter, match: 'detection["title"] > 5'`, sinks.VerdictDeadLetter, false, "no such overload"},
		{"an event that a template cannot render becomes a dead letter", `webhook: {url: "https://h", template: '{{json (index .detection.categories 1)}}'}`, sinks.VerdictDeadLetter, false, "nil"},
		{"a detection opens a ticket", `webhook: {url: "https://h", auth: {username: u, password: p}, ticket: {system: jira, project: SEC, link: false}}`, sinks.VerdictSend, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := renderer(t, test.keys).Decide(e)
			if d.Verdict != test.want || d.Nothing != test.nothing || (d.Err != nil) != (test.failed != "") || d.Err != nil && !strings.Contains(d.Err.Error(), test.failed) {
				t.Errorf("%+v", d)
			}
		})
	}
	t.Run("an audit log entry opens no ticket", func(t *testing.T) {
		entry, err := transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/audit", Type: "a.b"}, []byte(`{"audit":{}}`))
		require.NoError(t, err)
		r := renderer(t, `webhook: {url: "https://h", auth: {username: u, password: p}, ticket: {system: jira, project: SEC, link: false}}`)
		d := r.Decide(entry)
		assert.True(t, d.Verdict == sinks.VerdictSend && d.Nothing && d.Err == nil, d)
	})
}

func TestRenderShowsTheRequestThatOpensATicket(t *testing.T) {
	r := renderer(t, `webhook: {url: "https://corp.example", ticket: {system: jira, project: SEC, link: false}}`)
	n := 0
	for request, err := range r.Render([]transform.Event{detectionEvent(t, 1, 90), detectionEvent(t, 2, 90)}) {
		require.NoError(t, err)
		if n++; request.URL != "https://corp.example/rest/api/3/issue" || !strings.Contains(string(request.Body), fmt.Sprintf(`"ndrbridge-hq-%d"`, n)) {
			t.Errorf("%s: %s", request.URL, request.Body)
		}
	}
	assert.Equal(t, n, 2, "requests")
}

// renderer returns the renderer of a sink with these keys.
func renderer(t *testing.T, keys string) *endpoint.Renderer {
	t.Helper()
	yaml := "state: /none/state.db\nappliances: [{name: hq, url: https://sensor.example, api_key: key}]\nsinks:\n  - {name: s, " + keys + "}\n"
	config := require.Value(configs.Parse("test.yaml", []byte(yaml), nil))(t)
	r := require.Value(endpoint.NewRenderer(config.Sinks[0], "test"))(t)
	return r
}

// detectionEvent returns the event of a detection, whose title ends with more.
func detectionEvent(t *testing.T, id, risk int, more ...string) transform.Event {
	t.Helper()
	type object map[string]any
	text, err := json.Marshal(object{"id": id, "mod_time": id, "risk_score": risk, "title": strings.Join(append([]string{"Port scan", strconv.Itoa(id)}, more...), " ")})
	require.NoError(t, err)
	d := require.Value(transform.ParseDetection(text, false))(t)
	e, err := transform.Encoder{Appliance: "hq"}.Detection(d, transform.Observation{Created: true, Recorded: time.UnixMilli(1)})
	require.NoError(t, err)
	return e
}
