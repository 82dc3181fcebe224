package sinks

import (
	"errors"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/poison"
	"ndrbridge/transform"
)

// batchOf returns a batch with an entry of 100 bytes for each letter: p is pending, a
// acknowledged, d dead-lettered, f filtered.
func batchOf(entries string) *deliveryBatch {
	b := new(deliveryBatch)
	for i, entry := range entries {
		b.add(checkpoint.Redelivered{}, transform.Event{}, nil)
		b.entries[i].size = 100
		switch entry {
		case 'a':
			b.acknowledge(i)
		case 'd':
			b.deadLetter(i, errors.New("400"))
		case 'f':
			b.entries[i].filtered, b.entries[i].done = true, true
		}
	}
	return b
}

func TestMayGrow(t *testing.T) {
	const acknowledgedAtMost = 8 + (poison.GiveUpAfter-1)*maxNeighbours
	repeat := strings.Repeat
	for name, c := range map[string]struct {
		entries     string
		bound       checkpoint.Batch
		quarantined bool
		want        bool
	}{
		"a batch of which all fail":                         {"pppppppp", checkpoint.Batch{MaxEvents: 8}, false, true},
		"64 pending events":                                 {repeat("p", 64), checkpoint.Batch{MaxEvents: 8}, false, true},
		"65 pending events":                                 {repeat("p", 65), checkpoint.Batch{MaxEvents: 8}, false, false},
		"65 pending events, quarantined":                    {repeat("p", 65), checkpoint.Batch{MaxEvents: 8}, true, true},
		"as many as a large batch has":                      {repeat("p", 100), checkpoint.Batch{MaxEvents: 100}, false, true},
		"more than a large batch has":                       {repeat("p", 101), checkpoint.Batch{MaxEvents: 100}, false, false},
		"fewer than 32 batches, quarantined":                {repeat("p", 255), checkpoint.Batch{MaxEvents: 8}, true, true},
		"32 batches, quarantined":                           {repeat("p", 256), checkpoint.Batch{MaxEvents: 8}, true, false},
		"32 batches, of which some are filtered":            {repeat("p", 255) + "ff", checkpoint.Batch{MaxEvents: 8}, true, true},
		"32 batches without a bound":                        {repeat("p", 256), checkpoint.Batch{}, true, true},
		"less than eight batches' bytes":                    {repeat("p", 7), checkpoint.Batch{MaxEvents: 8, MaxBytes: 100}, true, true},
		"eight batches' bytes":                              {repeat("p", 8), checkpoint.Batch{MaxEvents: 8, MaxBytes: 100}, true, false},
		"eight batches' bytes, some of them acknowledged":   {repeat("p", 7) + "aa", checkpoint.Batch{MaxEvents: 8, MaxBytes: 100}, true, true},
		"many acknowledged events":                          {"p" + repeat("a", acknowledgedAtMost-1), checkpoint.Batch{MaxEvents: 8}, false, true},
		"too many acknowledged events":                      {"p" + repeat("a", acknowledgedAtMost), checkpoint.Batch{MaxEvents: 8}, false, false},
		"as many, of which one is a dead letter":            {"pd" + repeat("a", acknowledgedAtMost-1), checkpoint.Batch{MaxEvents: 8}, false, true},
		"as many, of which one is filtered":                 {"pf" + repeat("a", acknowledgedAtMost-1), checkpoint.Batch{MaxEvents: 8}, false, true},
		"a dead letter and a filtered event among too many": {"pdf" + repeat("a", acknowledgedAtMost), checkpoint.Batch{MaxEvents: 8}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := batchOf(c.entries).mayGrow(c.bound, c.quarantined); got != c.want {
				t.Errorf("it may grow: %t", got)
			}
		})
	}
}

func TestFits(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		bound  checkpoint.Batch
		want   int
	}{
		"without bounds":                        {5, checkpoint.Batch{}, 5},
		"as many as are allowed":                {5, checkpoint.Batch{MaxEvents: 5}, 5},
		"one more than are allowed":             {5, checkpoint.Batch{MaxEvents: 4}, 4},
		"as many bytes as are allowed":          {5, checkpoint.Batch{MaxBytes: 500}, 5},
		"one byte more than is allowed":         {5, checkpoint.Batch{MaxBytes: 499}, 4},
		"the first alone is larger than a call": {5, checkpoint.Batch{MaxBytes: 99}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := batchOf(strings.Repeat("p", c.events))
			if got := b.fits(b.pending(), c.bound); got != c.want {
				t.Errorf("%d of %d events fit", got, c.events)
			}
		})
	}
}

func TestNeighbours(t *testing.T) {
	for bound, want := range map[int]int{0: 25, 1: 1, 25: 25, 26: 25, 1000: 25} {
		if got := neighbours(checkpoint.Batch{MaxEvents: bound}); got != want {
			t.Errorf("a batch of %d events is extended by %d, want %d", bound, got, want)
		}
	}
}
