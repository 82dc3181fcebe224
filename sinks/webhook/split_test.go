package webhook

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/transform"
)

// PlainEvents makes n events of a size, at little cost. They have the given
// number of keys in turn.
func PlainEvents(t interface{ Fatal(...any) }, n, keys, size int) []transform.Event {
	data := fmt.Appendf(nil, `{"detection":%q}`, bytes.Repeat([]byte{'x'}, size))
	events := make([]transform.Event, n)
	for i := range events {
		var err error
		events[i], err = transform.New(transform.Attributes{
			ID: fmt.Sprint(i), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", PartitionKey: fmt.Sprint(i % keys),
		}, data)
		if err != nil {
			t.Fatal(err)
		}
	}
	return events
}

func TestSplitKeepsKeysTogetherAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 2 << 10, 40 << 10}).Draw(t, "bytes of an event")
		events := PlainEvents(t, rapid.IntRange(1, 60).Draw(t, "events"), rapid.IntRange(1, 60).Draw(t, "keys"), size)
		n := rapid.IntRange(1, 10).Draw(t, "requests at most")
		parts := split(events, n)
		if len(parts) < 1 || len(parts) > n {
			t.Fatalf("%d parts", len(parts))
		}
		home := map[string]int{}
		total, seen := 0, 0
		for number, p := range parts {
			if len(p.events) == 0 {
				t.Fatalf("part %d is empty", number)
			}
			last := -1
			for i, e := range p.events {
				if before, ok := home[e.PartitionKey]; ok && before != number {
					t.Fatalf("key %s is in parts %d and %d", e.PartitionKey, before, number)
				}
				home[e.PartitionKey] = number
				index := i
				if len(parts) > 1 {
					index = p.indexes[i]
				}
				if index <= last || events[index].ID != e.ID {
					t.Fatalf("part %d is out of order", number)
				}
				last = index
				total += len(e.Structured())
				seen++
			}
		}
		if seen != len(events) {
			t.Fatalf("%d of %d events", seen, len(events))
		}
		if len(parts) > 1 && total/len(parts) < minPartBytes {
			t.Fatalf("%d parts of %d bytes", len(parts), total)
		}
	})
}

func TestSplitIsEven(t *testing.T) {
	for _, test := range []struct {
		name          string
		events        []transform.Event
		requests      int
		parts         int
		least, atMost int // events of a part
	}{
		{"few events are one request", PlainEvents(t, 100, 100, 2<<10), 8, 1, 100, 100},
		{"many events are as many requests as allowed", PlainEvents(t, 2000, 2000, 2<<10), 8, 8, 245, 255},
		{"events in between are as many requests as are worth it", PlainEvents(t, 800, 800, 2<<10), 8, 3, 260, 270},
		{"one at a time is one request", PlainEvents(t, 2000, 2000, 2<<10), 1, 1, 2000, 2000},
		{"events of one key are one request", PlainEvents(t, 2000, 1, 2<<10), 8, 1, 2000, 2000},
		{"two keys are two requests", PlainEvents(t, 2000, 2, 2<<10), 8, 2, 1000, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			parts := split(test.events, test.requests)
			if len(parts) != test.parts {
				t.Fatalf("%d parts, want %d", len(parts), test.parts)
			}
			for _, p := range parts {
				if n := len(p.events); n < test.least || n > test.atMost {
					t.Errorf("a part of %d events", n)
				}
			}
		})
	}
}
