package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/pipeline/routing"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// routed runs a command with a configuration whose secrets cannot be read, and files beside
// it, and returns its exit code and output.
func routed(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"ndrbridge.yaml": `
appliances: [{name: hq, url: "https://sensor.example", api_key_file: /nonexistent/key}]
sinks:
  - {name: lake, file: {path: "-"}}
  - {name: pager, webhook: {preset: pagerduty, key_file: /nonexistent/key}, match: detection.risk_score >= 80}
`,
		"tests.yaml": `
tests:
  - name: passes
    events: [{fixture: detection.created}]
    sinks: [lake, pager]
  - name: fails
    events: [{fixture: heartbeat}]
    sinks: [pager]
`,
		"unreadable.yaml": "tests: [{nam: x}]",
		"events.jsonl":    highLine + "\n" + auditLine + "\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return (&command{environ: []string{"NDRBRIDGE_CONFIG=ndrbridge.yaml"}}).try(t, stdin, args...)
}

func TestTheCommandTest(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		want string // of what is printed
	}{
		{"a test that fails", []string{"try", "test", "tests.yaml"}, commandline.ExitFailed, `PASS  passes (tests.yaml:3)
FAIL  fails (tests.yaml:6)
      sinks
      - [pager]
      + [lake]
      lake sends, and should not
        io.ndrbridge.heartbeat heartbeat-1773480701112: sent: the sink has no match
      pager should send, and does not
        io.ndrbridge.heartbeat heartbeat-1773480701112: filtered: did not match: detection.risk_score >= 80

2 tests: 1 passed, 1 failed
`},
		{"tests are selected by name", []string{"try", "test", "--run", "^pass", "tests.yaml"}, commandline.ExitDone, "PASS  passes (tests.yaml:3)\n\n1 test: 1 passed, 0 failed\n"},
		{"results for programs", []string{"try", "test", "--run", "^pass", "--json", "tests.yaml"}, commandline.ExitDone, `{"test":"passes","file":"tests.yaml","line":3,"passed":true}` + "\n"},
		{"no test is selected", []string{"try", "test", "--run", "none", "tests.yaml"}, commandline.ExitFailed, `ndrbridge: no test has a name that matches "none"` + "\n"},
		{"an expression that is none", []string{"try", "test", "--run", "(", "tests.yaml"}, commandline.ExitUsage, "--run: error parsing regexp"},
		{"no file", []string{"try", "test"}, commandline.ExitUsage, "requires at least one file of tests, got 0 arguments"},
		{"a file with a mistake", []string{"try", "test", "unreadable.yaml"}, commandline.ExitFailed, "ndrbridge: unreadable.yaml:1: nam is not a known key\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := routed(t, "", test.args...)
			if printed := stdout + stderr; code != test.code || !strings.Contains(printed, test.want) {
				t.Errorf("exit code %d\n%s\nwant %d\n%s", code, printed, test.code, test.want)
			}
		})
	}
}

func TestTheTestsOfTheExample(t *testing.T) {
	example := require.Value(filepath.Abs("../../configs/example.yaml"))(t)
	code, stdout, stderr := routed(t, "", "try", "test", "--config", example, filepath.Join(filepath.Dir(example), "tests", "example.yaml"))
	assert.Equal(t, code, commandline.ExitDone, "exit code", stdout, stderr)
}

func TestTheCommandRoute(t *testing.T) {
	const audit = `io.ndrbridge.audit.logged 7-8 of ndrbridge://hq/audit
SINK   RESULT    REASON
lake   sent      the sink has no match
pager  filtered  did not match: detection.risk_score >= 80
`
	const high = `io.ndrbridge.detection.created 1-5 of ndrbridge://hq/detections
SINK   RESULT  REASON
lake   sent    the sink has no match
pager  sent    it matches detection.risk_score >= 80
`
	for _, test := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"events in a file", "", []string{"try", "route", "events.jsonl"}, commandline.ExitDone, high + "\n" + audit},
		{"events from standard input", auditLine, []string{"try", "route"}, commandline.ExitDone, audit},
		{"one sink", auditLine, []string{"try", "route", "--sink", "lake"}, commandline.ExitDone, "SINK  RESULT  REASON\nlake  sent    the sink has no match\n"},
		{"an example event", "", []string{"try", "route", "--fixture", "detection.created", "--sink", "pager"}, commandline.ExitDone, "pager  sent    it matches detection.risk_score >= 80\n"},
		{"an unknown sink", "", []string{"try", "route", "--sink", "lak"}, commandline.ExitFailed, `there is no sink "lak"; choose from lake, pager`},
		{"an unknown example", "", []string{"try", "route", "--fixture", "x"}, commandline.ExitUsage, `there is no fixture "x"; choose from appliance.reachable`},
		{"an example and a file", "", []string{"try", "route", "--fixture", "heartbeat", "events.jsonl"}, commandline.ExitUsage, "--fixture cannot be combined with a file of events"},
		{"two files", "", []string{"try", "route", "a", "b"}, commandline.ExitUsage, "requires at most one file, got 2 arguments"},
		{"a file that is missing", "", []string{"try", "route", "none.jsonl"}, commandline.ExitFailed, "read events: open none.jsonl"},
		{"a line that is no event", "{}", []string{"try", "route"}, commandline.ExitFailed, "line 1: not an event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := routed(t, test.stdin, test.args...)
			if printed := stdout + stderr; code != test.code || !strings.Contains(printed, test.want) {
				t.Errorf("exit code %d\n%s\nwant %d\n%s", code, printed, test.code, test.want)
			}
		})
	}
	t.Run("results for programs", func(t *testing.T) {
		_, stdout, _ := routed(t, auditLine, "try", "route", "--json")
		var got routedEvent
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.ID != "7-8" || len(got.Sinks) != 2 || got.Sinks[1].Result != routing.Filtered || len(got.Sinks[1].Reasons) != 1 {
			t.Errorf("%v: %s", err, stdout)
		}
	})
}
