package checkpoint_test

import (
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestTheTrailOfTheLogIsInTheFile: of a store that was closed or killed, and of a replica, and
// in a dump.
func TestTheTrailOfTheLogIsInTheFile(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	require.NoError(t, s.Commit(t.Context(), more(t)))
	dumped := require.Value(s.Dump(t.Context(), 1<<20, func([]byte) error { return nil }))(t)
	require.True(t, strings.HasPrefix(dumped.Trail, "record "), "dumped at")
	require.NoError(t, s.Close())
	r := openReplica(t, path)
	assert.Equal(t, r.At(), dumped, "the store was closed at")
	want := checkpoint.Point{Offset: r.At().Offset + 1, Trail: "a renewal"}
	require.NoError(t, r.Apply(nil, want))
	require.NoError(t, r.Close())
	assert.Equal(t, openReplica(t, path).At(), want, "the replica was closed at")
}
