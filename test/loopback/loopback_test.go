package loopback_test

import (
	"slices"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
)

func TestPortsAreNotReturnedTwice(t *testing.T) {
	const n = 300 // of 10,000: without a reservation, some are almost certainly the same
	first, second := loopback.FreePorts(t, n), loopback.FreePorts(t, n)
	for _, port := range second {
		assert.False(t, slices.Contains(first, port), "port", port, "is returned twice")
	}
}
