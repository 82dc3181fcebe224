package appliance

import (
	"cmp"
	"iter"
	"slices"
)

// index keeps versions sorted by mod_time, then id, in a list of short sorted chunks. A
// change moves a few thousand bytes, whatever the size of the index.
type index struct {
	chunks [][]*Version // none is empty
}

const maxChunk = 512

func byModTimeAndID(a, b *Version) int {
	return cmp.Or(cmp.Compare(a.ModTime, b.ModTime), cmp.Compare(a.ID, b.ID))
}

// chunkOf returns the chunk to which v belongs.
func (x *index) chunkOf(v *Version) int {
	next, _ := slices.BinarySearchFunc(x.chunks, v, func(chunk []*Version, v *Version) int {
		if byModTimeAndID(chunk[0], v) <= 0 {
			return -1
		}
		return 1
	})
	return max(0, next-1)
}

func (x *index) insert(v *Version) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*Version{{v}}
		return
	}
	c := x.chunkOf(v)
	chunk := x.chunks[c]
	at, _ := slices.BinarySearchFunc(chunk, v, byModTimeAndID)
	switch {
	case len(chunk) < maxChunk:
		x.chunks[c] = slices.Insert(chunk, at, v)
	case at == len(chunk):
		// Appending in order leaves full chunks.
		x.chunks = slices.Insert(x.chunks, c+1, []*Version{v})
	default:
		left, right := chunk[:maxChunk/2:maxChunk/2], slices.Clone(chunk[maxChunk/2:])
		clear(chunk[maxChunk/2:])
		if at <= len(left) {
			left = slices.Insert(left, at, v)
		} else {
			right = slices.Insert(right, at-len(left), v)
		}
		x.chunks[c] = left
		x.chunks = slices.Insert(x.chunks, c+1, right)
	}
}

// remove removes v, which must be in the index.
func (x *index) remove(v *Version) {
	c := x.chunkOf(v)
	at, found := slices.BinarySearchFunc(x.chunks[c], v, byModTimeAndID)
	if !found {
		panic("the index lost a detection")
	}
	if x.chunks[c] = slices.Delete(x.chunks[c], at, at+1); len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
}

// from yields the versions whose mod_time is at least bound, in order.
func (x *index) from(bound int64) iter.Seq[*Version] {
	return func(yield func(*Version) bool) {
		first := &Version{ModTime: bound, ID: -1 << 63}
		c := x.chunkOf(first)
		for i, chunk := range x.chunks[min(c, len(x.chunks)):] {
			if i == 0 {
				at, _ := slices.BinarySearchFunc(chunk, first, byModTimeAndID)
				chunk = chunk[at:]
			}
			for _, v := range chunk {
				if !yield(v) {
					return
				}
			}
		}
	}
}
