package routing_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/internal/fixture"
	"ndrbridge/internal/pipeline/routing"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const sinks = `
appliances: [{name: lab, url: "https://sensor.example", api_key_file: /nonexistent/key}]
sinks:
  - {name: lake, file: {path: "-"}}
  - {name: chat, webhook: {preset: slack, url: "https://hooks.slack.example/services/T/B/s"}, match: 'event.action == "created" && detection.risk_score >= 90'}
  - {name: pager, webhook: {preset: pagerduty, key_file: /nonexistent/key}, match: detection.risk_score >= 95}
  - {name: siem, syslog: {address: "siem:514"}, format: cef, redact: [detection.participants.username]}
  - {name: tickets, webhook: {url: "https://h.example", auth: {username: u, password_file: /nonexistent/x}, ticket: {system: jira, project: SEC, link: false}}}
  - {name: strict, file: {path: b.jsonl}, match: 'detection["title"] > 5', on_error: dead_letter}
  - {name: templated, webhook: {url: "https://t.example", template: '{"c": {{json (index .detection.categories 0)}}}'}, match: detection.title == "Data Exfiltration"}
  - {name: batched, webhook: {url: "https://h.example"}, mode: batch, format: ecs, batch: {max_events: 2}}
`

// heartbeat is the line of the fixture heartbeat.
const heartbeat = `CEF:0|ndrbridge|ndrbridge|1.2.3|heartbeat|Heartbeat|3|cs6=heartbeat-1773480701112 cs6Label=eventId deviceExternalId=bridge ndrbridgeEventType=io.ndrbridge.heartbeat ndrbridgeEventSource=ndrbridge://bridge/events rt=1773480701112 act=heartbeat cat=ndrbridge ndrbridgeHeartbeat={"version":"1.4.0","started":"2026-03-12T21:31:41.112Z"}`

func router(t *testing.T, only ...string) *routing.Router {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	require.NoError(t, os.WriteFile(file, []byte(sinks), 0o600))
	config := require.Value(configs.Load(configs.Source{Paths: []string{file}, WithoutSecrets: true}))(t)
	r := require.Value(routing.New(config, "1.2.3", only...))(t)
	return r
}

func TestRoute(t *testing.T) {
	r := router(t)
	for _, test := range []struct {
		name   string
		spec   fixture.Spec
		sink   string
		result routing.Result
		reason string
	}{
		{"a sink without match sends everything", fixture.Spec{Name: "heartbeat"}, "lake", routing.Sent, "the sink has no match"},
		{"a sink sends what matches", fixture.Spec{Name: "detection.created", Set: map[string]any{"risk_score": 90}}, "chat", routing.Sent, `it matches event.action == "created" && detection.risk_score >= 90`},
		{"a sink sends nothing that does not match", fixture.Spec{Name: "detection.created"}, "chat", routing.Filtered, "did not match: detection.risk_score >= 90"},
		{"a failing match obeys on_error", fixture.Spec{Name: "detection.created"}, "strict", routing.DeadLetter, "no such overload"},
		{"a ticket is opened for a detection", fixture.Spec{Name: "detection.created"}, "tickets", routing.Sent, "no match"},
		{"no ticket is opened for a detection that has one", fixture.Spec{Name: "detection.created", Set: map[string]any{"ticket_id": "SEC-1"}}, "tickets", routing.Nothing, "only for a detection that has none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := require.Value(r.Fixture(test.spec))(t)
			routes := r.Route(e)
			i := slices.IndexFunc(routes, func(route routing.Route) bool { return route.Sink == test.sink })
			got := routes[i]
			assert.True(t, got.Result == test.result && strings.Contains(strings.Join(got.Reasons, "\n"), test.reason), got)
		})
	}
	t.Run("one sink is selected", func(t *testing.T) {
		r := router(t, "siem")
		e := require.Value(r.Fixture(fixture.Spec{Name: "heartbeat"}))(t)
		routes := r.Route(e)
		assert.True(t, len(routes) == 1 && routes[0].Sink == "siem", routes)
	})
	t.Run("an unknown sink is an error", func(t *testing.T) {
		_, err := routing.New(&configs.Config{Sinks: []configs.Sink{{Name: "lake", File: &configs.File{}}}}, "", "lak")
		assert.True(t, err != nil && strings.Contains(err.Error(), `there is no sink "lak"; choose from lake`), err)
	})
}

