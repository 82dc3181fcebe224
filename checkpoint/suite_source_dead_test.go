package checkpoint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func (b backend) testSourceDeadSpace(t *testing.T) {
	const size = 1000 - checkpoint.DeadOverhead // of a body, so that a dead letter takes 1000
	write := func(s *state, source checkpoint.Source, deadLetters ...checkpoint.DeadLetter) {
		s.t.Helper()
		position := s.position(source)
		s.must(s.Commit(s.t.Context(), checkpoint.Commit{
			Source: source, Expect: position, Position: append(slices.Clone(position), '.'), Dead: deadLetters,
		}))
	}
	deadLetter := func(key string, second int, size int) checkpoint.DeadLetter {
		return checkpoint.DeadLetter{Key: key, Class: "invalid", Time: noon.Add(time.Duration(second) * time.Second), Body: make([]byte, size)}
	}
	keys := func(s *state, source checkpoint.Source) (keys []string) {
		for _, d := range s.dead(checkpoint.SourceOwner(source)) {
			keys = append(keys, d.Key)
		}
		return keys
	}
	of := func(s *state, source checkpoint.Source) checkpoint.DeadStats {
		return s.stats().DeadLetters[checkpoint.SourceOwner(source)]
	}
	// The sources have 16,000 of 32,000 bytes: the oldest go until 15,000 are left.
	open := func(t *testing.T) *state {
		s := b.state(t, checkpoint.Limits{MaxBytes: 1 << 30, DeadBytes: 32_000})
		s.configureSinks("a")
		return s
	}

	t.Run("the oldest give way to newer ones, and are counted", func(t *testing.T) {
		s := open(t)
		for i := range 16 {
			write(s, detections, deadLetter(fmt.Sprintf("k%02d", 99-i), i, size))
		}
		got := of(s, detections)
		require.True(t, got.Count == 16 && got.Dropped == 0, got, "within the share")
		write(s, detections, deadLetter("k50", 16, size))
		want := checkpoint.DeadStats{Count: 15, Bytes: 15 * size, Dropped: 2}
		check := func() {
			t.Helper()
			equal(t, of(s, detections), want)
			got := keys(s, detections)
			assert.True(t, len(got) == 15 && !slices.Contains(got, "k99") && !slices.Contains(got, "k98") && slices.Contains(got, "k50"), got)
		}
		check()
		s.reopen()
		check()
	})
	t.Run("the source with the most loses them", func(t *testing.T) {
		s := open(t)
		write(s, audit, deadLetter("old", 0, size), deadLetter("older", -1, size))
		for i := range 100 {
			write(s, detections, deadLetter(fmt.Sprint(i), 1+i, size))
		}
		got := of(s, audit)
		assert.True(t, got.Count == 2 && got.Dropped == 0, "the other source", got)
		got = of(s, detections)
		assert.True(t, got.Count >= 13 && got.Count <= 14 && got.Count+got.Dropped == 100, got)
	})
	t.Run("a commit of more than the share keeps the newest, and is not refused", func(t *testing.T) {
		s := open(t)
		var deadLetters []checkpoint.DeadLetter
		for i := range 40 {
			deadLetters = append(deadLetters, deadLetter(fmt.Sprintf("k%02d", i), i, size))
		}
		write(s, detections, deadLetters...)
		got := keys(s, detections)
		assert.True(t, len(got) == 15 && got[0] == "k25", "kept", got)
		write(s, detections, deadLetter("large", 50, 20_000))
		if got := of(s, detections); got.Count != 0 || got.Dropped != 41 {
			t.Errorf("%+v after one that is larger than the share", got)
		}
	})
}
