// Package findingtest checks findings in tests.
package findingtest

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/internal/finding"
)

// Row is an expected finding. Its texts are substrings of the finding's; an empty
// Advice means that there is none.
type Row struct {
	Step, Detail, Advice string
	Result               finding.Result
}

// Expect fails the test if no finding matches want, or if a failure or a warning has no
// advice.
func Expect(t testing.TB, found []finding.Finding, want Row) {
	t.Helper()
	for _, f := range found {
		if (f.Result == finding.Failed || f.Result == finding.Warning) && f.Advice == "" {
			t.Errorf("finding without advice: %+v", f)
		}
	}
	for _, f := range found {
		if strings.Contains(f.Step, want.Step) && f.Result == want.Result && strings.Contains(f.Detail, want.Detail) &&
			strings.Contains(f.Advice, want.Advice) && (f.Advice == "") == (want.Advice == "") {
			return
		}
	}
	t.Errorf("no finding matches %+v, of\n%s", want, Lines(found))
}

// ExpectGood fails the test if any finding is a failure or a warning.
func ExpectGood(t testing.TB, found []finding.Finding) {
	t.Helper()
	for _, f := range found {
		if f.Result == finding.Failed || f.Result == finding.Warning {
			t.Errorf("%+v, of\n%s", f, Lines(found))
		}
	}
}

// Lines formats findings, one per line.
func Lines(found []finding.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s | %s | %s | %s | %s\n", f.Target, f.Step, f.Result, f.Detail, f.Advice)
	}
	return b.String()
}
