package checkpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestFileOfLayout1IsMigratedAfterACopyWasMade(t *testing.T) {
	old := image(t, 1)
	path := statePath(t)
	require.NoError(t, os.WriteFile(path, old, 0o600))
	s := open(t, path, checkpoint.Options{})
	wantFilled(t, s)
	ctx := t.Context()
	assert.Equal(t, require.Value(s.Replay(ctx, "a", checkpoint.Period{}))(t).Last, 7, "replayed")
	require.NoError(t, s.Close())

	wantCopy := func(path string) {
		t.Helper()
		info := require.Value(os.Stat(path))(t)
		assert.Equal(t, info.Mode().Perm(), 0o600, "the copy has mode")
		s := open(t, path, checkpoint.Options{ReadOnly: true})
		wantFilled(t, s)
		require.NoError(t, s.Close())
	}
	wantCopy(path + ".v1.bak")

	t.Run("an existing copy is not changed", func(t *testing.T) {
		first := require.Value(os.ReadFile(path + ".v1.bak"))(t)
		for _, copied := range []string{path + ".v1.2.bak", path + ".v1.3.bak"} {
			require.NoError(t, os.WriteFile(path, old, 0o600))
			open(t, path, checkpoint.Options{}).Close()
			wantCopy(copied)
		}
		assert.True(t, bytes.Equal(require.Value(os.ReadFile(path+".v1.bak"))(t), first), "the first copy was changed")
	})
	t.Run("a migrated file is not migrated again, and no other file is beside it", func(t *testing.T) {
		open(t, path, checkpoint.Options{}).Close()
		names, _ := os.ReadDir(filepath.Dir(path))
		assert.Equal(t, len(names), 4, names)
	})
	for _, layout := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("a file of layout %d is migrated with its queues", layout), func(t *testing.T) {
			path := statePath(t)
			require.NoError(t, os.WriteFile(path, image(t, layout), 0o600))
			s := open(t, path, checkpoint.Options{})
			assert.Equal(t, s.Kept(), fmt.Sprintf("%s.v%d.bak", path, layout), "it reports the copy")
			wantFilled(t, s)
			wantQueued(t, s)
			_, err := s.Replay(ctx, "a", checkpoint.Period{Since: time.Unix(6, 0)})
			assert.NoError(t, err)
			var queued []uint64
			next, err := s.Redeliver(ctx, "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{})
			for _, r := range next.Records {
				queued = append(queued, r.Seq)
			}
			assert.NoError(t, err)
			assert.EqualSlices(t, queued, []uint64{0, 6, 7, 7}, "queued")
			_, err = s.Accept(ctx, []checkpoint.Command{{Appliance: "hq", Body: []byte("{}")}})
			assert.NoError(t, err)
			require.NoError(t, s.Close())
			wantCopy(fmt.Sprintf("%s.v%d.bak", path, layout))
		})
	}
	t.Run("a file opened read-only is not migrated", func(t *testing.T) {
		path := statePath(t)
		require.NoError(t, os.WriteFile(path, old, 0o600))
		s := open(t, path, checkpoint.Options{ReadOnly: true})
		wantFilled(t, s)
		assert.Empty(t, require.Value(s.Redeliver(ctx, "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{}))(t).Records)
		assert.Empty(t, require.Value(s.Commands(ctx, checkpoint.CommandFilter{}, 0, 10))(t))
		require.NoError(t, s.Close())
		after, _ := os.ReadFile(path)
		assert.True(t, bytes.Equal(after, old), "the file was changed")
	})
}
