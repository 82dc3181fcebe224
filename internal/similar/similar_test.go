package similar_test

import (
	"strings"
	"testing"

	"ndrbridge/internal/similar"
)

func TestNearest(t *testing.T) {
	known := []string{"brokers", "topic", "level", "log"}
	for _, c := range []struct{ name, word, want string }{
		{"a letter is missing", "broker", "brokers"},
		{"letters are swapped", "levle", "level"},
		{"capitals do not matter", "Topic", "topic"},
		{"a short word may differ by one letter", "lag", "log"},
		{"another word", "hostname", ""},
		{"nothing", "", ""},
		{"a long text", strings.Repeat("level", 30), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := similar.Nearest(c.word, known); got != c.want {
				t.Errorf("%q for %q, want %q", got, c.word, c.want)
			}
		})
	}
}
