package appliance

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ndrbridge/test/assert"
)

// The index is what a sorted list is, whatever comes in which order.
func TestIndex(t *testing.T) {
	orders := map[string]func(r *rand.Rand, i int) int64{
		"in order":     func(_ *rand.Rand, i int) int64 { return int64(i) },
		"backwards":    func(_ *rand.Rand, i int) int64 { return int64(-i) },
		"by chance":    func(r *rand.Rand, _ int) int64 { return r.Int64N(1 << 40) },
		"many ties":    func(r *rand.Rand, _ int) int64 { return r.Int64N(7) },
		"a single tie": func(*rand.Rand, int) int64 { return 42 },
	}
	for name, modTime := range orders {
		t.Run(name, func(t *testing.T) {
			r := chance(1, 1)
			var x index
			var list []*Version
			for i := range 3000 {
				v := &Version{ID: r.Int64(), ModTime: modTime(r, i)}
				x.insert(v)
				list = append(list, v)
				if i%3 == 0 {
					at := r.IntN(len(list))
					x.remove(list[at])
					list = slices.Delete(list, at, at+1)
				}
			}
			slices.SortFunc(list, byModTimeAndID)
			for _, bound := range []int64{-1 << 63, -3, 0, 3, 42, 43, list[len(list)/2].ModTime, 1<<63 - 1} {
				at, _ := slices.BinarySearchFunc(list, &Version{ModTime: bound, ID: -1 << 63}, byModTimeAndID)
				assert.EqualSlices(t, slices.Collect(x.from(bound)), list[at:], "from", bound, "versions, want", len(list)-at)
			}
			for _, v := range list {
				x.remove(v)
			}
			assert.Equal(t, len(x.chunks), 0, "chunks are left")
			for range x.from(0) {
				t.Error("something is left")
			}
		})
	}
}
