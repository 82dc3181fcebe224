package checkpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/transform"
)

// parkedOf returns an event of the journal as a sink parks it.
func parkedOf(seq uint64, e transform.Event, order string) checkpoint.Parked {
	var p checkpoint.Parked
	p.Order, p.Seq, p.Event, p.Key = order, seq, e, checkpoint.DeadKey(seq)
	return p
}

// wantParked checks a sink's parked events: number, key of the dead letter, ordering key,
// failures.
func (s *state) wantParked(sink, want string) {
	s.t.Helper()
	heads, err := s.ParkedHeads(s.t.Context(), sink, 0)
	s.must(err)
	var numbers []uint64
	for _, p := range heads {
		numbers = append(numbers, p.Number)
	}
	events, err := s.Parked(s.t.Context(), sink, numbers, checkpoint.Batch{})
	s.must(err)
	var got []string
	size := int64(0)
	for i, p := range events {
		got = append(got, fmt.Sprintf("%d:%s:%s:%d", p.Number, strings.TrimLeft(p.Key, "0"), p.Order, p.Failures))
		assert.True(s.t, p.ParkedHead == heads[i] && p.Event.ID != "", "parked event", p, heads[i], "with its event")
		size += int64(len(p.Event.Structured()))
	}
	equal(s.t, strings.Join(got, " "), want)
	stats := s.stats().Sinks[sink]
	equal(s.t, fmt.Sprint(len(events), stats.Parked, stats.ParkedBytes), fmt.Sprint(len(heads), len(heads), size))
}

func (b backend) testParked(t *testing.T) {
	t.Run("events move with the cursor, stay across a restart, and go one by one", func(t *testing.T) {
		s, made := b.delivered(t, spacious)
		s.append(events(3, 1000)...)
		s.must(s.CommitDelivery(t.Context(), checkpoint.Delivery{
			Sink: "a", Expect: 6, Cursor: 8, Parked: []checkpoint.Parked{parkedOf(7, made[0], "k"), parkedOf(8, made[1], "")},
		}))
		s.requeue("a", "y")
		next, _ := s.redelivered("a", checkpoint.Batch{})
		again := checkpoint.Parked{ParkedHead: checkpoint.ParkedHead{Failures: 1, First: noon, Attempts: 2}, Redelivered: next.Records[0]}
		s.must(s.CommitRedelivery(t.Context(), checkpoint.RedeliveryCommit{
			Sink: "a", Expect: next.Offset, Last: next.Records[0].Offset, Events: 1, Parked: []checkpoint.Parked{again},
		}))
		s.wantQueue("a", "")
		s.reopen()
		s.wantParked("a", "1:7:k:0 2:8::0 3:y::1")
		heads, err := s.ParkedHeads(t.Context(), "a", 2)
		s.must(err)
		redelivery, err := s.Parked(t.Context(), "a", []uint64{3}, checkpoint.Batch{})
		s.must(err)
		assert.True(t, len(heads) == 1 && heads[0].First.Equal(noon) && heads[0].Attempts == 2 && redelivery[0].Offset == next.Records[0].Offset, heads, redelivery)
		s.must(s.CommitParked(t.Context(), checkpoint.ParkedCommit{
			Sink: "a", Done: []uint64{2, 99}, Failed: []checkpoint.ParkedHead{{Number: 1, Failures: 3, First: noon}, {Number: 2, Failures: 9}},
			Dead: []checkpoint.DeadLetter{deadLetterOf(checkpoint.DeadKey(8), made[1])},
		}))
		s.wantParked("a", "1:7:k:3 3:y::1")
		equal(t, s.stats().DeadLetters[checkpoint.SinkOwner("a")].Count, 3)
		one, err := s.Parked(t.Context(), "a", []uint64{1, 2, 3}, checkpoint.Batch{MaxEvents: 1})
		s.must(err)
		equal(t, len(one), 1)
	})
	t.Run("numbers are not assigned twice", func(t *testing.T) {
		s, made := b.delivered(t, spacious)
		for range 2 {
			s.must(s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: 6, Cursor: 6, Parked: []checkpoint.Parked{parkedOf(1, made[0], "")}}))
			heads, err := s.ParkedHeads(t.Context(), "a", 0)
			s.must(err)
			s.must(s.CommitParked(t.Context(), checkpoint.ParkedCommit{Sink: "a", Done: []uint64{heads[0].Number}}))
		}
		s.must(s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: 6, Cursor: 6, Parked: []checkpoint.Parked{parkedOf(1, made[0], "")}}))
		s.wantParked("a", "3:1::0")
	})
	t.Run("they have as much space as dead letters, but one always has", func(t *testing.T) {
		s, made := b.delivered(t, checkpoint.Limits{DeadBytes: 8 * 1000}) // the dead letters take 3 of 4
		move := func(n int) error {
			d := checkpoint.Delivery{Sink: "a", Expect: 6, Cursor: 6}
			for i := range n {
				d.Parked = append(d.Parked, parkedOf(uint64(i+1), made[i], ""))
			}
			return s.CommitDelivery(t.Context(), d)
		}
		s.must(move(2))
		assert.ErrorIs(t, move(6), checkpoint.ErrParkedFull, "eight of them")
		s.wantParked("a", "1:1::0 2:2::0")
		s.must(s.CommitParked(t.Context(), checkpoint.ParkedCommit{Sink: "a", Done: []uint64{1, 2}}))
	})
	t.Run("one has space whatever its size", func(t *testing.T) {
		s, made := b.state(t, checkpoint.Limits{DeadBytes: 2}), events(2, 1000)
		s.configureSinks("a")
		s.append(made...)
		move := func(seq uint64) error {
			return s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: seq - 1, Cursor: seq, Parked: []checkpoint.Parked{parkedOf(seq, made[seq-1], "")}})
		}
		s.must(move(1))
		assert.ErrorIs(t, move(2), checkpoint.ErrParkedFull, "one more")
		s.must(s.CommitParked(t.Context(), checkpoint.ParkedCommit{Sink: "a", Done: []uint64{1}}))
		s.must(move(2))
	})
	t.Run("they belong to the sink, whatever its name", func(t *testing.T) {
		s, made := b.delivered(t, spacious)
		s.must(s.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "a", Expect: 6, Cursor: 6, Parked: []checkpoint.Parked{parkedOf(1, made[0], "k")}}))
		s.configureSinks("b")
		s.must(s.Rename(t.Context(), "a", "c"))
		s.wantParked("c", "1:1:k:0")
		s.must(s.Forget(t.Context(), "c"))
		s.wantParkedOfNone("c")
	})
	t.Run("calls for a sink that was never configured are refused", func(t *testing.T) {
		s := b.state(t, spacious)
		s.wantRefused(s.CommitParked(t.Context(), checkpoint.ParkedCommit{Sink: "a", Done: []uint64{1}}))
	})
}

func (s *state) wantParkedOfNone(sink string) {
	s.t.Helper()
	heads, err := s.ParkedHeads(s.t.Context(), sink, 0)
	s.must(err)
	equal(s.t, len(heads), 0)
}
