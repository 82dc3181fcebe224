package pipeline

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// newTestHeartbeat returns a heartbeat with an interval of one minute, and its state.
func newTestHeartbeat(t *testing.T, limits checkpoint.Limits) (*heartbeat, *checkpoint.Store) {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	p := &Pipeline{version: "test", store: store, started: time.Now(), log: slog.New(slog.DiscardHandler)}
	config := &configs.Config{Events: configs.Events{Heartbeat: configs.Duration(time.Minute)}}
	return p.buildHeartbeat(config, nil), store
}

// heartbeats returns the heartbeats in the journal.
func heartbeats(t *testing.T, store *checkpoint.Store) []transform.Event {
	t.Helper()
	records, err := store.Read(t.Context(), 0, checkpoint.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	var all []transform.Event
	for _, r := range records {
		if r.Event.Type == "io.ndrbridge.heartbeat" {
			all = append(all, r.Event)
		}
	}
	return all
}

func TestHeartbeat(t *testing.T) {
	t.Run("at the configured interval", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, store := newTestHeartbeat(t, checkpoint.Limits{})
			defer store.Close()
			start := time.Now()
			var ps partSet
			h.start(lifetimes{sources: t.Context(), sinks: t.Context()}, &ps)
			time.Sleep(5*time.Minute + time.Second)
			endAll(t, &ps)
			all := heartbeats(t, store)
			if len(all) != 5 {
				t.Fatalf("%d heartbeats", len(all))
			}
			for i, e := range all {
				if want := start.Add(time.Duration(i+1) * time.Minute); !e.Time.Equal(want) || e.Source != "ndrbridge://bridge/events" {
					t.Errorf("%+v, want one of %s", e.Attributes, want)
				}
			}
		})
	})
	t.Run("again after a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, store := newTestHeartbeat(t, checkpoint.Limits{})
			defer store.Close()
			for range 2 {
				var ps partSet
				h.start(lifetimes{sources: t.Context(), sinks: t.Context()}, &ps)
				time.Sleep(time.Minute + time.Second)
				endAll(t, &ps)
			}
			if n := len(heartbeats(t, store)); n != 2 {
				t.Errorf("%d heartbeats", n)
			}
		})
	})
	t.Run("heartbeats that wait for space do not accumulate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, store := newTestHeartbeat(t, checkpoint.Limits{MaxBytes: 1})
			defer store.Close()
			var ps partSet
			h.start(lifetimes{sources: t.Context(), sinks: t.Context()}, &ps)
			time.Sleep(time.Hour + time.Second)
			if n := len(heartbeats(t, store)); n != 1 { // one commit may pass the bound
				t.Errorf("%d heartbeats in a full journal", n)
			}
			store.SetLimits(checkpoint.Limits{})
			time.Sleep(time.Second)
			all := heartbeats(t, store)
			if len(all) != 2 || time.Since(all[1].Time) > time.Minute {
				t.Errorf("with space there are %d heartbeats, the last of %s", len(all), all[len(all)-1].Time)
			}
			endAll(t, &ps)
		})
	})
	t.Run("it is off by default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, store := newTestHeartbeat(t, checkpoint.Limits{})
			defer store.Close()
			h.every = 0
			var ps partSet
			h.start(lifetimes{sources: t.Context(), sinks: t.Context()}, &ps)
			synctest.Wait()
			if len(ps.of(h.name())) > 0 {
				t.Error("it has not ended by itself")
			}
		})
	})
}
