package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// redelivered returns what a sink is to get next, as a text of keys: the sequence number
// if there is one.
func (s *state) redelivered(sink string, max checkpoint.Batch) (checkpoint.Redelivery, string) {
	s.t.Helper()
	next, err := s.Redeliver(s.t.Context(), sink, checkpoint.RedeliveryOffset{}, max)
	s.must(err)
	var keys []string
	for _, r := range next.Records {
		if r.Seq != 0 {
			r.Key = fmt.Sprint(r.Seq)
		}
		keys = append(keys, r.Key)
	}
	return next, strings.Join(keys, " ")
}

func (s *state) wantQueue(sink, want string) {
	s.t.Helper()
	_, got := s.redelivered(sink, checkpoint.Batch{})
	require.Equal(s.t, got, want, "queued for", sink)
}

// acknowledgeRedelivery commits the first n events of the queue.
func (s *state) acknowledgeRedelivery(sink string, n int, dead ...checkpoint.DeadLetter) error {
	s.t.Helper()
	next, _ := s.redelivered(sink, checkpoint.Batch{})
	return s.CommitRedelivery(s.t.Context(), checkpoint.RedeliveryCommit{
		Sink: sink, Expect: next.Offset, Last: next.Records[n-1].Offset, Events: n, Dead: dead,
	})
}

func (s *state) requeue(sink string, keys ...string) int {
	s.t.Helper()
	n, err := s.Requeue(s.t.Context(), sink, keys)
	s.must(err)
	return n
}

func (s *state) replay(sink string, since time.Time) checkpoint.Range {
	s.t.Helper()
	queued, err := s.Replay(s.t.Context(), sink, checkpoint.Period{Since: since})
	s.must(err)
	return queued
}

func deadLetterOf(key string, e transform.Event) checkpoint.DeadLetter {
	return checkpoint.DeadLetter{Key: key, Class: "rejected", Reason: "400", Time: noon, Body: e.Structured()}
}

// delivered returns a state of six events, all of which sink a has committed: x, y and z
// are dead letters of the first three.
func (b backend) delivered(t *testing.T, limits checkpoint.Limits) (*state, []transform.Event) {
	s, made := b.state(t, limits), events(6, 1000)
	s.configureSinks("a")
	s.append(made...)
	s.acknowledge("a", 6, deadLetterOf("x", made[0]), deadLetterOf("y", made[1]), deadLetterOf("z", made[2]))
	return s, made
}

