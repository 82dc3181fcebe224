package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func (b backend) testCursors(t *testing.T) {
	made := events(5, 300) // a second apart, from noon on
	for name, test := range map[string]struct {
		start checkpoint.Start
		want  uint64
	}{
		"a new sink begins now":                         {checkpoint.Start{Now: true}, 5},
		"a new sink begins with all that is there":      {checkpoint.Start{}, 0},
		"a new sink begins at the time of an event":     {checkpoint.Start{Since: noon.Add(2 * time.Second)}, 2},
		"a new sink begins between two events":          {checkpoint.Start{Since: noon.Add(1500 * time.Millisecond)}, 2},
		"a new sink begins a moment after an event":     {checkpoint.Start{Since: noon.Add(2*time.Second + 1)}, 3},
		"a new sink begins before the first event":      {checkpoint.Start{Since: noon.Add(-time.Hour)}, 0},
		"a new sink begins after the last event":        {checkpoint.Start{Since: noon.Add(time.Hour)}, 5},
		"now counts where a time is given beside it":    {checkpoint.Start{Now: true, Since: noon}, 5},
		"a new sink begins exactly with the last event": {checkpoint.Start{Since: noon.Add(4 * time.Second)}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.state(t, spacious)
			s.append(made...)
			s.configure(map[string]checkpoint.Start{"a": test.start})
			equal(t, s.cursor("a"), test.want)
		})
	}

	t.Run("a time begins with the first event at or after it, even if the clock stepped back after that", func(t *testing.T) {
		s := b.state(t, spacious)
		for i, second := range []int{0, 9, 1, 2, 3, 10} {
			s.append(event(fmt.Sprint(i), noon.Add(time.Duration(second)*time.Second), 300))
		}
		for second, want := range []uint64{1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 6, 7} {
			first, err := s.Since(t.Context(), noon.Add(time.Duration(second)*time.Second))
			assert.True(t, err == nil && first == want, "second", second, "begins with event", first, err, want)
		}
		s.configure(map[string]checkpoint.Start{"a": {Since: noon.Add(3 * time.Second)}})
		equal(t, s.cursor("a"), 1)
	})
	t.Run("a cursor goes neither back nor beyond the journal", func(t *testing.T) {
		s := b.state(t, spacious)
		s.append(made...)
		s.configureSinks("a")
		s.acknowledge("a", 2)
		for _, to := range []uint64{1, 6} {
			err := s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: 2, Cursor: to})
			assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrFenced), "to", to, err, "want a refusal")
		}
		equal(t, s.cursor("a"), 2)
	})
}

