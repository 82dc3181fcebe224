package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/appliance"
)

func TestFirmwareVersion(t *testing.T) {
	begin := func(t *testing.T) (f *firmware, version *atomic.Value, asked *atomic.Int64, stop func()) {
		version, asked = new(atomic.Value), new(atomic.Int64)
		version.Store("26.3.0.1")
		client, err := appliance.New(appliance.Options{
			URL: "http://sensor.example", Key: func() (string, error) { return "k", nil },
			Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				fmt.Fprintf(w, `{"version": %q}`, version.Load())
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		f = newFirmware(client, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		return f, version, asked, func() {
			cancel()
			running.Wait()
		}
	}
	want := func(t *testing.T, f *firmware, version string, asked *atomic.Int64, times int64) {
		t.Helper()
		if synctest.Wait(); f.String() != version || asked.Load() != times {
			t.Errorf("%q after %d requests, want %q after %d", f, asked.Load(), version, times)
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
