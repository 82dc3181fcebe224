package checkpoint_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func (b backend) testDroppingDead(t *testing.T) {
	s, made := b.delivered(t, spacious)
	owner := checkpoint.SinkOwner("a")
	t.Run("a dead letter is found by its key", func(t *testing.T) {
		deadLetter, found, err := s.DeadLetterOf(t.Context(), owner, "y")
		assert.True(t, err == nil && found && deadLetter.Key == "y" && bytes.Equal(deadLetter.Body, made[1].Structured()), deadLetter, found, err)
		for _, o := range []checkpoint.Owner{owner, checkpoint.SinkOwner("none")} {
			_, found, err := s.DeadLetterOf(t.Context(), o, "none")
			assert.True(t, !found && err == nil, "found", found, err, "want nothing")
		}
	})
}

func (b backend) testSinkNames(t *testing.T) {
	// retired returns a state with an unconfigured sink b, with something of every kind.
	retired := func(t *testing.T) *state {
		s, made := b.delivered(t, spacious)
		s.configureSinks("a", "b")
		s.acknowledge("b", 4, deadLetterOf("x", made[0]), deadLetterOf("y", made[1]))
		s.requeue("b", "y")
		s.replay("b", noon.Add(3*time.Second))
		s.must(s.Pause(t.Context(), "b", true))
		s.must(s.Skip(t.Context(), checkpoint.Skip{Sink: "b", Expect: 4, Cursor: 5, Event: made[0]}))
		s.configureSinks("a")
		return s
	}
	t.Run("no two redeliveries have the same number, even if sinks are forgotten or renamed", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		seen := map[uint64]string{}
		queue := func(sink, what string) {
			t.Helper()
			s.configure(map[string]checkpoint.Start{sink: {}})
			if position, err := s.Cursor(t.Context(), sink); err == nil && position == 0 {
				s.acknowledge(sink, 6)
			}
			s.replay(sink, noon)
			next, _ := s.redelivered(sink, checkpoint.Batch{})
			items := map[uint64]bool{}
			for _, r := range next.Records {
				items[r.Offset.Item] = true
			}
			for item := range items {
				equal(t, seen[item], "")
				seen[item] = what
			}
			s.must(s.acknowledgeRedelivery(sink, len(next.Records)))
			s.configure(nil)
		}
		queue("a", "the first replay")
		queue("a", "the second replay")
		queue("b", "a replay to another sink")
		s.must(s.Rename(t.Context(), "a", "c"))
		queue("a", "a replay to a sink with the name of one that was renamed")
		queue("c", "a replay to the sink that was renamed")
		s.must(s.Forget(t.Context(), "a"))
		queue("a", "a replay to a sink with the name of one that was forgotten")
		s.reopen()
		queue("a", "a replay after a restart")
	})
	t.Run("names that are unknown, taken or none are refused", func(t *testing.T) {
		s := retired(t)
		s.configureSinks()
		s.wantRefused(
			s.Forget(t.Context(), "c"), s.Rename(t.Context(), "c", "d"), s.Rename(t.Context(), "b", "a"),
			s.Rename(t.Context(), "b", "b"), s.Rename(t.Context(), "b", ""),
			s.Rename(t.Context(), "b", strings.Repeat("x", longestKey+1)),
			s.Configure(t.Context(), map[string]checkpoint.Start{strings.Repeat("x", longestKey+1): {}}),
		)
		longest := strings.Repeat("x", longestKey)
		s.must(s.Rename(t.Context(), "b", longest))
		s.wantQueue(longest, "y 4")
		s.configureSinks(longest)
	})
}

func (b backend) testBackup(t *testing.T) {
	t.Run("a copy is a consistent state", func(t *testing.T) {
		s, made := b.delivered(t, spacious)
		s.requeue("a", "y")
		var copied bytes.Buffer
		n, err := s.Backup(t.Context(), &copied)
		require.True(t, err == nil && n == int64(copied.Len()) && n != 0, n, "bytes", err, copied.Len())
		s.append(made[0])
		s.must(os.WriteFile(s.path+".copy", copied.Bytes(), 0o600))
		after := s.at(s.path + ".copy")
		after.wantJournal(0, made...)
		after.wantQueue("a", "y")
		equal(t, after.cursor("a"), 6)
		s.must(after.Close())
	})
	t.Run("a slow writer blocks nobody", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		from, to := io.Pipe()
		done := begin(func() error {
			_, err := s.Backup(t.Context(), to)
			to.CloseWithError(err)
			return err
		})
		first := make([]byte, 1)
		require.Value(io.ReadFull(from, first))(t)
		for range 40 {
			s.append(events(100, 2000)...) // beyond the mapped part of the file
		}
		require.Value(io.Copy(io.Discard, from))(t)
		s.must(<-done)
	})
	t.Run("the end of the context ends it", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		_, err := s.Backup(cancelled(t), io.Discard)
		assert.Error(t, err, "no")
	})
}