func (b backend) testReading(t *testing.T) {
	made := events(6, 1000)
	s := b.state(t, spacious)
	s.append(made...)
	t.Run("what a caller does to a record does not change the journal", func(t *testing.T) {
		clear(s.read(0)[2].Event.Structured())
		s.wantJournal(0, made...)
	})
	t.Run("the end of the context ends it", func(t *testing.T) {
		_, err := s.Read(cancelled(t), 0, checkpoint.Batch{})
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// testWaitEnds checks what ends a wait although nothing happens.
func testWaitEnds(t *testing.T, open func(t *testing.T) *state, wait func(context.Context, *state) error) {
	t.Run("it ends with its context", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := begin(func() error { return wait(ctx, s) })
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	t.Run("it ends when the store is closed", func(t *testing.T) {
		s := open(t)
		done := begin(func() error { return wait(t.Context(), s) })
		s.must(s.Close())
		require.ErrorIs(t, <-done, checkpoint.ErrClosed)
	})
}

func (b backend) testWaiting(t *testing.T) {
	wait := func(s *state, after uint64) <-chan error {
		return begin(func() error { return s.Wait(t.Context(), after) })
	}
	t.Run("it returns at once if there is an event", func(t *testing.T) {
		s := b.state(t, spacious)
		s.append(events(2, 300)...)
		s.must(s.Wait(t.Context(), 1))
	})
	t.Run("it ends with the next event", func(t *testing.T) {
		s := b.state(t, spacious)
		s.append(events(1, 300)...)
		first, second := wait(s, 1), wait(s, 2)
		s.append(events(1, 300)...)
		s.must(<-first)
		s.append(events(1, 300)...)
		s.must(<-second)
	})
	testWaitEnds(t, func(t *testing.T) *state { return b.state(t, spacious) },
		func(ctx context.Context, s *state) error { return s.Wait(ctx, 0) })
	t.Run("events that were trimmed do not end it", func(t *testing.T) {
		s := b.state(t, checkpoint.Limits{MaxBytes: 1 << 30})
		s.configureSinks("a")
		s.append(events(3, 300)...)
		s.clock.advance(time.Hour)
		s.configure(nil)
		s.until("the journal is empty", func() bool { return s.stats().Events == 0 })
		s.configureSinks("a")
		done := wait(s, s.cursor("a"))
		select {
		case err := <-done:
			t.Fatalf("ended with %v, although there is nothing to read", err)
		default:
		}
		s.append(events(1, 300)...)
		s.must(<-done)
		s.wantJournal(3, events(1, 300)...)
	})
}

func (b backend) testDead(t *testing.T) {
	deadLetter := func(key, body string) checkpoint.DeadLetter {
		return checkpoint.DeadLetter{Key: key, Class: "rejected", Reason: "400\nBad \"Request\"", Time: noon.Add(123456789), Body: []byte(body)}
	}
	keys := func(deadLetters []checkpoint.DeadLetter) (keys string) {
		for _, d := range deadLetters {
			keys += d.Key
		}
		return keys
	}

	s := b.state(t, spacious)
	s.append(events(5, 300)...)
	s.configureSinks("a", "b")
	owner := checkpoint.SinkOwner("a")
	s.acknowledge("a", 2, deadLetter("c", "line one\nline two"), deadLetter("a", ""), deadLetter("d", "{}"))
	s.acknowledge("a", 3, deadLetter("b", "{}"))

	t.Run("a dead letter is returned as it was written", func(t *testing.T) {
		for _, d := range s.dead(owner) {
			want := deadLetter(d.Key, string(d.Body))
			assert.True(t, d.Class == want.Class && d.Reason == want.Reason && d.Time.Equal(want.Time), d, want)
		}
		got := s.dead(owner)[2].Body
		assert.Equal(t, string(got), "line one\nline two", "body")
	})
	for name, test := range map[string]struct {
		after string
		limit int
		want  string
	}{
		"all, in the order of keys":   {"", 10, "abcd"},
		"so many":                     {"", 3, "abc"},
		"after a key":                 {"b", 10, "cd"},
		"after a key that is missing": {"bb", 1, "c"},
		"after the last":              {"d", 10, ""},
		"none":                        {"", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			deadLetters := require.Value(s.Dead(t.Context(), owner, test.after, test.limit))(t)
			assert.Equal(t, keys(deadLetters), test.want)
		})
	}
}

func (b backend) testTrimming(t *testing.T) {
	made := events(6, 1000)
	limits := checkpoint.Limits{MaxBytes: 1 << 30, Retain: time.Hour}
	both := map[string]checkpoint.Start{"a": {}, "b": {}}

	for _, maxBytes := range []int64{limits.MaxBytes, 0} {
		t.Run(fmt.Sprintf("committed events are kept until they are old, with a bound of %d bytes", maxBytes), func(t *testing.T) {
			s := b.state(t, checkpoint.Limits{MaxBytes: maxBytes, Retain: limits.Retain})
			s.configure(both)
			s.append(made...)
			s.acknowledge("a", 6)
			s.acknowledge("b", 6)
			s.wantJournal(0, made...)
			s.clock.advance(time.Hour + 2*time.Second) // the first three are an hour old
			s.configure(both)
			s.until("old events are trimmed", func() bool { return s.stats().First == 4 })
			s.wantJournal(3, made[3:]...)
		})
	}
}

func errOf[T any](_ T, err error) error { return err }

func (b backend) testClosing(t *testing.T) {
	s := b.state(t, spacious)
	s.configureSinks("a")
	s.must(s.Close())
	ctx := t.Context()
	for name, err := range map[string]error{
		"Position":       errOf(s.Position(ctx, detections)),
		"Commit":         s.Commit(ctx, checkpoint.Commit{Source: detections, Position: []byte("p")}),
		"Read":           errOf(s.Read(ctx, 0, checkpoint.Batch{})),
		"Wait":           s.Wait(ctx, 0),
		"WaitRedelivery": s.WaitRedelivery(ctx, "a"),
		"WaitCommands":   s.WaitCommands(ctx, 0),
		"Backup":         errOf(s.Backup(ctx, io.Discard)),
	} {
		t.Run(name+" returns ErrClosed", func(t *testing.T) { require.ErrorIs(t, err, checkpoint.ErrClosed) })
	}
	t.Run("closing it again returns nil", func(t *testing.T) {
		require.NoError(t, s.Close())
	})
	t.Run("a commit that waits for space ends with ErrClosed", func(t *testing.T) {
		s := b.state(t, checkpoint.Limits{MaxBytes: 1})
		s.configureSinks("a")
		s.append(events(1, 300)...)
		done := s.commitIntoFull(t.Context(), s.next(events(1, 300)...))
		s.must(s.Close())
		require.ErrorIs(t, <-done, checkpoint.ErrClosed)
	})
}
