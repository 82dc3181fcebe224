package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/fixture"
	"ndrbridge/internal/pipeline"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// everyPart is the configuration of a bridge with every follow-up on.
const everyPart = `
state: %s
appliances:
  - name: hq
    url: http://sensor.example
    api_key: ` + standin.DefaultAPIKey + `
    detections: {start: beginning, interval: 1s, reconcile: {every: 5s, report: [hidden, gone, shown]}}
    audit: {enabled: false}
    notes: {in: true, interval: 10s}
    context: {devices: true, tags: true, groups: true}
    evidence: {match: detection.risk_score >= 80, types: ["~http", "~dns"], max_records: 1, related: true}
    rules: {enabled: true, interval: 10s}
    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true, interval: 10s}
sinks: [{name: lake, start: beginning, file: {path: "-"}}]
`

// provoked are the types of events that a run of a bridge must deliver, without their prefix.
var provoked = []string{
	"detection.created", "detection.updated", "detection.hidden", "detection.gone", "detection.shown", "detection.noted",
	"detection.context", "detection.evidence", "rule.created", "rule.updated", "rule.expired", "rule.removed",
	"blindspot.opened", "blindspot.closed",
}

// sensor is an appliance whose requests are answered without a network: time stands still
// meanwhile.
type sensor struct{ *standin.Appliance }

func (s sensor) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// ask makes the request of an analyst, and returns the path of what it created.
func (s sensor) ask(t *testing.T, method, path, body string) (created string) {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, w.Code/100, 2, method, path, w.Body)
	location := w.Header().Get("Location")
	if location == "" {
		return ""
	}
	return path + location[strings.LastIndexByte(location, '/'):]
}

// ran returns the last event of each type that a bridge with every follow-up delivers about the
// detection of package fixture, and about what it provokes at the appliance. Its clocks are those of the
// bubble. Everything happens on a minute, and what it leads to within it, so the times of the bridge,
// whose polls are a little irregular, are those of the minute.
func ran(t *testing.T) (all []example) {
	t.Helper()
	var delivered bytes.Buffer
	synctest.Test(t, func(t *testing.T) { runBridge(t, &delivered) })
	last := make(map[string]transform.Event)
	for line := range bytes.Lines(delivered.Bytes()) {
		e := require.Value(transform.Parse(sometime.ReplaceAll(bytes.TrimSpace(line), []byte("$1:00.000Z"))))(t)
		kind := strings.TrimPrefix(e.Type, transform.TypePrefix)
		if e.Stream() != transform.StreamDetections || e.Subject == subject || kind == "detection.gone" {
			last[kind] = e
		}
	}
	for _, kind := range provoked {
		e, found := last[kind]
		if assert.True(t, found, "the bridge delivered no", kind, delivered.String()) {
			all = append(all, example{strings.TrimPrefix(kind, "detection."), e})
		}
	}
	require.Equal(t, len(last), len(provoked), "types of events")
	return all
}

// subject is the id of the detection of package fixture.
const subject = "25769804127"

// sometime is a time that the bridge wrote, from its minute on.
var sometime = regexp.MustCompile(`(T\d\d:\d\d):\d\d(\.\d+)?Z`)

func runBridge(t *testing.T, delivered io.Writer) {
	at := func(minute int) { time.Sleep(time.Until(time.Date(2026, time.March, 14, 9, minute, 0, 0, time.UTC))) }
	at(18)
	a := sensor{standin.New(standin.Options{Seed: 1, Now: time.Now})}
	var d standin.Detection
	require.NoError(t, json.Unmarshal(require.Value(fixture.Object("detection"))(t), &d))
	d.ModTime, d.Status = 0, "new"
	var record struct {
		Source struct{ ClientAddr struct{ Value string } } `json:"_source"`
	}
	require.NoError(t, json.Unmarshal(a.AddRecordsAt(1, d.StartTime*1000)[0].JSON, &record))
	d.Participants[0].ObjectValue = record.Source.ClientAddr.Value
	other := a.AddMany(1)[0].ID // which goes
	a.Add(d)
	device := fmt.Sprintf(`{"object_type":"device","object_id":%d}`, d.Participants[0].ObjectID)
	node := fmt.Sprintf("/devices/%d", d.Participants[0].ObjectID)
	a.ask(t, http.MethodPatch, node, `{"custom_criticality":"critical"}`)
	a.ask(t, http.MethodPost, node+a.ask(t, http.MethodPost, "/devicegroups", `{"name":"Finance","dynamic":false}`), "")

	at(19)
	config := require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, everyPart, filepath.Join(t.TempDir(), "state.db")), nil))(t)
	p := pipeline.New(pipeline.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: delivered, Started: time.Now(),
		Registerer: prometheus.NewRegistry(), Pages: appliance.NewBudget(1 << 20), Transport: a,
	})
	require.NoError(t, p.Open(t.Context(), config))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *pipeline.Stop)
	go func() { ended <- p.Run(ctx, func(...any) {}) }()
	defer func() {
		cancel()
		stopped := <-ended
		p.Close(stopped)
		assert.NoError(t, p.Err())
		assert.Empty(t, stopped.Left, "were abandoned")
	}()

	at(20)
	a.ask(t, http.MethodPut, fmt.Sprintf("/detections/%d/notes", d.ID), `{"note":"The nightly copy; see SEC-1","author":"ada"}`)
	at(21)
	expires := time.Now().Add(2 * time.Minute).UnixMilli()
	rule := a.ask(t, http.MethodPost, "/detections/rules/hiding", fmt.Sprintf(
		`{"offender":%s,"victim":"Any","expiration":%d,"detection_type":%q,"description":"Nightly copy of files-3"}`, device, expires, d.Type))
	at(22)
	a.ask(t, http.MethodPatch, rule, `{"description":"Copy of files-3"}`)
	at(24) // it has expired
	a.ask(t, http.MethodDelete, rule, "")
	at(25)
	a.ask(t, http.MethodPost, "/exclusionintervals", fmt.Sprintf(`{"name":"Patch day","interval_type":"onetime","start":%d,"end":%d,"alert_apply_all":true,"trend_apply_all":false}`,
		time.Now().Unix(), time.Now().Add(2*time.Minute).Unix()))
	at(26)
	a.Hide(other)
	at(28)
	require.NoError(t, a.UpdateAs("ada", func(d *standin.Detection) { d.Status, d.Assignee = "in_progress", "ada" }, d.ID))
	at(29)
	require.NoError(t, a.UpdateAs("ada", func(d *standin.Detection) {
		d.Status, d.Resolution, d.TicketID, d.EndTime = "closed", "action_taken", standin.TicketID{ID: "SEC-1"}, d.UpdateTime
		d.Participants = append(d.Participants, standin.Participant{ID: 14, Role: "victim", ObjectType: "ipaddr", ObjectValue: "198.51.100.23", External: true})
	}, d.ID))
	at(31)
}
