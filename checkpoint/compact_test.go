package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestCompactFreesSpaceAndKeepsTheRest(t *testing.T) {
	path := closedState(t)
	s := open(t, path, checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}})
	ctx := t.Context()
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: 7, Cursor: 1500}))
	for stats, err := s.Stats(ctx); stats.First != 1501; stats, err = s.Stats(ctx) {
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
	}
	before, err := s.Stats(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	from, to, err := checkpoint.Compact(path)
	info, statErr := os.Stat(path)
	require.NoError(t, errors.Join(err, statErr))
	assert.True(t, to < from/2 && to == info.Size() && from == before.FileBytes && info.Mode().Perm() == 0o600, from, to, info.Mode().Perm(), info.Size())
	names, _ := os.ReadDir(filepath.Dir(path))
	assert.Equal(t, len(names), 1, names)
	s = open(t, path, checkpoint.Options{})
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
	after := require.Value(s.Stats(ctx))(t)
	assert.True(t, after.First == 1501 && after.Last == 1561 && after.Bytes == before.Bytes && after.Sinks["a"] == before.Sinks["a"], after, before)
	for i := range 600 {
		known := require.Value(s.Recall(ctx, source, []string{fmt.Sprint(i)}))(t)
		assert.Equal(t, known[0] != nil, i > 0, "entry", i, "is known as")
	}
}

func TestCompactRefuses(t *testing.T) {
	write := func(t *testing.T, content []byte) string {
		path := statePath(t)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	refused := func(t *testing.T, path string, want error) {
		t.Helper()
		before, _ := os.ReadFile(path)
		_, _, err := checkpoint.Compact(path)
		assert.ErrorIs(t, err, want)
		after, _ := os.ReadFile(path)
		assert.True(t, bytes.Equal(before, after), "the file was changed")
		names, _ := os.ReadDir(filepath.Dir(path))
		assert.True(t, len(names) <= 1, names, "want the state alone")
	}
	t.Run("a state that is damaged", func(t *testing.T) {
		content := image(t, 2)
		clear(content[2*16<<10:])
		refused(t, write(t, content), checkpoint.ErrDamaged)
	})
	t.Run("a damaged state that was closed cleanly", func(t *testing.T) {
		path := closedState(t)
		overwrite(t, path)
		refused(t, path, checkpoint.ErrDamaged)
	})
	t.Run("a state of a newer version", func(t *testing.T) {
		path := write(t, image(t, 2))
		edit(t, path, "meta", "version", []byte("6"))
		refused(t, path, checkpoint.ErrNewer)
	})
	t.Run("a state that is in use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			path := statePath(t)
			open(t, path, checkpoint.Options{})
			refused(t, path, checkpoint.ErrLocked)
		})
	})
	t.Run("no state", func(t *testing.T) { refused(t, statePath(t), os.ErrNotExist) })
}
