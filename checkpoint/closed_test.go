package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// closedState returns a state of many pages that was closed cleanly.
func closedState(t *testing.T) string {
	t.Helper()
	path := statePath(t)
	s := open(t, path, checkpoint.Options{})
	fill(t, s)
	c := checkpoint.Commit{Source: source, Expect: []byte("p"), Position: []byte("p")}
	for i := range 1500 {
		c.Events = append(c.Events, newEvent(t, fmt.Sprint(i), time.Unix(200, 0), 1000))
	}
	require.NoError(t, errors.Join(s.Commit(t.Context(), c), s.Close()))
	return path
}

// overwrite changes bytes in the middle of a file, where the journal is.
func overwrite(t *testing.T, path string) {
	t.Helper()
	file := require.Value(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer file.Close()
	require.Value(file.WriteAt(bytes.Repeat([]byte{0xff}, 64<<10), 1<<20))(t)
}

func TestFileThatWasClosedInOrderIsNotReadThrough(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("damage fails the calls that read it, and nothing is written any more", func(t *testing.T) {
		path := closedState(t)
		overwrite(t, path)
		s := open(t, path, checkpoint.Options{})
		_, err := s.Read(ctx, 0, checkpoint.Batch{MaxEvents: 10})
		assert.NoError(t, err, "read undamaged data")
		_, err = s.Read(ctx, 0, checkpoint.Batch{})
		assert.ErrorIs(t, err, checkpoint.ErrDamaged, "read damaged data")
		use(s)
		require.NoError(t, s.Close())
	})
	t.Run("a copy is read through", func(t *testing.T) {
		path := closedState(t)
		content := require.Value(os.ReadFile(path))(t)
		copied := path + ".copy"
		require.NoError(t, os.WriteFile(copied, content, 0o600))
		overwrite(t, copied)
		_, err := checkpoint.Open(copied, checkpoint.Options{})
		assert.ErrorIs(t, err, checkpoint.ErrDamaged)
	})
	t.Run("a file that was not closed after it was written is read through", func(t *testing.T) {
		path := closedState(t)
		s := open(t, path, checkpoint.Options{})
		require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: 7, Cursor: 8}))
		content := require.Value(os.ReadFile(path))(t)
		require.NoError(t, s.Close())
		// The same file as before it was closed, so that the mark identifies it.
		require.NoError(t, os.WriteFile(path, content, 0o600))
		overwrite(t, path)
		_, err := checkpoint.Open(path, checkpoint.Options{})
		assert.ErrorIs(t, err, checkpoint.ErrDamaged)
	})
	t.Run("quickly, no copy is read through that is not written to", func(t *testing.T) {
		content := require.Value(os.ReadFile(closedState(t)))(t)
		for o, want := range map[*checkpoint.Options]error{
			{ReadOnly: true, Quick: true}: nil, {ReadOnly: true}: checkpoint.ErrDamaged, {Quick: true}: checkpoint.ErrDamaged,
		} {
			path := statePath(t)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			overwrite(t, path)
			s, err := checkpoint.Open(path, *o)
			assert.ErrorIs(t, err, want, *o)
			if err == nil {
				s.Close()
			}
		}
	})
	t.Run("a file that was cut short is refused", func(t *testing.T) {
		path := closedState(t)
		require.NoError(t, os.Truncate(path, 100<<10))
		_, err := checkpoint.Open(path, checkpoint.Options{})
		assert.ErrorIs(t, err, checkpoint.ErrDamaged)
	})
	t.Run("it can be closed cleanly repeatedly", func(t *testing.T) {
		path := closedState(t)
		for range 3 {
			s := open(t, path, checkpoint.Options{})
			use(s)
			require.NoError(t, s.Close())
		}
		overwrite(t, path)
		open(t, path, checkpoint.Options{})
	})
}

func TestFileThatIsCutShortWhileItIsOpenDoesNotEndTheProcess(t *testing.T) {
	path := closedState(t)
	s := open(t, path, checkpoint.Options{})
	require.NoError(t, os.Truncate(path, 64<<10))
	_, err := s.Read(t.Context(), 0, checkpoint.Batch{})
	assert.ErrorIs(t, err, checkpoint.ErrDamaged, "read")
	commit := checkpoint.Commit{Source: source, Expect: []byte("p"), Position: []byte("q"), Events: []transform.Event{newEvent(t, "e", time.Now(), 100)}}
	for range 2 {
		assert.ErrorIs(t, s.Commit(t.Context(), commit), checkpoint.ErrDamaged, "commit")
	}
	require.NoError(t, s.Close())
}

func TestStateThatIsOnlyReadIsNotChanged(t *testing.T) {
	path := closedState(t)
	before := require.Value(os.ReadFile(path))(t)
	s := open(t, path, checkpoint.Options{ReadOnly: true})
	ctx := t.Context()
	stats, err := s.Stats(ctx)
	assert.True(t, err == nil && stats.Last == 1561 && stats.Sinks["a"].Queued == 3, stats, err)
	second := open(t, path, checkpoint.Options{ReadOnly: true})
	assert.Error(t, second.Configure(ctx, nil), "configured")
	_, err = s.DropDead(ctx, checkpoint.SinkOwner("a"), nil)
	assert.Error(t, err, "dropped, want an")
	var copied bytes.Buffer
	_, err = s.Backup(context.Background(), &copied)
	assert.True(t, err == nil && copied.Len() != 0, "backup", copied.Len(), "bytes", err)
	assert.NoError(t, errors.Join(s.Close(), second.Close()))
	after, _ := os.ReadFile(path)
	assert.True(t, bytes.Equal(before, after), "the file was changed")
	_, err = checkpoint.Open(statePath(t), checkpoint.Options{ReadOnly: true})
	assert.ErrorIs(t, err, os.ErrNotExist, "no file")
}
