package prometheus_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/docs"
	"ndrbridge/test/require"
)

// panel is a panel of a dashboard.
type panel struct {
	Title, Type, Description string
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []struct{ Expr, LegendFormat string }
}

// dashboard contains the checked parts of a dashboard.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct{ List []struct{ Name, Expr string } }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(read(t, "../grafana/ndrbridge.json")), &d))
	return d
}

// query is a query of the dashboard.
type query struct{ where, expr, legend string }

func (d dashboard) queries() []query {
	var all []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{"the panel " + p.Title, target.Expr, target.LegendFormat})
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all = append(all, query{where: "the annotation " + a.Name, expr: a.Expr})
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`(ndrbridge_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?(\w+) ?\}\}`)
	// Recordings have several words in their names; source types of Splunk have one.
	recording = regexp.MustCompile(`ndrbridge:[a-z]+_[a-z_:]+`)
)

// unknown returns the problems of an expression: metrics and labels that no bridge
// exposes, and labels in texts that its result does not have.
func unknown(metrics map[string]metric, expr string, texts ...string) []string {
	var problems []string
	labels := []string{"job", "instance", "pod", "le"} // Prometheus adds the first two, its operator the third
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		m, known := metrics[base(s[1], metrics)]
		if !known {
			problems = append(problems, "there is no metric "+s[1])
		}
		labels = append(labels, m.labels...)
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, m.labels...), l[1]) {
				problems = append(problems, s[1]+" has no label "+l[1])
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); strings.Contains(expr, "ndrbridge_") && !slices.Contains(labels, l) {
				problems = append(problems, "nothing in it has the label "+l)
			}
		}
	}
	for _, text := range texts {
		for _, l := range shown.FindAllStringSubmatch(text, -1) {
			// The labels of a recording are those of its own expression.
			if !slices.Contains(labels, l[1]) && !strings.Contains(expr, "ndrbridge:") {
				problems = append(problems, "it has no label "+l[1]+" to be shown")
			}
		}
	}
	return problems
}

func TestUnknown(t *testing.T) {
	metrics := map[string]metric{
		"ndrbridge_lag":          {kind: "gauge", labels: []string{"sink"}},
		"ndrbridge_send_seconds": {kind: "histogram", labels: []string{"sink"}},
	}
	for _, c := range []struct {
		name, expr, text string
		want             string // empty: nothing
	}{
		{"known names", `sum by (sink, le) (rate(ndrbridge_send_seconds_bucket{job="x", sink=~"a"}[5m]))`, "{{sink}}", ""},
		{"an unknown metric", `ndrbridge_lags > 1`, "", "there is no metric ndrbridge_lags"},
		{"a histogram's suffix on a gauge", `ndrbridge_lag_count`, "", "there is no metric ndrbridge_lag_count"},
		{"an unknown label", `ndrbridge_lag{stream="x"}`, "", "ndrbridge_lag has no label stream"},
		{"an unknown label in a grouping", `max by (stream) (ndrbridge_lag)`, "", "nothing in it has the label stream"},
		{"an unknown label in an alert", `ndrbridge_lag > 1`, "The stream {{ $labels.stream }}.", "it has no label stream to be shown"},
		{"an unknown label in a legend", `ndrbridge_lag`, "{{sink}} {{class}}", "it has no label class to be shown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, strings.Join(unknown(metrics, c.expr, c.text), "; "), c.want)
		})
	}
}

func TestEveryMetricIsUsedAndEveryNameExists(t *testing.T) {
	metrics, _ := scrape(t)
	board, all := readDashboard(t), rules(t)
	used := make(map[string]bool)
	check := func(where, expr string, texts ...string) {
		t.Helper()
		for _, problem := range unknown(metrics, expr, texts...) {
			t.Errorf("%s: %s", where, problem)
		}
		for _, s := range selector.FindAllStringSubmatch(expr, -1) {
			used[base(s[1], metrics)] = true
		}
		for _, name := range recording.FindAllString(expr, -1) {
			assert.True(t, slices.ContainsFunc(all, func(r rule) bool { return r.Record == name }), where, "nothing records", name)
		}
	}
	for _, r := range all {
		check(r.Alert+r.Record, r.Expr, slices.Collect(maps.Values(r.Annotations))...)
	}
	for _, q := range board.queries() {
		check(q.where, q.expr, q.legend)
	}
	for _, v := range board.Templating.List {
		if name, ok := strings.CutSuffix(v.Definition, ", "+v.Name+")"); ok {
			check("the variable "+v.Name, strings.TrimPrefix(name, "label_values("))
		} else if v.Type == "query" {
			t.Errorf("the variable %s is not a query of a label's values: %s", v.Name, v.Definition)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		assert.True(t, used[name], name, "is neither on the dashboard nor in a rule")
	}
	documents := require.Value(docs.Read("../.."))(t)
	for _, d := range documents {
		if strings.HasPrefix(d.Path, "deploy/splunk/") {
			continue // names with this prefix are the add-on's event types, which its own tests check
		}
		check(d.Path, read(t, "../../"+d.Path))
	}
}

func TestEveryPanelIsDescribed(t *testing.T) {
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			continue
		}
		assert.True(t, p.Description != "" && p.FieldConfig.Defaults.Unit != "", "the panel", p.Title, "has no description or no unit")
		assert.True(t, len(p.Targets) != 0, "the panel", p.Title, "has no query")
		for _, target := range p.Targets {
			assert.True(t, target.LegendFormat != "", "the panel", p.Title, "has no legend for", target.Expr)
		}
	}
}
