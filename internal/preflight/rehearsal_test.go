package preflight_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
)

// rehearse checks a configuration with the appliance a, a state and a sink with some keys, and
// returns the findings of some steps about a target.
func rehearse(t *testing.T, a http.Handler, state, appliance, sink, target string, steps ...string) []finding.Finding {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	config := require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil,
		"state: %s\nappliances: [{name: hq, url: %q, api_key: %s, %s}]\nsinks: [{name: out, file: {path: \"-\"}, %s}]\n",
		state, server.URL, standin.DefaultAPIKey, appliance, sink), nil))(t)
	found := preflight.Check(t.Context(), config, preflight.Options{Version: "test", Timeout: 20 * time.Second, Now: time.Now, Rehearse: true})
	return slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Target != target || !slices.Contains(steps, f.Step) })
}

// risky returns an appliance with some detections, each ten minutes older than the one before, of
// which the first high have the risk score 90, and the others 10.
func risky(all, high int) *standin.Appliance {
	a := standin.New(standin.Options{Seed: 1, APIKey: standin.DefaultAPIKey})
	now := time.Now()
	for i := range all {
		d := a.Generate()
		d.ModTime = now.Add(-time.Duration(i) * 10 * time.Minute).UnixMilli()
		d.StartTime, d.CreateTime, d.UpdateTime = d.ModTime, d.ModTime, d.ModTime
		if d.RiskScore = new(10); i < high {
			d.RiskScore = new(90)
		}
		a.Add(d)
	}
	return a
}

func TestEveryMatchIsRehearsed(t *testing.T) {
	t.Parallel()
	a := risky(120, 12)
	row := func(result finding.Result, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: "match", Result: result, Detail: detail, Advice: advice}
	}
	for name, test := range map[string]struct {
		match string // empty: none
		want  findingtest.Row
	}{
		"a sink without match":                  {"", row(finding.OK, "100 of the newest 100 detections", "")},
		"a match of some":                       {"detection.risk_score >= 80", row(finding.OK, "12 of the newest 100 detections", "")},
		"a match of none":                       {"detection.risk_score >= 95", row(finding.Warning, "0 of the newest 100 detections: never matches", "compare match")},
		"a match of what is new":                {"event.action == 'created' && detection.risk_score >= 80", row(finding.OK, "12 of", "")},
		"a match of what has changed":           {"event.action == 'updated' && 'risk_score' in changes", row(finding.OK, "100 of", "")},
		"a match of the audit log":              {"event.stream == 'audit'", row(finding.Remark, "depends on another stream", "")},
		"a match of rare entries of that":       {"audit.body.operation == 'never'", row(finding.Remark, "depends on another stream", "")},
		"a match of all streams but one":        {"event.stream != 'audit' && detection.risk_score >= 95", row(finding.Warning, "never matches", "compare match")},
		"a match that fails":                    {"detection['risk_score'] > 'high'", row(finding.Warning, "100 of the newest 100 detections, but it fails for 100, and on_error decides: ", "correct match")},
		"a match that is true without the rest": {"event.stream == 'audit' || detection.risk_score >= 80", row(finding.OK, "12 of", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := "start: now"
			if test.match != "" {
				keys = fmt.Sprintf("match: %q", test.match)
			}
			found := rehearse(t, a, filepath.Join(t.TempDir(), "state.db"), "records: []", keys, "sink out", "match")
			findingtest.Expect(t, found, test.want)
			assert.Equal(t, len(found), 1, findingtest.Lines(found))
		})
	}
}

