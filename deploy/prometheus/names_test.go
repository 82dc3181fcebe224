package prometheus_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/docs"
)

// panel is what a dashboard shows in one place.
type panel struct {
	Title, Type, Description string
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []struct{ Expr, LegendFormat string }
}

// dashboard is as much of one as is checked.
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
	if err := json.Unmarshal([]byte(read(t, "../grafana/ndrbridge.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// query is one that the dashboard makes.
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
	selector  = regexp.MustCompile(`(ndrbridge_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	shown     = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?(\w+) ?\}\}`)
	recording = regexp.MustCompile(`ndrbridge:[a-z_:]+`)
)

// unknown tells what an expression names that no bridge shows, and what labels of its
// result the texts that go with it name.
func unknown(metrics map[string]metric, expr string, texts ...string) []string {
	var problems []string
	labels := []string{"job", "instance", "le"} // the first two are Prometheus' own
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
			// What a recording has is told by the expression that records it.
			if !slices.Contains(labels, l[1]) && !strings.Contains(expr, "ndrbridge:") {
				problems = append(problems, "it has no label "+l[1]+" to be shown")
			}
		}
	}
	return problems
}

func TestWhatNoBridgeShowsIsFound(t *testing.T) {
	metrics := map[string]metric{
		"ndrbridge_lag":          {kind: "gauge", labels: []string{"sink"}},
		"ndrbridge_send_seconds": {kind: "histogram", labels: []string{"sink"}},
	}
	for _, c := range []struct {
		name, expr, text string
		want             string // empty: nothing
	}{
		{"what a bridge shows is known", `sum by (sink, le) (rate(ndrbridge_send_seconds_bucket{job="x", sink=~"a"}[5m]))`, "{{sink}}", ""},
		{"a metric that there is not", `ndrbridge_lags > 1`, "", "there is no metric ndrbridge_lags"},
		{"a suffix that belongs to histograms", `ndrbridge_lag_count`, "", "there is no metric ndrbridge_lag_count"},
		{"a label that it has not", `ndrbridge_lag{stream="x"}`, "", "ndrbridge_lag has no label stream"},
		{"a label to group by that nothing has", `max by (stream) (ndrbridge_lag)`, "", "nothing in it has the label stream"},
		{"a label that an alert shows", `ndrbridge_lag > 1`, "The stream {{ $labels.stream }}.", "it has no label stream to be shown"},
		{"a label that a legend shows", `ndrbridge_lag`, "{{sink}} {{class}}", "it has no label class to be shown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(unknown(metrics, c.expr, c.text), "; "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
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
			if !slices.ContainsFunc(all, func(r rule) bool { return r.Record == name }) {
				t.Errorf("%s: nothing records %s", where, name)
			}
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
			t.Errorf("the variable %s is not made of the label's values: %s", v.Name, v.Definition)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if !used[name] {
			t.Errorf("%s is neither on the dashboard nor in a rule", name)
		}
	}
	documents, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		check(d.Path, read(t, "../../"+d.Path))
	}
}

func TestEveryPanelCanBeRead(t *testing.T) {
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("the panel %s has no description or no unit", p.Title)
		}
		if len(p.Targets) == 0 {
			t.Errorf("the panel %s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if target.LegendFormat == "" {
				t.Errorf("the panel %s has no legend for %s", p.Title, target.Expr)
			}
		}
	}
}
