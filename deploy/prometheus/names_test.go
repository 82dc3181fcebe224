package prometheus_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// expressions are those of the dashboard, by where they are.
func (d dashboard) expressions() map[string][]string {
	all := make(map[string][]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all["the panel "+p.Title] = append(all["the panel "+p.Title], target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all["the annotation "+a.Name] = []string{a.Expr}
		}
	}
	return all
}

var (
	selector  = regexp.MustCompile(`(ndrbridge_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	recording = regexp.MustCompile(`ndrbridge:[a-z_:]+`)
)

// unknown tells what an expression names that no bridge shows.
func unknown(expr string, metrics map[string]metric) []string {
	var problems []string
	labels := []string{"job", "instance", "le"}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		m, known := metrics[base(s[1], metrics)]
		if !known {
			problems = append(problems, "there is no metric "+s[1])
		}
		labels = append(labels, m.labels...)
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if l[1] != "job" && l[1] != "instance" && !slices.Contains(m.labels, l[1]) {
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
	return problems
}

func TestEveryMetricIsUsedAndEveryNameExists(t *testing.T) {
	metrics, _ := scrape(t)
	board, all := readDashboard(t), rules(t)
	used := make(map[string]bool)
	check := func(where, expr string) {
		t.Helper()
		for _, problem := range unknown(expr, metrics) {
			t.Errorf("%s: %s: %s", where, problem, expr)
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
		check(r.Alert+r.Record, r.Expr)
	}
	for where, exprs := range board.expressions() {
		for _, expr := range exprs {
			check(where, expr)
		}
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
	for _, path := range []string{"../../README.md", "../../docs/runbook.md"} {
		check(path, read(t, path))
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
