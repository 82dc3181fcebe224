package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// client returns a client of an appliance.
func client(t *testing.T, answers http.HandlerFunc) *appliance.Client {
	t.Helper()
	c, err := appliance.New(appliance.Options{
		URL: "http://sensor.example", Key: func() (string, error) { return "k", nil }, Transport: direct{answers},
	})
	require.NoError(t, err)
	return c
}

func TestAnApplianceIsReplacedIfTwoOfItsFactsChange(t *testing.T) {
	var (
		first   = appliance.System{Hostname: "a.example", MgmtIPAddr: "192.0.2.1", Platform: "sensor"}
		second  = appliance.System{Hostname: "b.example", MgmtIPAddr: "192.0.2.2", Platform: "sensor"}
		renamed = appliance.System{Hostname: "b.example", MgmtIPAddr: "192.0.2.1", Platform: "sensor"}
	)
	for name, test := range map[string]struct {
		answers  []appliance.System
		replaced bool
		warned   bool
	}{
		"the same answer again":                       {[]appliance.System{first, first}, false, false},
		"two other facts":                             {[]appliance.System{first, second}, true, false},
		"another name":                                {[]appliance.System{first, renamed}, false, true},
		"an answer without any fact":                  {[]appliance.System{first, {}, first}, false, false},
		"two other facts after an answer without any": {[]appliance.System{first, {}, second}, true, false},
		"two other facts after an answer with one":    {[]appliance.System{first, {Platform: "sensor"}, second}, true, false},
		"an answer with another of the host's names":  {[]appliance.System{first, {DisplayHost: "Sensor A"}, first}, false, false},
		"two other facts, one of them another of its names": {[]appliance.System{
			{Hostname: "a.example", ExternalHostname: "a.out", MgmtIPAddr: "192.0.2.1"},
			{ExternalHostname: "b.out", MgmtIPAddr: "192.0.2.2"},
		}, true, false},
		"a hostname after an answer with the display name alone": {[]appliance.System{
			{DisplayHost: "Sensor A", MgmtIPAddr: "192.0.2.1"}, {Hostname: "a.example", MgmtIPAddr: "192.0.2.1"},
		}, false, false},
		"a first answer that lacks what the next has":  {[]appliance.System{{Platform: "sensor"}, first}, false, false},
		"an address that changes after one without it": {[]appliance.System{first, {Hostname: "a.example"}, {Hostname: "a.example", MgmtIPAddr: "192.0.2.2"}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
			require.NoError(t, err)
			defer store.Close()
			var log bytes.Buffer
			d := newSystem("hq", client(t, nil), store, slog.New(slog.NewTextHandler(&log, nil)))
			for _, is := range test.answers {
				require.NoError(t, d.observe(t.Context(), is))
			}
			_, known, err := storedIdentity(t.Context(), store, identitySource("hq"))
			require.NoError(t, err)
			assert.True(t, (known.Replaced != nil) == test.replaced && strings.Contains(log.String(), renamedMessage) == test.warned, known.Replaced, test.replaced, test.warned, &log)
		})
	}
}

func TestWhetherAnApplianceWasReplacedIsAskedOfIt(t *testing.T) {
	store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
	defer store.Close()
	status, answer := 200, `{"hostname": "a.example", "mgmt_ipaddr": "192.0.2.1"}`
	d := newSystem("hq", client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}), store, slog.New(slog.DiscardHandler))
	for _, step := range []struct {
		status int
		answer string
		want   bool
	}{
		{200, answer, false},
		{403, "{}", false}, // the key may not ask
		{200, `{"hostname": "b.example", "mgmt_ipaddr": "192.0.2.2"}`, true},
		{200, answer, true}, // until an operator drops it
		{403, "{}", true},
	} {
		status, answer = step.status, step.answer
		replaced, err := d.replaced(t.Context())
		require.NoError(t, err)
		assert.Equal(t, replaced, step.want, "replaced after", step)
	}
}

func TestFirmwareVersion(t *testing.T) {
	begin := func(t *testing.T) (f *system, version *atomic.Value, asked *atomic.Int64, stop func()) {
		version, asked = new(atomic.Value), new(atomic.Int64)
		version.Store("26.3.0.1")
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/version") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			asked.Add(1)
			fmt.Fprintf(w, `{"version": %q}`, version.Load())
		})
		f = newSystem("hq", c, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		return f, version, asked, func() {
			cancel()
			running.Wait()
		}
	}
	want := func(t *testing.T, f *system, version string, asked *atomic.Int64, times int64) {
		t.Helper()
		if synctest.Wait(); f.version() != version || asked.Load() != times {
			t.Errorf("%q after %d requests, want %q after %d", f.version(), asked.Load(), version, times)
		}
	}
	for name, test := range map[string]func(t *testing.T){
		"from when the appliance is reached, and again each hour": func(t *testing.T) {
			f, version, asked, stop := begin(t)
			defer stop()
			time.Sleep(time.Minute)
			want(t, f, "", asked, 0)
			f.reached()
			want(t, f, "26.3.0.1", asked, 1)
			version.Store("26.4")
			time.Sleep(59 * time.Minute)
			want(t, f, "26.3.0.1", asked, 1)
			time.Sleep(time.Minute)
			want(t, f, "26.4", asked, 2)
		},
		"again when it is reached again": func(t *testing.T) {
			f, version, asked, stop := begin(t)
			defer stop()
			f.reached()
			want(t, f, "26.3.0.1", asked, 1)
			version.Store("26.4")
			f.reached()
			want(t, f, "26.4", asked, 2)
		},
		"as it was where it cannot be read": func(t *testing.T) {
			f, version, asked, stop := begin(t)
			defer stop()
			f.reached()
			want(t, f, "26.3.0.1", asked, 1)
			version.Store("soon")
			f.reached()
			want(t, f, "26.3.0.1", asked, 2)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