func TestTheFirstStartIsEstimated(t *testing.T) {
	t.Parallel()
	const high = "match: detection.risk_score >= 80"
	fresh := func(*testing.T, string) {}
	stored := func(t *testing.T, path string) {
		s := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
		defer s.Close()
		require.NoError(t, s.Commit(t.Context(), checkpoint.Commit{
			Source: checkpoint.Source{Appliance: "hq", Stream: "detections"}, Position: []byte(`{"mod_time":1}`),
		}))
	}
	for name, test := range map[string]struct {
		all, high   int
		state       func(t *testing.T, path string)
		start, sink string
		begins      string // the beginning, for the appliance
		sends       string // by the sink; empty: nothing
	}{
		"from now":                          {150, 150, fresh, "now", high, "begins now", ""},
		"since ten hours, of the newest":    {150, 12, fresh, "-10h5m", high, "(start is -10h5m)", "about 12 events of detections since 2"},
		"all of those":                      {150, 12, fresh, "-10h5m", "start: now", "are read since", "about 61 events"},
		"beyond the newest, in proportion":  {400, 50, fresh, "-50h5m", high, "are read since", "about 150 events"},
		"all there is":                      {400, 400, fresh, "beginning", high, "(start is beginning)", "about 400 events of detections since the beginning"},
		"more than is counted":              {3200, 100, fresh, "beginning", high, "are read since", "at least 3000 events"},
		"an appliance without detections":   {0, 0, fresh, "beginning", high, "are read since", ""},
		"what did not exist when it begins": {150, 12, fresh, "-10h5m", "match: event.action == 'created'", "are read since", "about 61 events"},
		"a state with a position":           {150, 12, stored, "-10h5m", high, "continues from its position", ""},
		"a state without one": {150, 12, func(t *testing.T, path string) {
			require.NoError(t, require.Value(checkpoint.Open(path, checkpoint.Options{}))(t).Close())
		}, "-10h5m", high, "are read since", "about 12 events"},
		"a state that cannot be read": {150, 12, func(t *testing.T, path string) {
			s := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
			t.Cleanup(func() { s.Close() })
		}, "-10h5m", high, "was not read", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state.db")
			test.state(t, state)
			a := risky(test.all, test.high)
			keys := fmt.Sprintf("detections: {start: %s}", test.start)
			found := rehearse(t, a, state, keys, test.sink, "appliance hq", "first start")
			assert.True(t, len(found) == 1 && strings.Contains(found[0].Detail, test.begins), findingtest.Lines(found))
			found = rehearse(t, a, state, keys, test.sink, "sink out", "first start")
			if test.sends == "" {
				assert.Equal(t, len(found), 0, findingtest.Lines(found))
				return
			}
			findingtest.Expect(t, found, findingtest.Row{Step: "first start", Result: finding.Remark, Detail: test.sends})
		})
	}
}

func TestARehearsalIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("an answer that is too large", func(t *testing.T) {
		a := risky(30, 30)
		a.AddHuge(17 << 20)
		found := rehearse(t, a, filepath.Join(t.TempDir(), "state.db"), "records: []", "start: now", "appliance hq", "newest detections")
		findingtest.Expect(t, found, findingtest.Row{Step: "newest detections", Result: finding.Warning, Detail: "no match was rehearsed", Advice: "check again"})
	})
	t.Run("no detections at all", func(t *testing.T) {
		found := rehearse(t, risky(0, 0), filepath.Join(t.TempDir(), "state.db"), "records: []", "match: event.action == 'created'", "appliance hq", "newest detections")
		findingtest.Expect(t, found, findingtest.Row{Step: "newest detections", Result: finding.Remark, Detail: "none to try a match on"})
	})
	t.Run("detections that cannot be read are reported once", func(t *testing.T) {
		a := risky(30, 30)
		a.SetHazards(standin.Hazards{
			Refusal: standin.RefusedForbidden, Only: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/detections/search") },
		})
		found := rehearse(t, a, filepath.Join(t.TempDir(), "state.db"), "records: []", "start: now", "appliance hq", "detections", "newest detections")
		assert.True(t, len(found) == 1 && found[0].Result == finding.Failed, findingtest.Lines(found))
	})
	t.Run("the requests are few", func(t *testing.T) {
		a := risky(3200, 0)
		rehearse(t, a, filepath.Join(t.TempDir(), "state.db"), "detections: {start: beginning}", "start: now", "appliance hq")
		assert.Equal(t, a.Requests()["POST /detections/search"], 5, "of", a.Requests())
	})
}
