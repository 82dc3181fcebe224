package checkpoint_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func benchmarkEvents(b *testing.B, n int) []transform.Event {
	events := make([]transform.Event, n)
	for i := range events {
		events[i] = newEvent(b, fmt.Sprint(i), time.Now(), 1800)
	}
	return events
}

func reportEvents(b *testing.B, perOp int) {
	b.ReportMetric(float64(b.N*perOp)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkAppend commits events of 2 KB without a sink, so that trimming them is
// measured too.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100, 500, 1000} {
		b.Run(fmt.Sprintf("%d a commit", n), func(b *testing.B) {
			s := open(b, statePath(b), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 64 << 20, Retain: time.Hour}})
			require.NoError(b, s.Configure(b.Context(), nil))
			c := checkpoint.Commit{Source: source, Position: []byte("p"), Events: benchmarkEvents(b, n)}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, s.Commit(b.Context(), c))
				c.Expect = c.Position
			}
			reportEvents(b, n)
		})
	}
}

// BenchmarkApply applies records of 500 events and as many known entries each, and trims them.
func BenchmarkApply(b *testing.B) {
	const n = 500
	path, log := statePath(b), &recordLog{}
	emptyReplica(b, path)
	s := open(b, path, checkpoint.Options{Log: log, Limits: checkpoint.Limits{MaxBytes: 16 << 20, Retain: time.Hour}})
	require.NoError(b, s.Configure(b.Context(), nil))
	c := checkpoint.Commit{Source: source, Position: []byte("p"), Events: benchmarkEvents(b, n)}
	for i := range 50 {
		c.Remember = nil
		for k := range n {
			c.Remember = append(c.Remember, checkpoint.Entry{Key: fmt.Sprint(i*n + k), Value: make([]byte, 150), At: int64(i)})
		}
		require.NoError(b, s.Commit(b.Context(), c))
		c.Expect = c.Position
	}
	b.ReportAllocs()
	applied := 0
	for b.Loop() {
		r := openReplica(b, statePath(b))
		for at, record := range log.after(0) {
			require.NoError(b, r.Apply([][]byte{record}, checkpoint.Point{Offset: uint64(at + 1)}))
		}
		applied += 50 * n
		r.Close()
	}
	b.ReportMetric(float64(applied)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkDelivery appends, reads and commits 500 events.
func BenchmarkDelivery(b *testing.B) {
	s := open(b, statePath(b), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 64 << 20, Retain: time.Hour}})
	require.NoError(b, s.Configure(b.Context(), map[string]checkpoint.Start{"a": {}}))
	const n = 500
	c := checkpoint.Commit{Source: source, Position: []byte("p"), Events: benchmarkEvents(b, n)}
	cursor := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, s.Commit(b.Context(), c))
		c.Expect = c.Position
		records, err := s.Read(b.Context(), cursor, checkpoint.Batch{MaxEvents: n})
		if err != nil || len(records) != n {
			b.Fatalf("%d events, %v", len(records), err)
		}
		require.NoError(b, s.CommitDelivery(b.Context(), checkpoint.Delivery{Sink: "a", Expect: cursor, Cursor: cursor + n}))
		cursor += n
	}
	reportEvents(b, n)
}

// BenchmarkKnown recalls and remembers a page of 1,000 out of all known entries.
func BenchmarkKnown(b *testing.B) {
	known, page := 1_000_000, 1000
	if testing.Short() {
		known = 50_000
	}
	s := open(b, statePath(b), checkpoint.Options{})
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	value := make([]byte, 150)
	key := func(n int) string { return fmt.Sprint(8_589_934_592 + n) }
	for n := 0; n < known; n += 50_000 {
		c.Remember = nil
		for i := n; i < min(n+50_000, known); i++ {
			c.Remember = append(c.Remember, checkpoint.Entry{Key: key(i), Value: value, At: int64(i)})
		}
		require.NoError(b, s.Commit(b.Context(), c))
		c.Expect = c.Position
	}
	random := rand.New(rand.NewPCG(1, 2))
	keys := make([]string, page)
	pick := func() {
		for i := range keys {
			keys[i] = key(random.IntN(known))
		}
	}
	b.Run("recall", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pick()
			if _, err := s.Recall(b.Context(), source, keys); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("remember", func(b *testing.B) {
		b.ReportAllocs()
		at := int64(known)
		for b.Loop() {
			pick()
			c.Remember = c.Remember[:0]
			for _, key := range keys {
				at++
				c.Remember = append(c.Remember, checkpoint.Entry{Key: key, Value: value, At: at})
			}
			c.ForgetBefore = at - int64(known)
			require.NoError(b, s.Commit(b.Context(), c))
		}
	})
}

// BenchmarkCommands lists the one command of a ticket, or of an appliance, beside
// all others that may wait.
func BenchmarkCommands(b *testing.B) {
	s := open(b, statePath(b), checkpoint.Options{})
	commands := make([]checkpoint.Command, checkpoint.MaxCommands)
	for i := range commands {
		commands[i] = checkpoint.Command{Appliance: "hq", Subject: fmt.Sprint(i), Body: []byte(`{"ticket_id":"SEC-1","status":"closed"}`)}
	}
	commands[len(commands)-1].Appliance = "lab"
	if _, err := s.Accept(b.Context(), commands); err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]checkpoint.CommandFilter{
		"of a ticket":     {Subject: "70000"},
		"of an appliance": {Appliance: "lab", State: checkpoint.CommandPending},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if found, err := s.Commands(b.Context(), f, 0, 100); err != nil || len(found) != 1 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
