package pipeline_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/configs"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

func TestAnOptionalStreamThatTheApplianceRefusesIsOffAndTheBridgeReady(t *testing.T) {
	t.Parallel()
	a := standin.New(standin.Options{Seed: 1})
	shows := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/rules/hiding") {
			http.Error(w, `{"error_message": "not for this key"}`, http.StatusForbidden)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(shows.Close)
	m := &member{name: "hq", appliance: a}
	m.config = require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
appliances:
  - name: hq
    url: %q
    api_key: %s
    rate_limit: 1000
    detections: {interval: 20ms}
    audit: {enabled: false}
    rules: {enabled: true, interval: 20ms}
    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true, interval: 20ms}
sinks:
  - {name: soc, webhook: {url: %q}}
`, filepath.Join(t.TempDir(), "state.db"), shows.URL, standin.DefaultAPIKey, loopback.Receive(t).URL), nil))(t)
	r := newProcess().run(t, m)
	await(t, "all streams are read or off", func() bool { return len(r.NotReady()) == 0 })
	status := require.Value(r.Control().Status(t.Context()))(t)
	var names []string
	for _, s := range status.Appliances[0].Streams {
		names = append(names, s.Stream)
		off := s.Stream == "rules"
		assert.True(t, s.Off == off && s.LastSuccess.IsZero() == off && (s.Cause != "") == off, s.Stream, s)
	}
	assert.EqualSlices(t, names, []string{"detections", "rules", "blind_spots/exclusion_intervals", "blind_spots/alerts", "blind_spots/record_ingest"})
	r.cancel()
	require.NoError(t, r.end(t))
}
