package similar_test

import (
	"strings"
	"testing"

	"ndrbridge/internal/similar"
	"ndrbridge/test/assert"
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
			assert.Equal(t, similar.Nearest(c.word, known), c.want, "for", c.word)
		})
	}
}
