package bridge_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
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
		status, err := r.control(t).Status(t.Context())
		require.NoError(t, err)
		return status.Reload
	}
	metrics := func() string {
		_, text := get(t, "http://"+r.AdminAddress()+"/metrics")
		return text
	}
	if got := last(); got != nil {
		t.Errorf("before any reload: %+v", got)
	}
	if !strings.Contains(metrics(), "ndrbridge_config_last_reload_successful 1\n") {
		t.Error("before any reload, the metric is not 1")
	}
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
			if got == nil || got.Time.Before(began) {
				t.Fatalf("the status has %+v", got)
			}
			if c.err == "" != (err == nil) || !strings.Contains(got.Error, c.err) || (c.err == "") != (got.Error == "") {
				t.Errorf("error %v, and in the status %q", err, got.Error)
			}
			if strings.Contains(got.Error, secret) {
				t.Errorf("the error has a secret: %s", got.Error)
			}
			c.want.Time, c.want.Error = got.Time, got.Error
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("%+v, want %+v", *got, c.want)
			}
			if message := map[bool]string{true: "configuration reloaded", false: "configuration not reloaded"}[c.want.OK]; !r.log.hasLine(message, "trigger="+c.want.Trigger) {
				t.Errorf("the log has no line %q", message)
			}
			value := map[bool]string{true: "1", false: "0"}[c.want.OK]
			if !strings.Contains(metrics(), "ndrbridge_config_last_reload_successful "+value+"\n") {
				t.Errorf("the metric is not %s", value)
			}
		})
	}
}

func TestABridgeReloadsWhenAWatchedFileChanges(t *testing.T) {
	t.Parallel()
	_, url := startAppliance(t, 1)
	soc := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(soc.Close)
	folder := t.TempDir()
	file, template := filepath.Join(folder, "ndrbridge.yaml"), filepath.Join(folder, "template")
	yaml := configuration(t, url, strings.Replace(webhookSink("soc", soc.URL), "webhook: {", "webhook: {template_file: "+template+", ", 1)) + "reload: {watch: 1s}\n"
	write := func(path, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(template, `{"first": {{json .event}}}`)
	write(file, yaml)
	source := configs.Source{Paths: []string{file}}
	r := run(t, yaml, func(o *bridge.Options) {
		o.Load, o.Files = func() (*configs.Config, error) { return configs.Load(source) }, source.Files
	})
	ctx, cancel := context.WithCancel(context.Background())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		r.Watch(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-watching
	})
	for _, c := range []struct {
		name   string
		change func()
		want   []string // nil: the reload fails
	}{
		{"its own file", func() { write(file, yaml+"journal: {retain: 1h}\n") }, []string{"journal: changed"}},
		{"a template", func() { write(template, `{"second": {{json .event}}}`) }, []string{"sink soc: changed"}},
		{"a mistake", func() { write(file, "colour: red\n"+yaml) }, nil},
		{"the mistake is undone", func() { write(file, yaml) }, []string{"journal: changed"}},
	} {
		c.change()
		await(t, c.name, func() bool {
			status, err := r.control(t).Status(t.Context())
			return err == nil && status.Reload != nil && status.Reload.OK == (c.want != nil) && slices.Equal(status.Reload.Changes, c.want)
		})
	}
	text := r.log.String()
	if n := strings.Count(text, "colour"); n != 1 {
		t.Errorf("the mistake is logged %d times:\n%s", n, text)
	}
	if strings.Contains(text, "changes=0") {
		t.Errorf("the log has the reload that only compares:\n%s", text)
	}
}
