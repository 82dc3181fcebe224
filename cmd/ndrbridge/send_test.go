package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestATestEventIsSent(t *testing.T) {
	t.Parallel()
	r := receive(t)
	i := install(t, r.sink(), fmt.Sprintf(`- {name: detections, webhook: {url: %q, template: '{"sink": {{if .test}}{{.test.sink.x}}{{else}}1{{end}}}'}, match: "detection.risk_score > 99"}`, r.url))
	lines := func() (all []string) {
		b, _ := os.ReadFile(i.events) // it may not be there yet
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"type":"io.ndrbridge.sink.test"`) {
				all = append(all, line)
			}
		}
		return all
	}
	send := func(exit int, sink string, flags ...string) (sent admin.TestSent) {
		t.Helper()
		out, _ := i.run(exit, append([]string{"send", sink, "--json"}, flags...)...)
		require.NoError(t, json.Unmarshal([]byte(out), &sent))
		assert.Equal(t, sent.Delivered, exit == 0, "delivered")
		return sent
	}
	results := func(t *testing.T, flags []string) {
		before := len(lines())
		sent := send(0, "log", flags...)
		require.Equal(t, len(lines()), before+1, "test events in the file")
		assert.Contains(t, lines()[before], `"id":"`+sent.Event+`"`)
		assert.Contains(t, lines()[before], "Test event of ndrbridge, no action needed")
		i.expect(flags, []expected{
			{[]string{"send", "log"}, 0, []string{"sink log", "ok", "look for", "io.ndrbridge.sink.test"}},
			{[]string{"send", "soc"}, 0, []string{"POST to " + r.url + ": 200 OK"}},
			{[]string{"send", "detections"}, 1, []string{"failed", "template", "ndrbridge try render"}},
			{[]string{"send", "chat"}, 1, []string{`unknown sink "chat": the configuration has log, soc, detections`}},
		})
		r.forbidden.Store(true)
		defer r.forbidden.Store(false)
		i.expect(flags, []expected{{[]string{"send", "soc"}, 1, []string{"403 Forbidden", "check the credentials"}}})
	}
	byFile := []string{"--config", i.config}
	t.Run("without a bridge and a state", func(t *testing.T) { results(t, byFile) })
	i.appliance.AddMany(3)
	stop := i.start()
	i.await("detections", 3)
	i.awaitSink("one that has completed everything", func(s admin.SinkStatus) bool { return s.LagEvents == 0 })
	t.Run("beside a running bridge, which neither counts nor journals it", func(t *testing.T) {
		i.run(0, "pause", "soc", "--config", i.config)
		results(t, byFile)
		results(t, i.byAddress())
		i.run(0, "resume", "soc", "--config", i.config)
		i.awaitStatus("nothing has changed", func(s admin.Status) bool {
			for _, sink := range s.Sinks {
				if sink.DeadLetters > 0 || sink.LagEvents > 0 || sink.Delivered > 3 || sink.State != "running" {
					return false
				}
			}
			return true
		})
		out, _ := i.run(0, "tail", "--since", "beginning", "--no-follow", "--json", "--config", i.config)
		assert.NotContains(t, out, "sink.test", "the journal")
	})
	stop()
	t.Run("beside the state of a bridge that does not run", func(t *testing.T) { results(t, byFile) })
}
