package prometheus_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// rule is a rule in rules.yaml: an alert or a recording.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "rules.yaml")), &file))
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := require.Value(os.ReadFile(path))(t)
	return string(text)
}

func TestEveryAlertIsDocumentedAndTested(t *testing.T) {
	const book = "docs/runbook.md"
	heading := regexp.MustCompile(`(?m)^### (Ndrbridge\w+)$`)
	var sections []string
	for _, s := range heading.FindAllStringSubmatch(read(t, "../../"+book), -1) {
		sections = append(sections, s[1])
	}
	tests := read(t, "rules_test.yaml")
	var alerts []string
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		s := r.Labels["severity"]
		assert.True(t, s == "critical" || s == "warning", r.Alert, "has the severity", s)
		assert.True(t, r.Annotations["summary"] != "" && r.Annotations["description"] != "", r.Alert, "has no summary or no description")
		assert.Equal(t, r.Annotations["runbook_url"], book+"#"+strings.ToLower(r.Alert), r.Alert, "has the run book at")
		assert.Contains(t, tests, `alertname="`+r.Alert+`"`, "no test in rules_test.yaml expects", r.Alert, "to fire")
	}
	assert.EqualSlices(t, alerts, sections, "the run book has the sections", "and the alerts are")
}

// TestEveryFailureOfAClusterHasAnAlert binds the table of failures in docs/cluster.md to the alerts:
// each row names one, and each alert of the cluster is in a row.
func TestEveryFailureOfAClusterHasAnAlert(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "../../docs/cluster.md"), "| failure | what happens |")
	table, _, _ = strings.Cut(table, "\n\n")
	all := rules(t)
	named := regexp.MustCompile(`\[(Ndrbridge\w+)\]\(runbook\.md#(\w+)\)`)
	var used []string
	for i, row := range strings.Split(table, "\n")[2:] {
		alerts := named.FindAllStringSubmatch(row, -1)
		assert.True(t, len(alerts) != 0, "row", i+1, "names no alert", row)
		for _, a := range alerts {
			used = append(used, a[1])
			assert.True(t, a[2] == strings.ToLower(a[1]) && slices.ContainsFunc(all, func(r rule) bool { return r.Alert == a[1] }), i+1, a)
		}
	}
	for _, r := range all {
		assert.True(t, !strings.Contains(r.Alert, "Cluster") || slices.Contains(used, r.Alert), "no row names", r.Alert)
	}
}
