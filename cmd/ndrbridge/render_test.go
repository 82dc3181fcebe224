package main

import (
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
)

const presetSinks = `
appliances:
  - {name: hq, url: "https://sensor.example", api_key: s3cret-key}
sinks:
  - {name: oncall, webhook: {preset: pagerduty, key: s3cret-routing}, match: "detection.risk_score >= 80"}
  - {name: chat, webhook: {preset: slack, url: "https://hooks.slack.com/services/T0/B0/s3cret-and-some-more-of-it"}}
  - {name: alerts, webhook: {preset: slack, url: "https://slack.com/api/chat.postMessage", key: s3cret-bot, channel: C1}}
  - {name: index, webhook: {preset: elasticsearch, url: "https://es.example:9200/ndr"}}
  - {name: tickets, webhook: {url: "https://tickets.example/in?key=s3cret", method: PUT, template: '{"title": {{json .detection.title}}}'}, match: "detection.risk_score >= 80"}
  - {name: soc, webhook: {url: "https://soc.example"}}
  - {name: siem, webhook: {url: "https://siem.example/in"}, mode: batch, format: ecs, redact: [detection.title]}
  - {name: lake, kafka: {brokers: ["kafka.example:9092"]}, format: ecs}
`

func TestRenderCommand(t *testing.T) {
	config := writeFile(t, "ndrbridge.yaml", presetSinks, 0o600)
	events := strings.Join([]string{highLine, "", lowLine, textLine, auditLine}, "\n")
	for _, test := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		starts int      // requests
		want   []string // in what is printed
		stderr string
	}{
		{"a body is indented", []string{"slack"}, highLine, commandline.ExitDone,
			1, []string{"POST https://slack.example/*** with 1 event\n{\n  \"text\": "}, ""},
		{"events that come at once share a message", []string{"slack"}, events, commandline.ExitDone,
			1, []string{"with 4 events\n"}, ""},
		{"they can come one by one", []string{"slack", "--batch", "1"}, events, commandline.ExitDone,
			4, []string{"with 1 event\n"}, ""},
		{"a key that is in the body is hidden", []string{"pagerduty", "-c", config}, events, commandline.ExitDone,
			2, []string{"POST https://events.pagerduty.com/v2/enqueue with 1 event\n", `"routing_key": "[redacted]"`}, "no such overload"},
		{"documents stand a line each", []string{"elasticsearch", "-c", config}, highLine + "\n" + lowLine, commandline.ExitDone,
			1, []string{"POST https://es.example:9200/ndr/_bulk?*** with 2 events\n" + `{"create":{"_id":"hq/detections/1-5"}}` + "\n" + `{"@timestamp":`}, ""},
		{"objects that follow each other do, too", []string{"splunk_hec"}, highLine + "\n" + lowLine, commandline.ExitDone,
			1, []string{"/services/collector/event with 2 events\n{\"", "}\n{\""}, ""},
		{"a sink of several can be named", []string{"slack", "-c", config, "--sink", "alerts"}, highLine, commandline.ExitDone,
			1, []string{"POST https://slack.com/*** with", `"channel": "C1"`}, ""},
		{"one of several must be", []string{"slack", "-c", config}, highLine, commandline.ExitUsage,
			0, nil, "several sinks have preset slack; select one with --sink: chat, alerts"},
		{"a sink that has another preset is none", []string{"slack", "-c", config, "--sink", "index"}, highLine, commandline.ExitFailed,
			0, nil, "has no sink index with preset slack"},
		{"a sink is one of a configuration", []string{"slack", "--sink", "chat"}, highLine, commandline.ExitUsage,
			0, nil, "--sink requires --config"},
		{"a sink with a template needs no preset", []string{"-c", config, "--sink", "tickets"}, highLine + "\n" + lowLine, commandline.ExitDone,
			0, []string{"PUT https://tickets.example/***?*** with 1 event\n{\n  \"title\": "}, ""},
		{"a preset may go unsaid, too", []string{"-c", config, "--sink", "index"}, highLine, commandline.ExitDone,
			1, []string{"POST https://es.example:9200/ndr/_bulk"}, ""},
		{"one of several must be named then, as well", []string{"-c", config}, highLine, commandline.ExitUsage,
			0, nil, "several sinks have a preset, a template, tickets or another format; select one with --sink: oncall, chat, alerts, index, tickets, siem, lake"},
		{"a sink that has neither is none", []string{"-c", config, "--sink", "soc"}, highLine, commandline.ExitFailed,
			0, nil, "has no sink soc with a preset, a template, tickets or another format"},
		{"the documents of a batch", []string{"-c", config, "--sink", "siem"}, highLine + "\n" + lowLine, commandline.ExitDone,
			1, []string{"POST https://siem.example/*** with 2 events\n[\n  {\n    \"@timestamp\": "}, ""},
		{"the documents of another sink", []string{"-c", config, "--sink", "lake"}, highLine + "\n" + lowLine, commandline.ExitDone,
			0, []string{"kafka lake with 1 event\n{\n  \"@timestamp\": "}, ""},
		{"the documents of a format", []string{"--format", "ecs"}, highLine, commandline.ExitDone,
			0, []string{"file - with 1 event\n{\n  \"@timestamp\": "}, ""},
		{"a preset with a format", []string{"splunk_hec", "--format", "ecs"}, highLine, commandline.ExitDone,
			1, []string{`"sourcetype": "ndrbridge:detection:ecs"`, `"@timestamp": `}, ""},
		{"a preset of its own shape has no format", []string{"slack", "--format", "ecs"}, highLine, commandline.ExitUsage,
			0, nil, "ecs is not supported by preset slack"},
		{"an unknown format", []string{"--format", "gelf"}, highLine, commandline.ExitUsage,
			0, nil, `"gelf" is not one of cloudevents, ocsf, ecs, cef, leef`},
		{"a sink of a configuration has its format", []string{"-c", config, "--sink", "lake", "--format", "ecs"}, highLine, commandline.ExitUsage,
			0, nil, "--format cannot be combined with --config"},
		{"a preset or a configuration is needed", nil, highLine, commandline.ExitUsage, 0, nil, "requires a preset, --config or --format"},
		{"nothing is sent for nothing", []string{"teams"}, "", commandline.ExitDone, 0, nil, ""},
		{"an example event", []string{"teams", "--fixture", "detection.created"}, "", commandline.ExitDone, 1, []string{"with 1 event"}, ""},
		{"an unknown example", []string{"teams", "--fixture", "x"}, "", commandline.ExitUsage, 0, nil, `there is no fixture "x"`},
		{"a line that is not an event ends it", []string{"teams"}, highLine + "\n{}", commandline.ExitFailed, 0, nil, "line 2: not an event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := new(command).try(t, test.stdin, append([]string{"try", "render"}, test.args...)...)
			if code != test.code || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Fatalf("exit code %d, want %d\nstderr %q, want %q", code, test.code, stderr, test.stderr)
			}
			if starts := strings.Count(stdout, "POST "); starts != test.starts {
				t.Errorf("%d requests, want %d", starts, test.starts)
			}
			for _, want := range test.want {
				assert.Contains(t, stdout, want)
			}
			assert.NotContains(t, stdout, "s3cret", "a secret is shown")
		})
	}
	for _, preset := range presets.Names() {
		t.Run(preset+" needs no configuration", func(t *testing.T) {
			code, stdout, stderr := (&command{terminal: true}).try(t, events, "try", "render", preset)
			if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "POST https://") {
				t.Errorf("exit code %d: %s\nit prints %s", code, stderr, stdout)
			}
		})
	}
}

