package pipeline

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// withState returns a pipeline that has a state and no parts.
func withState(t *testing.T, limits checkpoint.Limits) (*Pipeline, *checkpoint.Store) {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: limits})
	require.NoError(t, err)
	return &Pipeline{options: Options{Version: "test", Started: time.Now(), Log: slog.New(slog.DiscardHandler)}, store: store}, store
}

// heartbeats returns the heartbeats in the journal.
func heartbeats(t *testing.T, store *checkpoint.Store) []transform.Event {
	t.Helper()
	records := require.Value(store.Read(t.Context(), 0, checkpoint.Batch{}))(t)
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
			p, store := withState(t, checkpoint.Limits{})
			defer store.Close()
			start := time.Now()
			p.parts.start(t.Context(), p.newHeartbeat(time.Minute))
			time.Sleep(5*time.Minute + time.Second)
			endAll(t, &p.parts)
			all := heartbeats(t, store)
			require.Equal(t, len(all), 5, "heartbeats")
			for i, e := range all {
				want := start.Add(time.Duration(i+1) * time.Minute)
				assert.True(t, e.Time.Equal(want) && e.Source == "ndrbridge://bridge/events", e.Attributes, "want one of", want)
			}
		})
	})
	t.Run("again after a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, store := withState(t, checkpoint.Limits{})
			defer store.Close()
			for range 2 {
				p.parts.start(t.Context(), p.newHeartbeat(time.Minute))
				time.Sleep(time.Minute + time.Second)
				endAll(t, &p.parts)
				p.parts = partSet{} // the next start's
			}
			assert.Equal(t, len(heartbeats(t, store)), 2, "heartbeats")
		})
	})
	t.Run("heartbeats that wait for space do not accumulate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, store := withState(t, checkpoint.Limits{MaxBytes: 1})
			defer store.Close()
			p.parts.start(t.Context(), p.newHeartbeat(time.Minute))
			time.Sleep(time.Hour + time.Second)
			if n := len(heartbeats(t, store)); n != 1 { // one commit may pass the bound
				t.Errorf("%d heartbeats in a full journal", n)
			}
			store.SetLimits(checkpoint.Limits{})
			time.Sleep(time.Second)
			all := heartbeats(t, store)
			assert.True(t, len(all) == 2 && time.Since(all[1].Time) <= time.Minute, "with space there are", len(all), "heartbeats, the last of", all)
			endAll(t, &p.parts)
		})
	})
	t.Run("it is off by default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, store := withState(t, checkpoint.Limits{})
			defer store.Close()
			p.parts.start(t.Context(), p.newHeartbeat(0))
			synctest.Wait()
			assert.Empty(t, p.parts.of("events.heartbeat"), "it has not ended by itself")
		})
	})
}
