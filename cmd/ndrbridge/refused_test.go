package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/pipeline"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// refusing answers 403 to requests whose path has a suffix, and others by an appliance, without a
// network.
type refusing struct {
	*standin.Appliance
	suffix atomic.Pointer[string]
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if suffix := *r.suffix.Load(); suffix != "" && strings.HasSuffix(request.URL.Path, suffix) {
		http.Error(w, `{"error_message": "not for this key"}`, http.StatusForbidden)
	} else {
		r.ServeHTTP(w, request)
	}
	return w.Result(), nil
}

func TestAPartThatTheKeyMayNotReadIsOffForAnHour(t *testing.T) {
	for _, c := range []struct{ stream, refused string }{
		{"detections/lifecycle", "/detections/25769803901"}, // which no search shows any more
		{"detections/notes", "/notes"},
		{"detections/context", "/devices/search"},
		{"detections/evidence", "/records/search"},
		{"rules", "/rules/hiding"},
		{"blind_spots/exclusion_intervals", "/exclusionintervals"},
		{"blind_spots/alerts", "/alerts"},
		{"blind_spots/record_ingest", "/cluster"},
		{"blind_spots/ticket_tracking", "/ticketing"},
	} {
		t.Run(c.stream, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { refuse(t, c.stream, c.refused) }) })
	}
}

func refuse(t *testing.T, stream, suffix string) {
	a := &refusing{Appliance: standin.New(standin.Options{Seed: 1, Now: time.Now})}
	a.suffix.Store(&suffix)
	config := require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
appliances:
  - name: hq
    url: http://sensor.example
    api_key: %s
    detections: {start: beginning, interval: 10s, reconcile: {every: 30s, report: [hidden, gone, shown]}}
    audit: {enabled: false}
    notes: {in: true, interval: 10s}
    context: {devices: true}
    evidence: {match: detection.id != 25769803901}
    rules: {enabled: true, interval: 10s}
    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true, interval: 10s}
sinks: [{name: lake, file: {path: "-"}}]
tickets: {enabled: true}
`, filepath.Join(t.TempDir(), "state.db"), standin.DefaultAPIKey), nil))(t)
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	p := pipeline.New(pipeline.Options{
		Version: "test", Log: slog.New(slog.NewTextHandler(&log, nil)), Stdout: io.Discard, Started: time.Now(),
		Registerer: metrics, Pages: appliance.NewBudget(1 << 20), Transport: a,
	})
	require.NoError(t, p.Open(t.Context(), config))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *pipeline.Stop)
	go func() { ended <- p.Run(ctx, func(...any) {}) }()
	defer func() {
		cancel()
		p.Close(<-ended)
	}()
	events := func() uint64 {
		return require.Value(p.Control().Status(t.Context()))(t).Appliances[0].Streams[0].Events
	}

	d := standin.Detection{
		Title: "Scan", Type: "scan", Status: "new",
		Participants: []standin.Participant{{ID: 1, Role: "offender", ObjectType: "device", ObjectID: 245, ObjectValue: "10.3.99.164"}},
	}
	for id := range int64(3) {
		d.ID = 25769803900 + id
		a.Add(d)
	}
	time.Sleep(time.Minute)
	a.Hide(25769803901)
	time.Sleep(10 * time.Minute) // until the window of evidence has passed
	status := func() string {
		var out bytes.Buffer
		(&command{stdout: &out}).printStatus(require.Value(p.Control().Status(t.Context()))(t), time.Now())
		return out.String()
	}
	off := func() (streams []string) {
		for _, family := range require.Value(metrics.Gather())(t) {
			for _, m := range family.Metric {
				if family.GetName() == "ndrbridge_source_off" && m.Gauge.GetValue() == 1 {
					streams = append(streams, m.String())
				}
			}
		}
		return streams
	}
	line := func(text string) string {
		for l := range strings.Lines(text) {
			if strings.Contains(l, "hq") && strings.Contains(l, stream) && strings.Contains(l, "off") {
				return strings.TrimSpace(l)
			}
		}
		return ""
	}
	synctest.Wait()
	assert.Empty(t, p.NotReady(), "the bridge is not ready")
	assert.Contains(t, line(log.String()), `level=WARN msg="the appliance refuses what this stream reads, which is off until it is asked again; the other streams go on"`)
	assert.Contains(t, line(status()), "off: ", stream)
	require.Equal(t, len(off()), 1, "streams that are off", off())
	assert.Contains(t, off()[0], stream)

	before := events()
	a.AddMany(2)
	time.Sleep(time.Minute)
	assert.Equal(t, events(), before+2, "events of detections while it is off")

	a.suffix.Store(new(""))
	time.Sleep(time.Hour + time.Minute)
	assert.Empty(t, off(), "streams that are off after an hour")
	assert.Equal(t, line(status()), "", "the status after an hour")
}
