//go:build promtool

package prometheus_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ndrbridge/test/require"
)

// promtool runs promtool and reports its findings as errors of the test.
func promtool(t *testing.T, stdin string, arguments ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "promtool", arguments...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, bytes.TrimSpace(out))
	}
}

func TestMetricsPassPromtool(t *testing.T) {
	_, text := scrape(t)
	promtool(t, text, "check", "metrics")
}

func TestDashboardExpressionsPassPromtool(t *testing.T) {
	type record struct{ Record, Expr string }
	variables := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$appliance", ".*", "$sink", ".*")
	var records []record
	for i, q := range readDashboard(t).queries() {
		records = append(records, record{"dashboard:query" + strconv.Itoa(i), variables.Replace(q.expr)})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": records}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	promtool(t, "", "check", "rules", path)
}
