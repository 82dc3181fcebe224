package pipeline_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

func TestAnUnreachableSourceHasALagAfterARestart(t *testing.T) {
	t.Parallel()
	m := &member{name: "hq", appliance: standin.New(standin.Options{Seed: 1})}
	m.appliance.AddMany(3)
	shows := httptest.NewServer(m.appliance)
	m.config = require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
appliances:
  - {name: hq, url: %q, api_key: %s, retry: {initial: 20ms, max: 50ms}, detections: {start: beginning, interval: 20ms}, audit: {enabled: false}}
sinks:
  - {name: lake, file: {path: %[4]q}}
`, filepath.Join(t.TempDir(), "state.db"), shows.URL, standin.DefaultAPIKey, filepath.Join(t.TempDir(), "events.jsonl")), nil))(t)
	p := newProcess()
	stream := func(r *running) admin.StreamStatus {
		return require.Value(r.Control().Status(t.Context()))(t).Appliances[0].Streams[0]
	}
	r := p.run(t, m)
	await(t, "the detections", func() bool { return stream(r).Events == 3 })
	r.cancel()
	require.NoError(t, r.end(t))
	shows.Close()
	r = p.run(t, m)
	await(t, "a failed poll", func() bool { return stream(r).Failures > 0 })
	after := stream(r)
	require.True(t, after.LagSeconds != nil && *after.LagSeconds > 0, "lag", after)
	r.cancel()
	require.NoError(t, r.end(t))
}
