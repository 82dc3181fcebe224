package bridge_test

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheStatusHasTheResultOfTheLastReload(t *testing.T) {
	_, url := startAppliance(t, 1)
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	r := run(t, yaml)
	const secret = "s3cr3t"
	broken := yaml + strings.Replace(webhookSink("other", "ftp://hooks.example/"+secret), "webhook: {", "webhook: {auth: {bearer: "+secret+"}, ", 1)
	last := func() *admin.ReloadStatus {
		t.Helper()
		status := require.Value(r.control(t).Status(t.Context()))(t)
		return status.Reload
	}
	metrics := func() string {
		_, text := get(t, "http://"+r.AdminAddress()+"/metrics")
		return text
	}
	got := last()
	assert.True(t, got == nil, "before any reload", got)
	assert.Contains(t, metrics(), "ndrbridge_config_last_reload_successful 1\n", "before any reload, the metric is not 1")
	began := time.Now()
	for _, c := range []struct {
		name, yaml string
		reload     func() error
		want       admin.ReloadStatus
		err        string // part of the error; empty: none
	}{
		{"a request that changes something", strings.Replace(yaml, "max_events: 50", "max_events: 7", 1), func() error {
			_, err := r.control(t).Reload(t.Context())
			return err
		}, admin.ReloadStatus{Trigger: "api", OK: true, Changes: []string{"sink soc: changed"}}, ""},
		{"a signal that finds an error", broken, func() error {
			_, err := r.Reload(t.Context(), admin.TriggerSignal)
			return err
		}, admin.ReloadStatus{Trigger: "signal"}, "sinks[1].webhook.url"},
		{"a watch that finds what is there already", strings.Replace(yaml, "max_events: 50", "max_events: 7", 1), func() error {
			_, err := r.Reload(t.Context(), admin.TriggerWatch)
			return err
		}, admin.ReloadStatus{Trigger: "watch", OK: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.yaml.Store(&c.yaml)
			err := c.reload()
			got := last()
			require.True(t, got != nil && !got.Time.Before(began), "the status", got)
			assert.True(t, c.err == "" == (err == nil) && strings.Contains(got.Error, c.err) && (c.err == "") == (got.Error == ""), err, "and in the status", got.Error)
			assert.NotContains(t, got.Error, secret, "the error has a secret")
			c.want.Time, c.want.Error = got.Time, got.Error
			assert.DeepEqual(t, *got, c.want)
			message := map[bool]string{true: "configuration reloaded", false: "configuration not reloaded"}[c.want.OK]
			assert.True(t, r.log.hasLine(message, "trigger="+c.want.Trigger), "the log has no line", message)
			value := map[bool]string{true: "1", false: "0"}[c.want.OK]
			assert.Contains(t, metrics(), "ndrbridge_config_last_reload_successful "+value+"\n", "the metric is not", value)
		})
	}
}