// run runs the only test in a text. Tests share a router, for one takes long to make.
func run(t *testing.T, r *routing.Router, text string) ([]string, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"tests.yaml":   "tests:\n- name: x\n" + text,
		"empty.jsonl":  "\n",
		"events.jsonl": `{"specversion":"1.0","id":"1","source":"ndrbridge://lab/audit","type":"io.ndrbridge.audit.logged","data":{"audit":{"id":1}}}` + "\n\n" + `{"id":"2", "source":"ndrbridge://lab/events","type":"io.ndrbridge.heartbeat","data":{}, "specversion":"1.0"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	tests, err := routing.ReadTests(filepath.Join(folder, "tests.yaml"))
	if err != nil {
		return nil, err
	}
	return r.Run(tests[0])
}

func TestRun(t *testing.T) {
	r := router(t)
	const created = "  events: [{fixture: detection.created, set: {risk_score: 92, title: 'A \"quoted\" title'}}]\n"
	for _, test := range []struct{ name, text string }{
		{"exactly the sinks that send", created + "  sinks: [siem, lake, chat, tickets, batched]"},
		{"no order of sinks", created + "  sinks: [batched, tickets, chat, lake, siem]"},
		{"texts as they were before they were escaped", created + "  output: {chat: {contains: 'A \"quoted\" title'}, batched: {contains: ['A \"quoted\" title', data_exfiltration]}}"},
		{"texts that are absent", created + "  output: {siem: {contains: 'CEF:0|', lacks: [suser, ada]}, lake: {lacks: nowhere}}"},
		{"a part of JSON", created + "  output: {lake: {json: {appliance: lab, data: {detection: {risk_score: 92, categories: [sec, sec.exfil]}}}}}"},
		{"numbers by value", created + "  output: {lake: {json: {data: {detection: {risk_score: 92.0, end_time: null}}}}}"},
		{"the number of events", created + "  output: {lake: {events: 1}, pager: {events: 0}}"},
		{"nothing that is sent", created + "  output: {pager: {json: [], lines: []}}"},
		{"events in a file", "  events: [{file: events.jsonl}]\n  sinks: [lake, siem, batched]\n  output: {lake: {events: 2, json: [{id: '1'}, {id: '2', data: {}}]}}"},
		{"an event in YAML", "  events: [{event: {id: a, source: 'ndrbridge://lab/detections', type: x.updated, time: 2026-03-14T09:18:18Z, data: {detection: {risk_score: 99}}}}]\n  sinks: [lake, pager, siem, tickets, batched]\n  output: {lake: {json: {time: '2026-03-14T09:18:18Z'}}}"},
		{"batches", "  events: [{fixture: heartbeat}, {fixture: heartbeat}, {fixture: heartbeat}]\n  output: {batched: {events: 3, json: [[{}, {}], [{}]]}}"},
		{"the source of an event", "  events: [{fixture: record.stored, query: dns, appliance: branch, attributes: {redelivered: true}}]\n  output: {lake: {json: {source: 'ndrbridge://branch/records/dns', type: io.ndrbridge.record.stored, redelivered: true}}}"},
		{"all lines", "  events: [{fixture: heartbeat}]\n  output: {siem: {lines: ['" + heartbeat + "']}}"},
	} {
		t.Run(test.name+" pass", func(t *testing.T) {
			failures, err := run(t, r, test.text)
			assert.True(t, err == nil && failures == nil, err, failures)
		})
	}
	for _, test := range []struct{ name, text, want string }{
		{"a sink that does not send", created + "  sinks: [lake, chat, pager, siem, tickets, batched]",
			"sinks\n- [batched, chat, lake, pager, siem, tickets]\n+ [batched, chat, lake, siem, tickets]\npager should send, and does not\n  io.ndrbridge.detection.created 25769804127-1773479898715: filtered: did not match: detection.risk_score >= 95"},
		{"a sink that should not send", created + "  sinks: [lake, siem, tickets, batched]", "chat sends, and should not\n  io.ndrbridge.detection.created 25769804127-1773479898715: sent: it matches event.action"},
		{"a text that is missing", created + "  output: {lake: {contains: nowhere}}", "lake: contains\n- nowhere\n+ {\"specversion\""},
		{"a text that is not missing", created + "  output: {lake: {lacks: quoted}}", "lake: lacks\n- quoted\n+ {\"specversion\""},
		{"another value", created + "  output: {lake: {json: {data: {detection: {risk_score: 95}}}}}", "lake: json.data.detection.risk_score\n- 95\n+ 92"},
		{"another long integer", "  events: [{fixture: detection.created, set: {id: 9007199254740993}}]\n  output: {lake: {json: {data: {detection: {id: 9007199254740992}}}}}", "json.data.detection.id\n- 9007199254740992\n+ 9007199254740993"},
		{"a text instead of a number", created + "  output: {lake: {json: {data: {detection: {risk_score: '92'}}}}}", "lake: json.data.detection.risk_score\n- \"92\"\n+ 92"},
		{"a value that is missing", created + "  output: {lake: {json: {data: {changes: {}}}}}", "lake: json.data.changes\n- {}\n+ (missing; there are detection, lifecycle)"},
		{"another list", created + "  output: {lake: {json: {data: {detection: {categories: [sec]}}}}}", "lake: json.data.detection.categories\n- [\"sec\"]\n+ [\"sec\",\"sec.exfil\"]"},
		{"another element", created + "  output: {lake: {json: {data: {detection: {categories: [sec, perf]}}}}}", "lake: json.data.detection.categories[1]\n- \"perf\"\n+ \"sec.exfil\""},
		{"too few values", created + "  output: {lake: {json: [{}, {}]}}", "lake: json: the number of values\n- 2\n+ 1\n+ {\"appliance\""},
		{"another number of events", created + "  output: {lake: {events: 2}}", "lake: events\n- 2\n+ 1"},
		{"another line", "  events: [{fixture: heartbeat}]\n  output: {siem: {lines: ['CEF:0|x', y]}}", "siem: lines\n- CEF:0|x\n- y\n+ CEF:0|ndrbridge|ndrbridge|1.2.3|heartbeat|"},
		{"text that is not JSON", created + "  output: {siem: {json: {}}}", "siem: json: the output is not JSON"},
		{"an event for which a template fails", "  events: [{fixture: detection.created, set: {categories: []}}]\n  sinks: [lake, siem, tickets, batched]",
			"templated cannot send an event\n  io.ndrbridge.detection.created 25769804127-1773479898715: dead_letter: line 1, column 15 of the template"},
		{"an event that cannot be sent", created + "  output: {strict: {events: 1}}", "strict: an event cannot be sent: match event 25769804127-1773479898715"},
	} {
		t.Run(test.name+" fails", func(t *testing.T) {
			failures, err := run(t, r, test.text)
			got := strings.Join(failures, "\n")
			assert.True(t, err == nil && strings.Contains(got, test.want), err, got, test.want)
		})
	}
	for _, test := range []struct{ name, text, want string }{
		{"an unknown key of a test", "  event: []", "tests.yaml:3: event is not a known key"},
		{"an unknown key of an event", "  events: [{fixtur: x}]", "tests.yaml:3: fixtur is not a known key"},
		{"an unknown key of an output", "  output: {lake: {contain: x}}", "tests.yaml:3: contain is not a known key"},
		{"a text instead of a list", "  sinks: lake", "tests.yaml:3: cannot unmarshal !!str `lake`"},
		{"no events", "  sinks: []", `tests.yaml:2: test "x" has no events`},
		{"no expectation", "  events: [{fixture: heartbeat}]", "expects nothing; write sinks, output or both"},
		{"two kinds of events", "  events: [{fixture: heartbeat, file: a}]\n  sinks: []", "events[0]: requires one of fixture, file and event"},
		{"fields of an event in a file", "  events: [{file: events.jsonl, set: {a: 1}}]\n  sinks: []", "can only be combined with fixture"},
		{"an unknown fixture", "  events: [{fixture: detection.deleted}]\n  sinks: []", `events[0]: there is no fixture "detection.deleted"; choose from`},
		{"a file that is missing", "  events: [{file: none.jsonl}]\n  sinks: []", "none.jsonl: no such file"},
		{"an event that is none", "  events: [{event: {a: 1}}]\n  sinks: []", "events[0]: not an event: it has no data"},
		{"an unknown sink", "  events: [{fixture: heartbeat}]\n  sinks: [lak]", `there is no sink "lak"; choose from lake, chat`},
		{"the output of an unknown sink", "  events: [{fixture: heartbeat}]\n  output: {lak: {events: 1}}", `there is no sink "lak"`},
		{"an output that compares nothing", created + "  output: {lake: {json: null}}", "the output of lake expects nothing; write one of events, contains, lacks, json, lines"},
		{"a file without events", "  events: [{file: empty.jsonl}]\n  sinks: []", "empty.jsonl contains no events"},
		{"the removal of a field that is not there", "  events: [{fixture: detection.created, remove: [risc_score]}]\n  sinks: []", `the object has no field "risc_score"; it has appliance_id`},
		{"a second document", created + "  sinks: []\n---\ntests: []", "has a second document after ---"},
		{"text that is not YAML", "  sinks: [", "tests.yaml:3:10: is not YAML: the [ is not closed"},
	} {
		t.Run(test.name+" is an error", func(t *testing.T) {
			_, err := run(t, r, test.text)
			assert.True(t, err != nil && strings.Contains(err.Error(), test.want), err, test.want)
		})
	}
	t.Run("a file without tests is an error", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tests.yaml")
		for text, want := range map[string]string{"": "contains no tests", "test: []": "test is not a known key"} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			_, err := routing.ReadTests(file)
			assert.True(t, err != nil && strings.Contains(err.Error(), want), err)
		}
	})
}

func FuzzReadTests(f *testing.F) {
	f.Add("tests: [{name: a, events: [{fixture: heartbeat}], sinks: []}]")
	f.Add("tests: [{name: a, events: [{event: {data: {}}}], output: {a: {contains: x, lines: [y], json: {z: 1}}}}]")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "tests.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		tests, err := routing.ReadTests(file)
		assert.True(t, (len(tests) > 0) != (err != nil), len(tests), "tests and", err)
	})
}
