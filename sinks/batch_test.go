package sinks

import (
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/transform"
)

// batchOf returns a batch with n pending entries of 100 bytes.
func batchOf(n int) *deliveryBatch {
	b := new(deliveryBatch)
	for i := range n {
		b.add(checkpoint.Parked{}, transform.Event{}, nil)
		b.entries[i].size = 100
	}
	return b
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
			b := batchOf(c.events)
			assert.Equal(t, b.fits(b.pending(), c.bound), c.want, "of", c.events, "events fit")
		})
	}
}
