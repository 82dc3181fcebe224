package pipeline

import (
	"maps"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestDeadLetterMetrics(t *testing.T) {
	store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
	defer func() {
		assert.NoError(t, store.Close())
	}()
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"soc": {Now: true}}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{store, new(atomic.Pointer[runtime])})
	expectDeadLetters := func(t *testing.T, want map[string]float64) {
		t.Helper()
		families := require.Value(registry.Gather())(t)
		got := make(map[string]float64)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "ndrbridge_dead_letters" {
					got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		assert.True(t, maps.Equal(got, want), "metrics", got, "want", want)
	}
	t.Run("of a sink and of sources that have none, too", func(t *testing.T) {
		expectDeadLetters(t, map[string]float64{"": 0, "soc": 0})
	})
	for _, stream := range []string{"detections", "audit"} {
		deadLetter := checkpoint.DeadLetter{Key: "7", Class: "invalid", Reason: "no id", Time: time.Now()}
		err := store.Commit(t.Context(), checkpoint.Commit{
			Source: checkpoint.Source{Appliance: "hq", Stream: stream}, Position: []byte("1"), Dead: []checkpoint.DeadLetter{deadLetter},
		})
		require.NoError(t, err)
	}
	t.Run("of all sources in one", func(t *testing.T) {
		expectDeadLetters(t, map[string]float64{"": 2, "soc": 0})
	})
}
