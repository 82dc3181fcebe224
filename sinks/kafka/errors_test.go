package kafka

import (
	"slices"
	"strings"
	"testing"

	"ndrbridge/sinks"
)

func TestEveryErrorCodeHasAClass(t *testing.T) {
	halted := []int16{17, 21, 29, 30, 31, 33, 34, 35, 37, 38, 39, 40, 43, 44, 53, 54, 55, 58, 65, 66, 76}
	rejected := []int16{10, 18, 32, 87}
	for code := int16(-1); code <= 200; code++ {
		if code == 0 {
			continue
		}
		want := sinks.Transient
		switch {
		case slices.Contains(halted, code):
			want = sinks.Halted
		case slices.Contains(rejected, code):
			want = sinks.Rejected
		case code == 89:
			want = sinks.Throttled
		}
		err := errorOfCode(code, "the broker's words", "topic x")
		if err.Class != want {
			t.Errorf("code %d is %s, not %s", code, err.Class, want)
		}
		if !strings.HasPrefix(err.Error(), "topic x: [") || !strings.Contains(err.Error(), "the broker's words") {
			t.Errorf("code %d: %v", code, err)
		}
	}
}
