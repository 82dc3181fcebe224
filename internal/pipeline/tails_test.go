package pipeline

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// journalOf returns a state whose journal has an event of each size.
func journalOf(t *testing.T, sizes ...int) *checkpoint.Store {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 64 << 20}})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, store.Close())
	})
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	var events []transform.Event
	for _, size := range sizes {
		data := append(append([]byte(`{"detection":{"title":"`), bytes.Repeat([]byte("x"), size)...), `"}}`...)
		e, err := transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "t"}, data)
		require.NoError(t, err)
		events = append(events, e)
	}
	source := checkpoint.Source{Appliance: "hq", Stream: "detections"}
	require.NoError(t, store.Commit(t.Context(), checkpoint.Commit{Source: source, Position: []byte("1"), Events: events}))
	return store
}

func TestOneTailAtATimeHoldsALargeEvent(t *testing.T) {
	store, tails := journalOf(t, 2<<20), newTails()
	var holding, most int
	var mu sync.Mutex
	hold := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		holding += n
		most = max(most, holding)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := tails.read(t.Context(), store, 0, func(transform.Event) error {
				hold(1)
				defer hold(-1)
				return nil
			})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, most, 1, "tails held a large event at once")
}

func TestATailOfSmallEventsDoesNotWaitForAReaderOfALargeOne(t *testing.T) {
	large, small, tails := journalOf(t, 2<<20), journalOf(t, 10, 10), newTails()
	held, release := make(chan struct{}), make(chan struct{})
	var stalled sync.WaitGroup
	stalled.Go(func() {
		_, _ = tails.read(t.Context(), large, 0, func(transform.Event) error {
			close(held)
			<-release
			return nil
		})
	})
	<-held
	read := 0
	_, err := tails.read(t.Context(), small, 0, func(transform.Event) error { read++; return nil })
	assert.True(t, err == nil && read == 2, read, "events", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tails.read(ctx, large, 0, func(transform.Event) error { return nil })
	assert.Error(t, err, "a second large event was read while the first was held")
	close(release)
	stalled.Wait()
}
