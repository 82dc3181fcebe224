package prometheus_test

import (
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/cluster"
	"ndrbridge/test/require"
)

// metric describes a metric as exposed by a bridge.
type metric struct {
	kind   string // counter, gauge or histogram
	help   string
	labels []string // in the order of the exposition
}

// scrape returns the metrics of a bridge by name, with those that only a member of a cluster
// exposes, and the text form of the first. It waits until the bridge exposes every metric
// named in the source code.
func scrape(t *testing.T) (metrics map[string]metric, text string) {
	t.Helper()
	url, named, members := startBridge(t), metricsInSource(t), metricsOfMembers(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text = get(t, url)
		metrics = parse(text)
		maps.Copy(metrics, members)
		missing := slices.DeleteFunc(slices.Clone(named), func(name string) bool { _, shown := metrics[name]; return shown })
		if len(missing) == 0 {
			return metrics, text
		}
		require.True(t, time.Now().Before(deadline), "the bridge does not expose", missing)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer := require.Value(http.Get(url))(t)
	defer answer.Body.Close()
	body := require.Value(io.ReadAll(answer.Body))(t)
	require.Equal(t, answer.StatusCode, http.StatusOK, answer.Status)
	return string(body)
}

var (
	comment = regexp.MustCompile(`^# (HELP|TYPE) (\w+) (.*)$`)
	sample  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `)
	label   = regexp.MustCompile(`(\w+)="`)
)

// parse parses the text format as client_golang writes it: the comments of a metric
// precede its samples.
func parse(text string) map[string]metric {
	metrics := make(map[string]metric)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if c := comment.FindStringSubmatch(line); c != nil {
			m := metrics[c[2]]
			if c[1] == "TYPE" {
				m.kind = c[3]
			} else {
				m.help = c[3]
			}
			metrics[c[2]] = m
		} else if s := sample.FindStringSubmatch(line); s != nil {
			name := base(s[1], metrics)
			m := metrics[name]
			m.labels = nil
			for _, l := range label.FindAllStringSubmatch(s[2], -1) {
				if l[1] != "le" {
					m.labels = append(m.labels, l[1])
				}
			}
			metrics[name] = m
		}
	}
	maps.DeleteFunc(metrics, func(name string, _ metric) bool { return !strings.HasPrefix(name, "ndrbridge_") })
	return metrics
}

// base returns the name of the metric to which a series belongs.
func base(series string, metrics map[string]metric) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && metrics[name].kind == "histogram" {
			return name
		}
	}
	return series
}

// described records the collectors that are registered.
type described struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (d *described) MustRegister(collectors ...prometheus.Collector) {
	d.collectors = append(d.collectors, collectors...)
}

// description matches what client_golang says about a metric.
var description = regexp.MustCompile(`fqName: "(\w+)", help: "(.*?)",.* constLabels: .*variableLabels: \{([\w,]*)\}`)

// metricsOfMembers returns the metrics that only a member of a cluster exposes, from their
// descriptions: some of them appear only after hours.
func metricsOfMembers(t *testing.T) map[string]metric {
	t.Helper()
	var d described
	cluster.NewMetrics(&d)
	metrics := make(map[string]metric)
	for _, c := range d.collectors {
		kind := "gauge"
		switch c.(type) {
		case prometheus.Counter:
			kind = "counter"
		case prometheus.Histogram:
			kind = "histogram"
		}
		descriptions := make(chan *prometheus.Desc, 100)
		c.Describe(descriptions)
		close(descriptions)
		for one := range descriptions {
			parts := description.FindStringSubmatch(one.String())
			require.True(t, parts != nil, "cannot read", one)
			m := metric{kind: kind, help: parts[2]}
			if parts[3] != "" {
				m.labels = strings.Split(parts[3], ",")
			}
			metrics[parts[1]] = m
		}
	}
	require.True(t, len(metrics) != 0, "a member has no metrics of its own")
	return metrics
}

// metricsInSource returns the names of metrics in string literals of the source code.
func metricsInSource(t *testing.T) []string {
	t.Helper()
	literal := regexp.MustCompile(`"(ndrbridge_[a-z_]*[a-z])"`) // no prefix of names
	found := make(map[string]bool)
	repository := os.DirFS("../..")
	err := fs.WalkDir(repository, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "test" || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		code, err := fs.ReadFile(repository, path)
		for _, name := range literal.FindAllStringSubmatch(string(code), -1) {
			found[name[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(found))
}
