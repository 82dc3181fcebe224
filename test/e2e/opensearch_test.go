//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// deployElastic is the folder of the templates.
const deployElastic = "../../deploy/elastic"

// TestOpenSearch tests the preset elasticsearch, the index templates and the query for the
// latest versions with OpenSearch.
func TestOpenSearch(t *testing.T) {
	t.Parallel()
	program := buildBridge(t)
	o := startOpenSearch(t)
	a := appliance.New(appliance.Options{Seed: 1})
	server := httptest.NewServer(freeShapes(a))
	t.Cleanup(server.Close)
	const first, updates, entries, records = 15_000, 5_000, 300, 300
	versions := a.AddBacklog(first, time.Hour)
	a.AddAudit(entries)
	require.NoError(t, a.AddRecordBacklog(records, time.Minute))
	config := writeConfig(t, server.URL, 50*time.Millisecond, fmt.Sprintf(`
sinks:
  - name: sink
    start: beginning
    format: ecs
    retry: {initial: 50ms, max: 500ms}
    webhook: {preset: elasticsearch, url: %q, concurrency: 2}
`, o.url))
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	write(t, config, strings.Replace(string(text), "audit: {enabled: false}", `audit: {start: beginning, interval: 50ms}
    records: [{name: all, start: beginning, interval: 50ms, delay: 1s}]`, 1))
	o.checkReports(t, program, config, "none maps the fields of the documents")
	o.load(t, "/_component_template/ndrbridge", "component.json")
	o.load(t, "/_index_template/ndrbridge", "data-streams.json")
	o.checkReports(t, program, config, "it maps the fields of the documents")

	b := runBridge(t, program, config)
	b.awaitDrained(t, a)
	for i, v := range versions[:updates] {
		if err := a.Update(func(d *appliance.Detection) {
			d.TicketID = appliance.TicketID{ID: strconv.Itoa(i), Numeric: i%2 == 0}
			d.Status = []appliance.Text{"closed", "in_progress", appliance.Null}[i%3]
		}, v.ID); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitDrained(t, a)

	want := map[string]int{"detection": first + updates, "audit": entries, "record": records}
	stored := func() map[string]int {
		o.do(t, http.MethodPost, "/_refresh", "", nil)
		got := map[string]int{}
		for dataset := range want {
			var count struct{ Count int }
			o.do(t, http.MethodGet, "/logs-ndrbridge."+dataset+"-default/_count", "", &count)
			got[dataset] = count.Count
		}
		return got
	}
	eventually(t, 10*time.Second, func() error {
		if got := stored(); !maps.Equal(got, want) {
			return fmt.Errorf("documents %v, want %v\n%s", got, want, b.output.end())
		}
		return nil
	})
	accepted := func() {
		t.Helper()
		if now, err := b.sink(); err != nil || now.DeadLetters > 0 || now.State != "running" {
			t.Fatalf("the sink is %s, with %d dead letters: %v\n%s", now.State, now.DeadLetters, err, b.output.end())
		}
	}
	accepted()
	o.holdsLatest(t, a)

	before, err := b.delivered()
	require.NoError(t, err)
	replay := exec.Command(program, "replay", "sink", "--since", "beginning", "--yes", "--admin", b.admin)
	start(t, replay).succeed(t, time.Minute)
	eventually(t, time.Minute, func() error {
		now, err := b.delivered()
		if all := first + updates + entries + records; err == nil && now < before+all {
			err = fmt.Errorf("%d of %d delivered again", now-before, all)
		}
		return err
	})
	got := stored()
	assert.True(t, maps.Equal(got, want), "after a replay, documents", got, want)
	accepted()
	o.holdsLatest(t, a)
	b.terminate(t)
}

// checkReports fails unless the check of a configuration succeeds and reports text.
func (o *openSearch) checkReports(t testing.TB, program, config, text string) {
	t.Helper()
	check := start(t, exec.Command(program, "check", "--connect", "--config", config))
	check.succeed(t, time.Minute)
	assert.Contains(t, check.output.String(), text, "the check does not report")
}

// load sends a file of deployElastic.
func (o *openSearch) load(t testing.TB, path, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployElastic, "opensearch", file))
	require.NoError(t, err)
	o.do(t, http.MethodPut, path, string(text), nil)
}

