package checkpoint_test

import (
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
)

func (b backend) testLag(t *testing.T) {
	const size = 1000
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	each := bytesOf(events(1, size))
	// Six events, a second apart from noon on, of which b has committed one.
	behind := func(t *testing.T) *state {
		s := b.state(t, checkpoint.Limits{MaxBytes: 1 << 30, Retain: time.Hour})
		s.configureSinks("a", "b")
		s.append(events(6, size)...)
		s.acknowledge("b", 1)
		return s
	}
	for _, c := range []struct {
		name   string
		budget checkpoint.Budget
		want   checkpoint.Excess
	}{
		{"no budget is never used up", checkpoint.Budget{}, checkpoint.Excess{Expect: 1, Cursor: 1}},
		{"young events are within an age", checkpoint.Budget{Since: second(1)}, checkpoint.Excess{Expect: 1, Cursor: 1}},
		{
			"older events are too much", checkpoint.Budget{Since: second(4)},
			checkpoint.Excess{Expect: 1, Cursor: 4, Events: 3, Bytes: 3 * each, Oldest: second(1), Newest: second(3)},
		},
		{
			"all of them may be too old", checkpoint.Budget{Since: second(60)},
			checkpoint.Excess{Expect: 1, Cursor: 6, Events: 5, Bytes: 5 * each, Oldest: second(1), Newest: second(5)},
		},
		{"what is just as large as it may be is within a size", checkpoint.Budget{MaxBytes: 5 * each}, checkpoint.Excess{Expect: 1, Cursor: 1}},
		{
			"what is larger by a byte costs a whole event", checkpoint.Budget{MaxBytes: 5*each - 1},
			checkpoint.Excess{Expect: 1, Cursor: 2, Events: 1, Bytes: each, Oldest: second(1), Newest: second(1)},
		},
		{
			"a size below that of any event leaves none", checkpoint.Budget{MaxBytes: 1},
			checkpoint.Excess{Expect: 1, Cursor: 6, Events: 5, Bytes: 5 * each, Oldest: second(1), Newest: second(5)},
		},
		{
			"of an age and a size the stricter rules", checkpoint.Budget{Since: second(2), MaxBytes: 2 * each},
			checkpoint.Excess{Expect: 1, Cursor: 4, Events: 3, Bytes: 3 * each, Oldest: second(1), Newest: second(3)},
		},
	} {
		t.Run(c.name, func(t *testing.T) { behind(t).wantOver("b", c.budget, c.want) })
	}
	t.Run("events that were already trimmed are counted, but have no size", func(t *testing.T) {
		s := behind(t)
		s.acknowledge("a", 6)
		s.configureSinks("a")
		s.clock.advance(time.Hour + 3*time.Second)
		s.configureSinks("a")
		s.until("old events are trimmed", func() bool { return s.stats().First == 5 })
		s.configureSinks("a", "b")
		s.wantOver("b", checkpoint.Budget{MaxBytes: each},
			checkpoint.Excess{Expect: 1, Cursor: 5, Events: 4, Bytes: each, Oldest: second(4), Newest: second(4)})
	})
	t.Run("an unknown sink has no lag", func(t *testing.T) {
		s := behind(t)
		_, err := s.Over(t.Context(), "c", checkpoint.Budget{})
		assert.Error(t, err, "no")
	})
}

func (s *state) wantOver(sink string, b checkpoint.Budget, want checkpoint.Excess) {
	s.t.Helper()
	got, err := s.Over(s.t.Context(), sink, b)
	if err != nil || got.Expect != want.Expect || got.Cursor != want.Cursor || got.Events != want.Events || got.Bytes != want.Bytes ||
		!got.Oldest.Equal(want.Oldest) || !got.Newest.Equal(want.Newest) {
		s.t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
