package syslog

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// batchOf returns a batch of messages with the given sizes.
func batchOf(sizes ...int) *batch {
	b := &batch{}
	for _, size := range sizes {
		b.framed = append(b.framed, make([]byte, size)...)
		b.ends = append(b.ends, len(b.framed))
	}
	return b
}

func TestATailIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept tail
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			b := batchOf(rapid.SliceOfN(rapid.IntRange(1, 2<<20), 1, 6).Draw(t, "sizes")...)
			kept.add(b, now)
			bytes := 0
			for _, c := range kept.chunks {
				if bytes += len(c.frames); now.Sub(c.sent) > tailAge {
					t.Fatalf("a chunk is %v old", now.Sub(c.sent))
				}
			}
			if bytes != kept.bytes || bytes > tailBytes {
				t.Fatalf("%d bytes, counted as %d", bytes, kept.bytes)
			}
			if last := b.ends[len(b.ends)-1]; last <= tailBytes && bytes < last {
				t.Fatalf("%d bytes of the last %d are kept", bytes, last)
			}
		}
	})
}

func TestATailGivesUpWhatItRepeatedTooOften(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	kept.add(batchOf(1, 2, 3), now)
	now = now.Add(chunkAge)
	kept.add(batchOf(4), now)
	for range maxRepetitions - 1 {
		kept.repeat(0, now)
	}
	if n := kept.giveUp(); n != 0 || kept.messages() != 4 {
		t.Fatalf("gave up %d, kept %d", n, kept.messages())
	}
	kept.repeat(0, now)
	if n := kept.giveUp(); n != 3 || kept.messages() != 1 || kept.bytes != 4 {
		t.Errorf("gave up %d, kept %d of %d bytes: the oldest are given up first", n, kept.messages(), kept.bytes)
	}
	if n := kept.giveUp(); n != 0 || kept.messages() != 1 {
		t.Errorf("gave up %d that were not sent again", n)
	}
}

// What was sent again may be as unread as what was sent first.
func TestATailKeepsWhatWasSentAgain(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	kept.add(batchOf(1), now)
	now = now.Add(tailAge)
	kept.repeat(0, now)
	now = now.Add(tailAge)
	if kept.expire(now); kept.messages() != 1 {
		t.Error("it is not sent once more")
	}
	if kept.expire(now.Add(1)); kept.messages() != 0 {
		t.Error("it is kept for longer than what was sent first")
	}
}

// The sink may send a batch for each event, thousands in a second.
func TestATailOfSmallBatchesHasFewChunks(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	for i := range 10_000 {
		kept.add(batchOf(i%100+1, 500), now)
		now = now.Add(time.Millisecond)
	}
	if n := kept.messages(); n != 20_000 {
		t.Errorf("%d messages are kept", n)
	}
	if n := len(kept.chunks); n > 50 {
		t.Errorf("they are in %d chunks", n)
	}
	kept.expire(now.Add(tailAge - 5*time.Second))
	if n := kept.messages(); n < 10_000 || n > 10_000+2*int(chunkAge/time.Millisecond) {
		t.Errorf("%d messages are left of half the time", n)
	}
}
