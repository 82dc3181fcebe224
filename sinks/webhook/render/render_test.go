package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// event is a version of a detection with these fields.
func event(t require.T, fields string) transform.Event {
	e, err := transform.New(transform.Attributes{
		ID: "7-8", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", Subject: "7", PartitionKey: "7",
		Time: time.UnixMilli(1700000000000), Appliance: "hq", SeverityNumber: 17, SeverityText: "high",
	}, []byte(`{"detection":`+fields+`}`))
	require.NoError(t, err)
	return e
}

func TestRender(t *testing.T) {
	e := event(t, `{"id": 25769803828, "risk_score": 61, "ratio": 1.10, "title": "ICMP *Tunnel* <x>", "assignee": null, "empty": "",
		"categories": ["sec", "sec.command"], "big": 18446744073709551615, "participants": [{"role": "offender", "hostname": null}]}`)
	for _, test := range []struct{ name, template, want string }{
		{"attributes are those of the event", `{{.event.id}} {{.event.type}} {{.event.time}} {{.event.severitytext}}`, "7-8 io.ndrbridge.detection.created 2023-11-14T22:13:20.000Z high"},
		{"stream and action are beside them", `{{.event.stream}}/{{.event.action}}`, "detections/created"},
		{"members of data can be named at once", `{{.detection.id}} {{.data.detection.id}}`, "25769803828 25769803828"},
		{"numbers are as they came", `{{.detection.ratio}} {{.detection.big}} {{json .detection.ratio}}`, "1.10 18446744073709551615 1.10"},

		{"a missing key is empty", `[{{.detection.nothing}}]`, "[]"},
		{"null is empty", `[{{.detection.assignee}}]`, "[]"},
		{"what lies below a missing key is empty", `[{{.detection.nothing.at.all}}{{.nothing.at.all}}]`, "[]"},
		{"what lies below null is empty", `[{{.detection.assignee.name}}]`, "[]"},
		{"a missing key is empty within a loop, a condition and a block", `{{range .detection.participants}}[{{.hostname}}{{.x}}]{{end}}{{if true}}[{{.x}}]{{else}}{{end}}{{with .detection}}[{{.x}}]{{end}}{{block "b" .}}[{{.x}}]{{end}}`, "[][][][]"},
		{"a missing key is empty where a function writes it", `[{{print .x}}{{printf "%s%v" .x .x}}{{html .x}}{{js .x}}{{urlquery .x}}{{.x | html}}{{upper .x}}{{truncate 3 .x}}{{join "," .x}}{{markdownEscape .x}}]`, "[]"},
		{"a missing key is nothing to loop over", `{{range .detection.nothing}}x{{else}}none{{end}}`, "none"},
		{"a missing key is unlike a text", `{{eq .detection.nothing "x"}} {{ne .detection.assignee "x"}}`, "false true"},
		{"a variable may be missing", `{{$x := .detection.nothing}}[{{$x}}]`, "[]"},
		{"a text that looks like a missing key stays", `{{"<no value>"}}`, "<no value>"},

		{"json encodes any value", `{{json .detection.title}} {{json .detection.categories}} {{json .detection.nothing}}`, `"ICMP *Tunnel* <x>" ["sec","sec.command"] null`},
		{"markdownEscape takes the meaning from characters", `{{markdownEscape .detection.title}}`, `ICMP \*Tunnel\* \<x\>`},
		{"truncate counts characters", `{{truncate 4 "äöüßé"}} {{truncate 5 "äöüßé"}}`, "äöü… äöüßé"},
		{"default stands for what is absent", `{{default "nobody" .detection.assignee}} {{.detection.empty | default "none"}} {{default "x" .detection.id}}`, "nobody none 25769803828"},
		{"upper and lower change dead letters", `{{upper .event.stream}} {{lower .detection.title}}`, "DETECTIONS icmp *tunnel* <x>"},
		{"join joins a list", `{{join ", " .detection.categories}} {{.detection.id | join ","}}`, "sec, sec.command 25769803828"},
		{"int makes a number to compare", `{{if ge (int .detection.risk_score) 60}}high{{end}} {{int .detection.ratio}} {{int .x}}`, "high 1 0"},
		{"a severity number can be compared as it is", `{{ge .event.severitynumber 17}}`, "true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			template := require.Value(render.Compile(test.template, false))(t)
			got := require.Value(template.Render(e, 1<<10))(t)
			assert.Equal(t, string(got), test.want)
		})
	}
}

