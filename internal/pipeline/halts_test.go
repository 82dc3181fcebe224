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

func TestAHaltAndItsEndReachTheSinkToNotifyOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(t *testing.T, p *process, m *member, lake *loopback.Receiver, r *running) *running // of the halt
		reason string
	}{
		{"the target accepts events again", func(_ *testing.T, _ *process, _ *member, lake *loopback.Receiver, r *running) *running {
			lake.Answer(0)
			return r
		}, ""},
		{"and the bridge is restarted before", func(t *testing.T, p *process, m *member, lake *loopback.Receiver, r *running) *running {
			r.cancel()
			require.NoError(t, r.end(t))
			r = p.run(t, m) // halts again, which is known
			await(t, "the halt", func() bool { return strings.Contains(strings.Join(r.NotReady(), "; "), "sink lake is halted") })
			lake.Answer(0)
			return r
		}, ""},
		{"the sink is removed", func(t *testing.T, _ *process, m *member, _ *loopback.Receiver, r *running) *running {
			without := *m.config
			without.Sinks = without.Sinks[1:]
			_, err := r.Reload(t.Context(), func() *configs.Config { return &without })
			require.NoError(t, err)
			return r
		}, "it was removed from the configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lake, chat := loopback.Receive(t), loopback.Receive(t)
			lake.Answer(http.StatusUnauthorized)
			m := &member{name: "hq", appliance: standin.New(standin.Options{Seed: 1})}
			m.appliance.AddMany(3)
			shows := httptest.NewServer(m.appliance)
			t.Cleanup(shows.Close)
			m.config = require.Value(configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
notify: [chat]
appliances:
  - {name: hq, url: %q, api_key: %s, detections: {start: beginning, interval: 20ms}, audit: {enabled: false}}
sinks:
  - {name: lake, webhook: {url: %q}, batch: {linger: 0}, probe: 50ms}
  - {name: chat, webhook: {url: %q}, batch: {linger: 0}, match: 'detection.risk_score > 99'}
`, filepath.Join(t.TempDir(), "state.db"), shows.URL, standin.DefaultAPIKey, lake.URL, chat.URL), nil))(t)
			p := newProcess()
			r := p.run(t, m)
			await(t, "the report of the halt", func() bool { return len(chat.Events()) == 1 })
			r = c.end(t, p, m, lake, r)
			await(t, "the report of its end", func() bool { return len(chat.Events()) == 2 })
			r.cancel()
			require.NoError(t, r.end(t))
			got := chat.Events()
			require.Equal(t, len(got), 2, "events")
			assert.Equal(t, got[0].Type+" "+got[1].Type, "io.ndrbridge.sink.halted io.ndrbridge.sink.resumed", "types")
			assert.Contains(t, string(got[0].Data()), "401", "reason")
			assert.Contains(t, string(got[1].Data()), c.reason, "reason")
			assert.Equal(t, got[0].Subject+" "+got[1].Subject, "lake lake", "subjects")
		})
	}
}
