package checkpoint_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

func (b backend) testDeadSpace(t *testing.T) {
	made := events(3, 1000)
	size := bytesOf(made[:1])
	s := b.state(t, checkpoint.Limits{MaxBytes: 1 << 30, DeadBytes: 6 * size})
	s.configureSinks("a", "b")
	s.append(made...)
	s.acknowledge("a", 2, deadLetterOf("x", made[0]), deadLetterOf("y", made[1]))

	t.Run("a commit whose dead letters exceed the sink's share is refused as a whole", func(t *testing.T) {
		err := s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: 2, Cursor: 3, Dead: []checkpoint.DeadLetter{deadLetterOf("z", made[2])}})
		if !errors.Is(err, checkpoint.ErrDeadFull) || s.cursor("a") != 2 {
			t.Errorf("error %v, cursor %d, want ErrDeadFull and 2", err, s.cursor("a"))
		}
	})
	t.Run("a commit without dead letters succeeds", func(t *testing.T) { s.acknowledge("a", 3) })
	t.Run("dead letters that replace others take their space", func(t *testing.T) { s.acknowledge("a", 3, deadLetterOf("y", made[2]), deadLetterOf("y", made[1])) })
	t.Run("another sink has space of its own", func(t *testing.T) { s.acknowledge("b", 1, deadLetterOf("x", made[0])) })
	t.Run("a source has no part in the sinks' shares", func(t *testing.T) {
		c := s.next()
		c.Dead = []checkpoint.DeadLetter{{Key: "big", Class: "invalid", Time: noon, Body: make([]byte, 10*size)}}
		s.must(s.Commit(t.Context(), c))
		s.acknowledge("b", 1, deadLetterOf("x", made[1]))
	})
	t.Run("redelivered events make space as they are requeued, and need it when they are refused again", func(t *testing.T) {
		s.requeue("a", "x")
		s.acknowledge("a", 3, deadLetterOf("z", made[2]))
		require.ErrorIs(t, s.acknowledgeRedelivery("a", 1, deadLetterOf("x", made[0])), checkpoint.ErrDeadFull)
		s.wantQueue("a", "x")
		if _, err := s.DropDead(t.Context(), checkpoint.SinkOwner("a"), []string{"y"}); err != nil {
			t.Error(err)
		}
		s.must(s.acknowledgeRedelivery("a", 1, deadLetterOf("x", made[0])))
		s.wantQueue("a", "")
	})
	t.Run("fewer sinks have larger shares", func(t *testing.T) {
		s.configureSinks("a")
		s.acknowledge("a", 3, deadLetterOf("y", made[1]))
	})
	t.Run("beyond a share that became smaller, a dead letter can replace one of its size", func(t *testing.T) {
		s.configureSinks("a", "b", "c", "d")
		s.acknowledge("a", 3, deadLetterOf("y", made[0]))
	})
}

func (b backend) testDroppingDead(t *testing.T) {
	s, made := b.delivered(t, spacious)
	owner := checkpoint.SinkOwner("a")
	t.Run("a dead letter is found by its key", func(t *testing.T) {
		deadLetter, found, err := s.DeadLetterOf(t.Context(), owner, "y")
		if err != nil || !found || deadLetter.Key != "y" || !bytes.Equal(deadLetter.Body, made[1].Structured()) {
			t.Errorf("%+v, %v, %v", deadLetter, found, err)
		}
		for _, o := range []checkpoint.Owner{owner, checkpoint.SinkOwner("none")} {
			if _, found, err := s.DeadLetterOf(t.Context(), o, "none"); found || err != nil {
				t.Errorf("found: %v, %v, want nothing", found, err)
			}
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
		if err != nil || n != int64(copied.Len()) || n == 0 {
			t.Fatalf("%d bytes, %v, want %d", n, err, copied.Len())
		}
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
		if _, err := io.ReadFull(from, first); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			s.append(events(100, 2000)...) // beyond the mapped part of the file
		}
		if _, err := io.Copy(io.Discard, from); err != nil {
			t.Fatal(err)
		}
		s.must(<-done)
	})
	t.Run("the end of the context ends it", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		if _, err := s.Backup(cancelled(t), io.Discard); err == nil {
			t.Error("no error")
		}
	})
}
