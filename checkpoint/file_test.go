package checkpoint_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestOldEventsAreTrimmedWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1 << 20, Retain: time.Hour}})
		ctx := t.Context()
		require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
		held := func() uint64 {
			stats := require.Value(s.Stats(ctx))(t)
			return stats.Events
		}
		events := []transform.Event{
			newEvent(t, "1", time.Now(), 100), newEvent(t, "2", time.Now().Add(10*time.Minute), 100), newEvent(t, "3", time.Now().Add(20*time.Minute), 100),
		}
		require.NoError(t, s.Commit(ctx, checkpoint.Commit{Source: source, Position: []byte("p"), Events: events}))
		time.Sleep(70 * time.Minute)
		require.Equal(t, held(), 3, "uncommitted events")
		require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Cursor: 3}))
		time.Sleep(time.Second)
		require.Equal(t, held(), 1, "events after 70 minutes")
		time.Sleep(8 * time.Minute)
		require.Equal(t, held(), 1, "events after 78 minutes")
		time.Sleep(3 * time.Minute)
		require.Equal(t, held(), 0, "events after 81 minutes")
	})
}

func TestClockThatIsSetIsNoticedWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var set atomic.Int64
		o := checkpoint.Options{
			Now:     func() time.Time { return time.Now().Add(time.Duration(set.Load())) },
			Elapsed: func() time.Duration { return time.Since(begun) },
		}
		path := statePath(t)
		s := open(t, path, o)
		c := checkpoint.Commit{Source: source, Position: []byte("p"), Events: []transform.Event{newEvent(t, "1", begun, 100)}}
		require.NoError(t, errors.Join(s.Configure(t.Context(), map[string]checkpoint.Start{"a": {}}), s.Commit(t.Context(), c)))
		time.Sleep(10 * time.Second) // until the store is idle
		synctest.Wait()
		set.Store(int64(1000 * time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		crashed, err := copyOpenFile(path)
		require.NoError(t, err)
		stats, err := open(t, crashed, o).Stats(t.Context())
		want := begun.Add(1000 * time.Hour)
		assert.True(t, err == nil && stats.Sinks["a"].Oldest.Equal(want), "after a crash", stats.Sinks, err, "want an event of", want)
	})
}
