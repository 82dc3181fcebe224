package loopback_test

import (
	"slices"
	"testing"

	"ndrbridge/test/loopback"
)

func TestPortsAreNotReturnedTwice(t *testing.T) {
	const n = 300 // of 10,000: without a reservation, some are almost certainly the same
	first, second := loopback.FreePorts(t, n), loopback.FreePorts(t, n)
	for _, port := range second {
		if slices.Contains(first, port) {
			t.Errorf("port %d is returned twice", port)
		}
	}
}
