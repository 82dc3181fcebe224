package sinks

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// parkedHeads is a journal with so many parked events.
type parkedHeads struct {
	Journal
	n int
}

func (j parkedHeads) ParkedHeads(context.Context, string, uint64) ([]checkpoint.ParkedHead, error) {
	heads := make([]checkpoint.ParkedHead, j.n)
	for i := range heads {
		heads[i] = checkpoint.ParkedHead{Number: uint64(i + 1), First: time.Now()}
	}
	return heads, nil
}

// There may be hundreds of thousands of parked events.
func TestParkedEventsTakeLittleMemory(t *testing.T) {
	const events, most = 100_000, 150 // bytes of one
	p := newParkedIndex(parkedHeads{n: events}, &Options{}, newParts(0, 0))
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	require.NoError(t, p.load(t.Context(), true))
	each := (live() - before) / events
	assert.True(t, each <= most, each, "bytes for a parked event, want at most", most)
	numbers, _, _, _ := p.due(time.Now(), 10)
	assert.Equal(t, fmt.Sprint(numbers), "[1 2 3 4 5 6 7 8 9 10]", "due are", numbers)
}

// The workers of a runner begin at the same time, so that one may park an event before another begins.
func TestAnEventJustParkedIsNotDueOnceAQueueBegins(t *testing.T) {
	journal := new(parkedHeads)
	p := newParkedIndex(journal, &Options{RetryInitial: time.Hour}, newParts(0, 0))
	require.NoError(t, p.load(t.Context(), true))
	for _, again := range []bool{false, true} { // by the worker that parked it, and by one that begins
		journal.n++
		require.NoError(t, p.load(t.Context(), again))
		require.NoError(t, p.load(t.Context(), true))
	}
	numbers, _, wait, _ := p.due(time.Now(), 10)
	assert.True(t, len(p.events) == 2 && len(numbers) == 0 && wait > 0, len(p.events), "events", numbers, "are due, others in", wait)
}
