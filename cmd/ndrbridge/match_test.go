package main

import (
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
)

const (
	highLine = `{"specversion":"1.0","id":"1-5","source":"ndrbridge://hq/detections","type":"io.ndrbridge.detection.created","datacontenttype":"application/json","data":{"detection":{"id":1,"risk_score":91}}}`
	lowLine  = `{"specversion":"1.0","id":"2-6","source":"ndrbridge://hq/detections","type":"io.ndrbridge.detection.created","datacontenttype":"application/json","data":{"detection":{"id":2,"risk_score":12}}}`
	// textLine is odd: its score is a text. And somebody has written it again.
	textLine  = `{ "specversion": "1.0", "id": "3-7", "source": "ndrbridge://hq/detections", "type": "io.ndrbridge.detection.created", "data": { "detection": { "id": 3, "risk_score": "x" } } }`
	auditLine = `{"specversion":"1.0","id":"7-8","source":"ndrbridge://hq/audit","type":"io.ndrbridge.audit.logged","datacontenttype":"application/json","data":{"audit":{"id":7,"body":{"operation":"Login"}}}}`
)

func TestMatchCommand(t *testing.T) {
	events := strings.Join([]string{highLine, "", lowLine, auditLine}, "\n")
	for _, test := range []struct {
		name           string
		args           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		{"events that match are printed as they came", []string{"detection.risk_score >= 80"}, events + "\n", commandline.ExitDone,
			highLine + "\n", "1 of 3 events match\n"},
		{"a last line needs no end", []string{"audit.body.operation == 'Login'"}, events, commandline.ExitDone,
			auditLine + "\n", "1 of 3 events match\n"},
		{"they can be counted alone", []string{"--count", "detection.risk_score >= 0"}, events, commandline.ExitDone,
			"2\n", "2 of 3 events match\n"},
		{"none of none match", []string{"true"}, "", commandline.ExitDone, "", "0 of 0 events match\n"},
		{"an event for which the expression fails matches and is reported", []string{"detection.risk_score >= 80"}, lowLine + "\n" + textLine, commandline.ExitDone,
			textLine + "\n", "line 2: match event 3-7: column 22, at \">= 80\": no such overload\n1 of 2 events match\n"},
		{"a mistake in the expression is wrong usage", []string{"detection.risk_score = 80"}, events, commandline.ExitUsage,
			"", `column 22, at "= 80": use == to compare`},
		{"an expression without quotes is wrong usage", []string{"detection.risk_score", "80"}, events, commandline.ExitUsage,
			"", "requires one argument, the expression in quotes, got 2"},
		{"a line that is not JSON ends it", []string{"true"}, highLine + "\n{\n", commandline.ExitFailed, highLine + "\n", "line 2: "},
		{"a line that is not an event ends it", []string{"true"}, `{"detection":{}}`, commandline.ExitFailed, "", "line 1: not an event"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := new(command).try(t, test.stdin, append([]string{"try", "match"}, test.args...)...)
			if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.stderr) {
				t.Fatalf("exit code %d, want %d\nstdout %q, want %q\nstderr %q, want %q", code, test.code, stdout, test.stdout, stderr, test.stderr)
			}
		})
	}
}