// holdsLatest fails unless the query for the latest versions returns those of the
// appliance.
func (o *openSearch) holdsLatest(t testing.TB, a *appliance.Appliance) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployElastic, "opensearch", "latest-query.json"))
	require.NoError(t, err)
	var query map[string]any
	require.NoError(t, json.Unmarshal(text, &query))
	detections := query["aggs"].(map[string]any)["detections"].(map[string]any)
	composite := detections["composite"].(map[string]any)
	detections["aggs"].(map[string]any)["latest"].(map[string]any)["top_hits"].(map[string]any)["_source"] = "@timestamp"
	got := map[string]string{} // times, by the detections' ids
	for {
		body, err := json.Marshal(query)
		require.NoError(t, err)
		var reply struct {
			Aggregations struct {
				Detections struct {
					AfterKey map[string]any `json:"after_key"`
					Buckets  []struct {
						Key    map[string]string
						Latest struct {
							Hits struct {
								Hits []struct {
									Source struct {
										Time string `json:"@timestamp"`
									} `json:"_source"`
								}
							}
						}
					}
				}
			}
		}
		o.do(t, http.MethodPost, "/logs-ndrbridge.detection-*/_search", string(body), &reply)
		for _, b := range reply.Aggregations.Detections.Buckets {
			got[b.Key["ndrbridge.detection.id"]] = b.Latest.Hits.Hits[0].Source.Time
		}
		if reply.Aggregations.Detections.AfterKey == nil {
			break
		}
		composite["after"] = reply.Aggregations.Detections.AfterKey
	}
	latest := a.Latest()
	assert.Equal(t, len(got), len(latest), "the latest of", "detections")
	for _, v := range latest {
		require.Equal(t, got[strconv.FormatInt(v.ID, 10)], time.UnixMilli(v.ModTime).UTC().Format("2006-01-02T15:04:05.000Z"), "the latest of", v.ID, "is of")
	}
}

// freeShapes changes the detections that an appliance returns to shapes that others have
// been seen with or may have. The same detection always has the same.
func freeShapes(a http.Handler) http.Handler {
	deep := strings.Repeat(`{"a":[`, 40) + "1" + strings.Repeat("]}", 40)
	long := strings.Repeat("0123456789", 4_000)
	shapes := []map[string]string{
		{},
		{"properties": `{}`, "ticket_id": `17`, "mitre_techniques": `["T1110","T1021.001"]`, "mitre_tactics": `["TA0001",null,3]`},
		{"properties": `"text"`, "ticket_id": `"SEC-17"`, "participants": `null`, "categories": `"sec"`},
		{"properties": `[1,"a",{"b":[]},[2]]`, "ticket_id": `{"n":1}`, "participants": `{"role":"offender"}`, "title": `17`},
		{"properties": `{"type":{"x":1},"value":[{"y":{}},2],"a.b":1,"a":{"b":2},"":3}`, "ticket_id": `[1,"2"]`, "participants": `["text",{"role":"victim","object_value":7}]`},
		{"properties": deep, "risk_score": `"high"`, "start_time": `"yesterday"`, "end_time": `-1`, "url": `"javascript:alert(1)"`},
		{"title": `"a\r\nb\t\u0000|\\ \ud800"`, "properties": `{"\u0000":"\u0000"}`, "url": `7`, "recommended": `"no"`},
		{"properties": `12.5`, "status": `4`, "resolution": `true`, "assignee": `{"name":"ana"}`, "mitre_techniques": `"T1110"`, "mitre_tactics": `{}`},
		{"properties": `{"n":1e300,"i":18446744073709551617,"x":null}`, "more": `{"a":[{"b":1},"c"]}`, "other": `[[],[[1]]]`, "appliance_id": `"x"`},
	}
	// OpenSearch refuses longer terms.
	large := map[string]string{"properties": `{"note":"` + long + `"}`, "description": `"` + long + `"`, "assignee": `"` + long + `"`, "ticket_id": `"` + long + `"`}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/detections/search") {
			a.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		a.ServeHTTP(answer, r)
		var detections []json.RawMessage
		if json.Unmarshal(answer.Body.Bytes(), &detections) != nil {
			panic("the stand-in's answer is no array")
		}
		for i, text := range detections {
			var d map[string]json.RawMessage
			if json.Unmarshal(text, &d) != nil { // a search for ids alone
				maps.Copy(w.Header(), answer.Header())
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
				return
			}
			id, err := strconv.Atoi(string(d["id"]))
			if err != nil {
				panic(err)
			}
			shape := shapes[id%len(shapes)]
			if id%200 == 0 {
				shape = large
			}
			for name, value := range shape {
				d[name] = json.RawMessage(value)
			}
			var b bytes.Buffer
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(d); err != nil {
				panic(err)
			}
			detections[i] = b.Bytes()
		}
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_ = json.NewEncoder(w).Encode(detections) // the client may be gone
	})
}
