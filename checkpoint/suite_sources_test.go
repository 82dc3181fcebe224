package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// longestKey is how many bytes a key, or the name of a sink, may have.
const longestKey = 32_760

func (b backend) testSources(t *testing.T) {
	t.Run("what a caller does to a result does not change the state", func(t *testing.T) {
		s := b.state(t, spacious)
		remember := []checkpoint.Entry{{Key: "a", Value: []byte("one"), At: 1}, {Key: "b", Value: []byte("two"), At: 1}}
		s.must(s.Commit(t.Context(), checkpoint.Commit{Source: detections, Position: []byte("pos"), Remember: remember}))
		clear(s.position(detections))
		values, err := s.Recall(t.Context(), detections, []string{"a", "b"})
		s.must(err)
		_ = append(values[0], "more"...)
		assert.Equal(t, string(values[1]), "two", "growing one value made another one")
		clear(values[1])
		s.wantRecall(detections, map[string]string{"a": "one", "b": "two"})
		position := s.position(detections)
		assert.Equal(t, string(position), "pos", "position")
	})
	t.Run("what is remembered is listed in the order of keys, in parts", func(t *testing.T) {
		s := b.state(t, spacious)
		of := checkpoint.Source{Appliance: "hq", Stream: "rules"}
		entry := func(key string, at int64) checkpoint.Entry {
			return checkpoint.Entry{Key: key, Value: []byte("of " + key), At: at}
		}
		s.must(s.Commit(t.Context(), checkpoint.Commit{Source: of, Position: []byte("p"), Remember: []checkpoint.Entry{
			entry("10", 1), entry("9", 3), entry("25769804127", 2), entry("2", 1),
		}}))
		s.must(s.Commit(t.Context(), checkpoint.Commit{Source: detections, Position: []byte("p"), Remember: []checkpoint.Entry{entry("3", 1)}}))
		list := func(after string, limit int) string {
			entries, err := s.Remembered(t.Context(), of, after, limit)
			s.must(err)
			var all []string
			for _, e := range entries {
				all = append(all, fmt.Sprintf("%s %s at %d", e.Key, e.Value, e.At))
				clear(e.Value) // it is the caller's
			}
			return strings.Join(all, ", ")
		}
		const first, second, third, last = "10 of 10 at 1", "2 of 2 at 1", "25769804127 of 25769804127 at 2", "9 of 9 at 3"
		assert.Equal(t, list("", 10), strings.Join([]string{first, second, third, last}, ", "), "all")
		assert.Equal(t, list("", 2), first+", "+second, "the first two")
		assert.Equal(t, list("2", 2), third+", "+last, "the next two")
		assert.Equal(t, list("1", 1), first, "after a key that is not there")
		assert.Equal(t, list("9", 2), "", "after the last")
		s.must(s.Commit(t.Context(), checkpoint.Commit{Source: of, Expect: []byte("p"), Position: []byte("q"), Remember: []checkpoint.Entry{entry("10", 0)}, ForgetBefore: 1}))
		assert.Equal(t, list("", 10), strings.Join([]string{second, third, last}, ", "), "without one that is forgotten as it is written")
		entries, err := s.Remembered(t.Context(), checkpoint.Source{Appliance: "hq", Stream: "audit"}, "", 10)
		assert.True(t, err == nil && len(entries) == 0, entries, err, "of a source that remembers nothing")
		_, err = s.Remembered(cancelled(t), of, "", 10)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("an invalid commit is refused and writes nothing", func(t *testing.T) {
		for name, c := range map[string]checkpoint.Commit{
			"no position":               {Source: detections, Events: events(1, 300)},
			"no source":                 {Position: []byte("p")},
			"an entry without key":      {Source: detections, Position: []byte("p"), Remember: []checkpoint.Entry{{Value: []byte("v")}}},
			"an entry without value":    {Source: detections, Position: []byte("p"), Remember: []checkpoint.Entry{{Key: "k"}}},
			"an entry before 0":         {Source: detections, Position: []byte("p"), Remember: []checkpoint.Entry{{Key: "k", Value: []byte("v"), At: -1}}},
			"a dead letter without key": {Source: detections, Position: []byte("p"), Dead: []checkpoint.DeadLetter{{}}},
			"an entry with a key too long": {
				Source: detections, Position: []byte("p"), Remember: []checkpoint.Entry{{Key: strings.Repeat("x", longestKey+1), Value: []byte("v")}},
			},
			"a dead letter with a key too long": {
				Source: detections, Position: []byte("p"), Dead: []checkpoint.DeadLetter{{Key: strings.Repeat("x", longestKey+1)}},
			},
			"an event of no bytes": {Source: detections, Position: []byte("p"), Events: make([]transform.Event, 1)},
		} {
			t.Run(name, func(t *testing.T) {
				s := b.state(t, spacious)
				err := s.Commit(t.Context(), c)
				assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrFenced), err, "want a refusal")
				stats := s.stats()
				assert.True(t, stats.Last == 0 && s.position(detections) == nil, "something was written", stats)
			})
		}
	})
	t.Run("the longest keys are kept", func(t *testing.T) {
		s, key := b.state(t, spacious), strings.Repeat("x", longestKey)
		s.must(s.Commit(t.Context(), checkpoint.Commit{
			Source: detections, Position: []byte("p"),
			Remember: []checkpoint.Entry{{Key: key, Value: []byte("v")}}, Dead: []checkpoint.DeadLetter{{Key: key, Time: noon}},
		}))
		s.wantRecall(detections, map[string]string{key: "v"})
		dead := s.dead(checkpoint.SourceOwner(detections))
		assert.True(t, len(dead) == 1 && dead[0].Key == key, len(dead), "dead letters, want the one")
	})
	t.Run("a call whose context has ended writes nothing", func(t *testing.T) {
		s := b.state(t, spacious)
		err := s.Commit(cancelled(t), checkpoint.Commit{Source: detections, Position: []byte("p"), Events: events(1, 300)})
		if err == nil {
			// It may have been written before ctx was checked; then all of it is there.
			s.wantJournal(0, events(1, 300)...)
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		s.wantJournal(0)
	})
}

// wantRecall checks the remembered entries; "" stands for none.
func (s *state) wantRecall(source checkpoint.Source, want map[string]string) {
	s.t.Helper()
	var keys []string
	for key := range want {
		keys = append(keys, key)
	}
	values, err := s.Recall(s.t.Context(), source, keys)
	s.must(err)
	require.Equal(s.t, len(values), len(keys), "values for", "keys")
	for i, key := range keys {
		assert.True(s.t, bytes.Equal(values[i], []byte(want[key])) && (values[i] == nil) == (want[key] == ""), key, "recalled", string(values[i]), want[key])
	}
}

func (b backend) testSpace(t *testing.T) {
	made := events(4, 1000)
	limits := checkpoint.Limits{MaxBytes: bytesOf(made[:2])}

	full := func(t *testing.T) *state {
		s := b.state(t, limits)
		s.configureSinks("a", "b")
		s.append(made[0], made[1])
		return s
	}
	commit := func(s *state, ctx context.Context) <-chan error { return s.commitIntoFull(ctx, s.next(made[2])) }

	t.Run("a commit waits until the slowest sink has committed, and then succeeds", func(t *testing.T) {
		s := full(t)
		done := commit(s, t.Context())
		s.acknowledge("a", 2)
		s.wantJournal(1, made[1]) // b still holds the space, although a does not
		s.acknowledge("b", 1)
		require.NoError(t, <-done)
		s.wantJournal(1, made[1], made[2])
		assert.False(t, s.stats().SourcesWait, "still said to wait for space")
	})
	for name, made := range map[string][]transform.Event{"of 64 KiB": made[:2], "of a sixteenth of a large bound": events(2, 1<<20)} {
		t.Run("commits may use half of the reserve "+name+", and events of finished commands all of it", func(t *testing.T) {
			limits := checkpoint.Limits{MaxBytes: bytesOf(made)}
			reserve := max(64<<10, limits.MaxBytes/16)
			size := reserve / 16 // of an event
			s := b.state(t, limits)
			s.configureSinks("a", "b")
			s.append(made...)
			for i := 0; ; i++ {
				if space, err := s.HasSpace(t.Context()); err != nil || !space {
					t.Fatalf("space in the reserve: %t, %v; %d bytes of it are used", space, err, s.stats().Bytes-limits.MaxBytes)
				}
				c := s.next(event(fmt.Sprint("own-", i), noon, int(size)))
				c.NoWait = true
				err := s.Commit(t.Context(), c)
				used := s.stats().Bytes - limits.MaxBytes
				require.True(t, (err != nil || used <= reserve/2+2*size) && (err == nil || used >= reserve/2 && errors.Is(err, checkpoint.ErrFull)), err, used)
				if err != nil {
					break
				}
			}
			empty := s.next() // no events: it needs no space
			empty.NoWait = true
			s.must(s.Commit(t.Context(), empty))
			for i := 0; ; i++ {
				space, err := s.HasSpace(t.Context())
				s.must(err)
				used := s.stats().Bytes - limits.MaxBytes
				require.True(t, space == (used < reserve) && used <= reserve+2*size, "space in the reserve", space, used, "bytes of it are used")
				if !space {
					break
				}
				accepted, err := s.Accept(t.Context(), []checkpoint.Command{{Appliance: "hq", Subject: "SEC-1", Body: []byte("{}"), Accepted: noon}})
				s.must(err)
				s.must(s.Finish(t.Context(), checkpoint.Outcome{
					ID: accepted[0].ID, State: checkpoint.CommandApplied, Done: noon, Events: []transform.Event{event(fmt.Sprint("answer-", i), noon, int(size))},
				}))
			}
			s.acknowledge("a", s.stats().Last)
			s.acknowledge("b", s.stats().Last)
			s.append(event("after", noon, 300))
		})
	}
	t.Run("a commit that waits is fenced when its position is moved", func(t *testing.T) {
		s := full(t)
		done := commit(s, t.Context())
		c := s.next() // no events: it needs no space
		c.Position = []byte("moved")
		s.must(s.Commit(t.Context(), c))
		require.ErrorIs(t, <-done, checkpoint.ErrFenced)
	})
}