func TestShownBody(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"one value is indented, its numbers and texts as they came", `{"a":1.10,"b":"\u00e9"}`, "{\n  \"a\": 1.10,\n  \"b\": \"\\u00e9\"\n}\n"},
		{"several are a line each", `{"a":1}{"b":2}`, "{\"a\":1}\n{\"b\":2}\n"},
		{"lines stay lines", "{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}\n{\"b\":2}\n"},
		{"anything but JSON stays as it is", "a=b", "a=b\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, shownBody([]byte(test.body)), test.want)
		})
	}
	t.Run("control characters are replaced", func(t *testing.T) {
		assert.Equal(t, printableLines("a\u009b2J\nb\n"), "a 2J\nb\n")
	})
}

func FuzzABodyIsPrintedWithoutControlCharacters(f *testing.F) {
	f.Add("\x1b[2J")
	f.Add("a\u009b31mb\r\n")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range strings.ReplaceAll(bodyText([]byte(text)), "\n", "") {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q is printed as %q", text, bodyText([]byte(text)))
			}
		}
	})
}

func TestRenderNeedsNoSinkOfTheConfigurationInTheEnvironment(t *testing.T) {
	config := writeFile(t, "ndrbridge.yaml", presetSinks, 0o600)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"a preset that no sink has", []string{"discord"}, "POST https://discord"},
		{"a preset that a sink has", []string{"elasticsearch"}, "POST https://es.example:9200/ndr/"},
		{"a format", []string{"--format", "ecs"}, "file - with 1 event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := &command{environ: []string{"NDRBRIDGE_CONFIG=" + config}}
			code, stdout, stderr := command.try(t, highLine, append([]string{"try", "render"}, test.args...)...)
			assert.Equal(t, code, commandline.ExitDone, stderr, "exit code")
			assert.Contains(t, stdout, test.want, stderr, "it prints")
		})
	}
}
