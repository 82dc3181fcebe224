package checkpoint_test

import (
	"testing"

	"ndrbridge/checkpoint"
)

func TestDeadLettersAreSharedBySinksAndSources(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int64
		sinks int
		want  int64
	}{
		{"in equal parts, of which the sources have one", 100, 3, 25},
		{"one sink has half", 100, 1, 50},
		{"more sinks than bytes are bounded all the same", 2, 3, 1},
		{"without a bound nobody has one", 0, 3, 0},
		{"without a sink the sources have all", 100, 0, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (checkpoint.Limits{DeadBytes: c.bytes}).DeadShare(c.sinks); got != c.want {
				t.Errorf("the share of %d bytes among %d sinks is %d, want %d", c.bytes, c.sinks, got, c.want)
			}
		})
	}
}
