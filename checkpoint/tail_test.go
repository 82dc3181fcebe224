package checkpoint_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

func TestWhatIsReadFromMemoryIsWhatTheFileHolds(t *testing.T) {
	path := statePath(t)
	s := open(t, path, checkpoint.Options{})
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	// More than memory keeps, in rounds of many sizes.
	for _, n := range []int{1, 900, 3, 40, 2500, 1, 700} {
		c.Events = nil
		for i := range n {
			c.Events = append(c.Events, newEvent(t, fmt.Sprint(n, "/", i), time.UnixMilli(int64(i)), 50*(i%50)))
		}
		require.NoError(t, s.Commit(t.Context(), c))
		c.Expect = c.Position
	}
	all := require.Value(s.Read(t.Context(), 0, checkpoint.Batch{}))(t)
	require.Equal(t, len(all), 4145, "events")
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.Uint64Range(0, uint64(len(all))+1).Draw(t, "after")
		most := checkpoint.Batch{MaxEvents: rapid.IntRange(0, 600).Draw(t, "events"), MaxBytes: rapid.IntRange(0, 1<<20).Draw(t, "bytes")}
		got := require.Value(s.Read(t.Context(), after, most))(t)
		size := 0
		for i, r := range got {
			want := all[after+uint64(i)]
			if r.Seq != want.Seq || !reflect.DeepEqual(r.Event.Attributes, want.Event.Attributes) || string(r.Event.Structured()) != string(want.Event.Structured()) {
				t.Fatalf("event %d is %d %+v, want %d %+v", i, r.Seq, r.Event, want.Seq, want.Event)
			}
			size += len(r.Event.Structured())
		}
		require.True(t, len(got) <= 1 || (most.MaxEvents <= 0 || len(got) <= most.MaxEvents) && (most.MaxBytes <= 0 || size <= most.MaxBytes), len(got), size, most)
		next := after + uint64(len(got))
		if next < uint64(len(all)) && (most.MaxEvents == 0 || len(got) < most.MaxEvents) &&
			(most.MaxBytes == 0 || size+len(all[next].Event.Structured()) <= most.MaxBytes) {
			t.Fatalf("%d events after %d, and there is space for the next in %+v", len(got), after, most)
		}
	})
}