func (b backend) testRedelivery(t *testing.T) {
	t.Run("events that the queue does not hold cannot be committed", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		s.requeue("a", "x")
		s.replay("a", time.Time{})
		next, _ := s.redelivered("a", checkpoint.Batch{})
		last := next.Records[6].Offset
		for name, acknowledged := range map[string]checkpoint.RedeliveryCommit{
			"more events than there are":      {Last: last, Events: 8},
			"a dead letter that was left out": {Last: last, Events: 0},
			"an offset after the range":       {Last: checkpoint.RedeliveryOffset{Item: last.Item, Seq: 7}, Events: 7},
			"an offset in no item":            {Last: checkpoint.RedeliveryOffset{Item: last.Item + 1}, Events: 7},
		} {
			acknowledged.Sink, acknowledged.Expect = "a", next.Offset
			err := s.CommitRedelivery(t.Context(), acknowledged)
			assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrFenced), name, err, "want a refusal")
		}
		s.wantQueue("a", "x 1 2 3 4 5 6")
	})
	t.Run("many dead letters are moved, all of them", func(t *testing.T) {
		s := b.state(t, spacious)
		s.configureSinks("a")
		var dead []checkpoint.DeadLetter
		for i := range 2500 {
			dead = append(dead, deadLetterOf(checkpoint.DeadKey(uint64(i)), event(fmt.Sprint(i), noon, 300)))
		}
		s.acknowledge("a", 0, dead...)
		equal(t, s.requeue("a"), len(dead))
		next, _ := s.redelivered("a", checkpoint.Batch{})
		assert.Equal(t, len(next.Records), len(dead), "queued")
	})
	t.Run("a sink that was never configured has no cursor and no queue", func(t *testing.T) {
		s := b.state(t, spacious)
		s.wantRefused(
			errOf(s.Requeue(t.Context(), "a", nil)), errOf(s.Replay(t.Context(), "a", checkpoint.Period{})),
			errOf(s.Redeliver(t.Context(), "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{})), s.WaitRedelivery(t.Context(), "a"),
			s.CommitRedelivery(t.Context(), checkpoint.RedeliveryCommit{Sink: "a"}),
			errOf(s.Cursor(t.Context(), "a")), s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a"}),
		)
	})
}

func (b backend) testQueuedTrimming(t *testing.T) {
	t.Run("queued events outlive their retention until they are redelivered", func(t *testing.T) {
		s, made := b.delivered(t, checkpoint.Limits{MaxBytes: 1 << 30, Retain: time.Hour})
		s.replay("a", noon.Add(2*time.Second))
		s.clock.advance(1000 * time.Hour)
		s.configureSinks("a")
		s.until("an event that is not queued is trimmed", func() bool { return s.stats().First == 3 })
		s.must(s.acknowledgeRedelivery("a", 2))
		s.until("what was delivered again is trimmed", func() bool { return s.stats().First == 5 })
		s.wantJournal(4, made[4:]...)
		s.configure(nil)
		s.until("a sink that is not configured holds nothing", func() bool { return s.stats().Events == 0 })
	})
	t.Run("a full journal trims queued events, which are skipped and counted", func(t *testing.T) {
		made := events(9, 1000)
		s := b.state(t, checkpoint.Limits{MaxBytes: bytesOf(made[:5]), Retain: time.Hour})
		s.configureSinks("a")
		s.append(made[:4]...)
		s.acknowledge("a", 4)
		s.replay("a", time.Time{})
		before, _ := s.redelivered("a", checkpoint.Batch{})
		s.append(made[4:7]...)
		s.acknowledge("a", 7)
		s.until("the journal is within its bound", func() bool { return s.stats().First == 3 })
		s.wantQueue("a", "3 4")
		got := s.stats().Sinks["a"]
		assert.True(t, got.Queued == 2 && got.Skipped == 2, got, "want 2 queued and 2 skipped")
		// Event 1 was in flight when it was trimmed.
		s.must(s.CommitRedelivery(t.Context(), checkpoint.RedeliveryCommit{
			Sink: "a", Expect: before.Offset, Last: before.Records[0].Offset, Events: 1,
		}))
		got = s.stats().Sinks["a"]
		assert.Equal(t, got.Skipped, 1, got)
		s.must(s.acknowledgeRedelivery("a", 1))
		s.append(made[7], made[8])
		s.acknowledge("a", 9)
		s.until("all that was queued is trimmed", func() bool { return s.stats().First == 5 })
		s.wantQueue("a", "")
		got = s.stats().Sinks["a"]
		assert.True(t, got.Queued == 0 && got.Skipped == 2, got, "want none queued, and events 2 and 4 skipped")
		s.replay("a", noon.Add(8*time.Second))
		s.wantQueue("a", "9")
		s.must(s.acknowledgeRedelivery("a", 1))
		got = s.stats().Sinks["a"]
		assert.Equal(t, got.Skipped, 2, got)
	})
}

func (b backend) testRedeliveryWaiting(t *testing.T) {
	t.Run("it returns at once if something is queued", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		s.replay("a", time.Time{})
		s.must(s.WaitRedelivery(t.Context(), "a"))
	})
	t.Run("it ends when something is queued", func(t *testing.T) {
		s, made := b.delivered(t, spacious)
		done := begin(func() error { return s.WaitRedelivery(t.Context(), "a") })
		s.append(made[0]) // delivered by the cursor, so not a redelivery
		select {
		case err := <-done:
			t.Fatalf("ended with %v, although nothing is queued", err)
		default:
		}
		s.requeue("a", "x")
		s.must(<-done)
	})
	open := func(t *testing.T) *state {
		s, _ := b.delivered(t, spacious)
		return s
	}
	testWaitEnds(t, open, func(ctx context.Context, s *state) error { return s.WaitRedelivery(ctx, "a") })
}

func (b backend) testSkipping(t *testing.T) {
	skipped := event("skipped", noon, 300)
	t.Run("it needs no space, and frees some", func(t *testing.T) {
		made := events(3, 1000)
		s := b.state(t, checkpoint.Limits{MaxBytes: bytesOf(made[:2])})
		s.configureSinks("a")
		s.append(made[:2]...)
		done := s.commitIntoFull(t.Context(), s.next(made[2]))
		s.must(s.Skip(t.Context(), checkpoint.Skip{Sink: "a", Cursor: 2, Event: skipped}))
		s.must(<-done)
		s.wantJournal(2, skipped, made[2])
	})
	t.Run("an invalid skip is refused and writes nothing", func(t *testing.T) {
		s, _ := b.delivered(t, spacious)
		s.configureSinks("a", "b")
		s.acknowledge("b", 2)
		for name, test := range map[string]struct {
			skip   checkpoint.Skip
			fenced bool
		}{
			"another cursor":     {checkpoint.Skip{Sink: "b", Expect: 1, Cursor: 4, Event: skipped}, true},
			"back":               {checkpoint.Skip{Sink: "b", Expect: 2, Cursor: 1, Event: skipped}, false},
			"nothing":            {checkpoint.Skip{Sink: "b", Expect: 2, Cursor: 2, Event: skipped}, false},
			"beyond the journal": {checkpoint.Skip{Sink: "b", Expect: 2, Cursor: 7, Event: skipped}, false},
			"an unknown sink":    {checkpoint.Skip{Sink: "c", Cursor: 1, Event: skipped}, false},
			"no event":           {checkpoint.Skip{Sink: "b", Expect: 2, Cursor: 4}, false},
		} {
			err := s.Skip(t.Context(), test.skip)
			assert.True(t, err != nil && errors.Is(err, checkpoint.ErrFenced) == test.fenced, name, err, "fenced", test.fenced)
		}
		got := s.stats()
		assert.True(t, got.Last == 6 && got.Sinks["b"].Cursor == 2 && got.Sinks["b"].Skipped == 0, got, "want nothing written")
	})
}
