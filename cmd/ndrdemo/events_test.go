package main

import (
	"bytes"
	"slices"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestEventsCommand(t *testing.T) {
	printed := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"events"}, args...), &stdout, &stderr)
		require.True(t, code == commandline.ExitDone && stderr.Len() <= 0, "exit code", code, &stderr)
		return stdout.String()
	}
	t.Run("it prints an event of every stream, a line each", func(t *testing.T) {
		var types []string
		for line := range bytes.Lines([]byte(printed())) {
			e := require.Value(transform.Parse(bytes.TrimSuffix(line, []byte("\n"))))(t)
			if !slices.Contains(types, e.Type) {
				types = append(types, e.Type)
			}
		}
		want := []string{"io.ndrbridge.detection.created", "io.ndrbridge.detection.updated", "io.ndrbridge.audit.logged", "io.ndrbridge.record.stored"}
		assert.EqualSlices(t, types, want)
	})
	t.Run("a seed gives the same events at every time", func(t *testing.T) {
		a, b := printed("--seed", "7"), printed("--seed", "7")
		assert.Equal(t, a, b, "first", "then")
		assert.True(t, printed() != printed("--seed", "7"), "another seed gives the same")
	})
}
