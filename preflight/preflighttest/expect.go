// Package preflighttest looks at findings in tests.
package preflighttest

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/preflight"
)

// Row is a finding that is expected. Texts are parts of the finding's; an empty
// Advice means that there is none.
type Row struct {
	Step, Detail, Advice string
	Result               preflight.Result
}

// Expect fails the test where none of the findings is as the row says, or where one
// that is bad says nothing of what to do.
func Expect(t testing.TB, found []preflight.Finding, want Row) {
	t.Helper()
	for _, f := range found {
		if (f.Result == preflight.Failed || f.Result == preflight.Warning) && f.Advice == "" {
			t.Errorf("there is no advice: %+v", f)
		}
	}
	for _, f := range found {
		if strings.Contains(f.Step, want.Step) && f.Result == want.Result && strings.Contains(f.Detail, want.Detail) &&
			strings.Contains(f.Advice, want.Advice) && (f.Advice == "") == (want.Advice == "") {
			return
		}
	}
	t.Errorf("no finding is %+v, of\n%s", want, Lines(found))
}

// ExpectGood fails the test where a finding has failed or warns.
func ExpectGood(t testing.TB, found []preflight.Finding) {
	t.Helper()
	for _, f := range found {
		if f.Result == preflight.Failed || f.Result == preflight.Warning {
			t.Errorf("%+v, of\n%s", f, Lines(found))
		}
	}
}

// Lines are the findings, one a line.
func Lines(found []preflight.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s | %s | %s | %s | %s\n", f.Target, f.Step, f.Result, f.Detail, f.Advice)
	}
	return b.String()
}
