package prometheus_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// UPDATE=1 writes the page again.
func TestTheReferenceOfMetricsIsWhatABridgeShows(t *testing.T) {
	const path = "../../docs/metrics.md"
	metrics, _ := scrape(t)
	want := reference(metrics)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Errorf("%s is stale: run make reference", path)
	}
}

// reference is docs/metrics.md.
func reference(metrics map[string]metric) string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made by make reference, of what a bridge shows. -->

What ` + "`/metrics`" + ` of the admin interface shows, beside the Go runtime's (` + "`go_…`" + `) and the
process's own (` + "`process_…`" + `). With ` + "`admin.token`" + ` set it wants the token, as in
[prometheus.yaml](../deploy/prometheus/prometheus.yaml). What is no longer configured is
shown no more after a reload. Counters begin at 0 when the bridge starts, but
` + "`ndrbridge_sink_skipped_total`" + `, which the state keeps. Which of them call for a person is
in [rules.yaml](../deploy/prometheus/rules.yaml) and the [run book](runbook.md).

| metric | type | labels | what it tells |
|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m, labels := metrics[name], ""
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, labels, m.help)
	}
	return b.String()
}