func TestCompileReportsMistakes(t *testing.T) {
	for _, test := range []struct {
		name, template string
		json           bool
		want           string
	}{
		{"an action that is not closed", "a\n{{.event.id", false, "line 2 of the template: unclosed action"},
		{"a function that is none", "{{shout .event.id}}", false, `function "shout" not defined`},
		{"a template that fails for every sample", `{{truncate 0 .event.id}}`, false, "for a sample of detections: line 1, column 3 of the template: <truncate 0 .event.id>: "},
		{"a field of a text", `{{.event.id.x}}`, false, "can't evaluate field x"},
		{"JSON with a text that is not quoted", `{"id": {{.event.id}}}`, true, "for a sample of detections: the output of the template is not valid JSON: byte 9: "},
		{"JSON with quotes around a text that may have some", `{"text":"{{.detection.title}}"}`, true, "for a sample of detections with quotes and backslashes in its texts: the output of the template is not valid JSON: byte 11: "},
		{"the same for a text of the audit log", `{"user": "{{.audit.body.user}}"}`, true, "write texts with the json function"},
		{"the same for a text within a list", `{"hosts": "{{range .detection.participants}}{{.hostname}} {{end}}"}`, true, "write texts with the json function"},
		{"the same for a text that is cut", `{"text":"{{truncate 9 .detection.description}}"}`, true, "write texts with the json function"},
		{"nothing where JSON is wanted", ``, true, "not valid JSON"},
		{"a template without an end", `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, false, "it loops too often"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := render.Compile(test.template, test.json); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	for _, template := range []string{
		`{"user": {{json .audit.body.user}}, "time": {{.audit.time}}}`, `{"bytes": {{.record._index | json}}, "at": {{.record._source.timestamp}}}`,
		`{"id": "{{.detection.id}}", "status": "{{.detection.status}}"}`,
	} {
		t.Run("a template for one stream alone passes: "+template, func(t *testing.T) {
			if _, err := render.Compile(template, true); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenderReportsMistakes(t *testing.T) {
	for _, test := range []struct{ name, template, fields, want string }{
		{"an invalid number", `{"n": {{int .detection.risk_score}}}`, `{"risk_score": "high"}`, `"high" is not a 64-bit number`},
		{"a number beyond 64 bits", `{"n": {{int .detection.risk_score}}}`, `{"risk_score": 1e999}`, "is not a 64-bit number"},
		{"a value that breaks the JSON", `{"n": {{.detection.risk_score}}}`, `{"risk_score": "high"}`, "not valid JSON: byte 7"},
		{"a text that is too long", `{{json .detection.title}}`, `{"title": "` + strings.Repeat("x", 99) + `"}`, "longer than allowed: 100 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			template := require.Value(render.Compile(test.template, true))(t)
			if _, err := template.Render(event(t, test.fields), 100); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	template := require.Value(render.Compile(`{{.detection.title}}`, false))(t)
	if _, err := template.Render(event(t, `{"title": "12345"}`), 4); !errors.Is(err, render.ErrTooLong) {
		t.Errorf("a text that is too long: %v", err)
	}
}

func TestAnyTitleIsTruncatedAndQuoted(t *testing.T) {
	template, err := render.Compile(`{"text": {{json (truncate 10 .detection.title)}}, "whole": {{json .detection.title}}}`, true)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		title := rapid.String().Draw(t, "title")
		quoted := require.Value(json.Marshal(title))(t)
		body := require.Value(template.Render(event(t, `{"title": `+string(quoted)+`}`), 1<<20))(t)
		var got struct{ Text, Whole string }
		require.NoError(t, json.Unmarshal(body, &got))
		assert.Equal(t, got.Whole, title, "became", got.Text)
		assert.True(t, utf8.RuneCountInString(got.Text) <= 10, "became", got.Text)
	})
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`{{.event.id}}`, `{{range $i, $p := .detection.participants}}{{$i}}{{else}}x{{end}}`, `{{with $x := .a}}{{$x.b}}{{end}}`,
		`{{define "a"}}{{.}}{{end}}{{template "a" .}}`, `{{- /* c */ -}}{{break}}`} {
		f.Add(seed)
	}
	e := event(f, `{"id": 1}`)
	f.Fuzz(func(t *testing.T, text string) {
		template, err := render.Compile(text, false)
		if err != nil {
			return
		}
		if out, err := template.Render(e, 1<<10); err == nil && len(out) > 1<<10 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
