package checkpoint_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

var (
	benchEvents = flag.Int("bench.events", 100_000, "events in the state that BenchmarkOpen opens")
	benchSize   = flag.Int("bench.size", 2000, "bytes of each of them")
)

// BenchmarkOpen opens a state with a backlog: one that was closed cleanly, and one that
// was not, which is read through.
func BenchmarkOpen(b *testing.B) {
	path := statePath(b)
	s := open(b, path, checkpoint.Options{})
	require.NoError(b, s.Configure(b.Context(), map[string]checkpoint.Start{"a": {}}))
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	for i := range 1000 {
		c.Events = append(c.Events, newEvent(b, string(rune('a'+i%26)), time.Now(), max(0, *benchSize-270)))
	}
	for range *benchEvents / len(c.Events) {
		require.NoError(b, s.Commit(b.Context(), c))
		c.Expect = c.Position
	}
	require.NoError(b, s.Close())
	info, err := os.Stat(path)
	require.NoError(b, err)
	measure := func(b *testing.B, prepare func()) {
		for b.Loop() {
			b.StopTimer()
			prepare()
			b.StartTimer()
			s, err := checkpoint.Open(path, checkpoint.Options{})
			if err == nil {
				err = s.Close()
			}
			require.NoError(b, err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
	}
	b.Run("closed in order", func(b *testing.B) { measure(b, func() {}) })
	b.Run("read through", func(b *testing.B) {
		measure(b, func() { edit(b, path, "meta", "closed", []byte("another file")) })
	})
}
