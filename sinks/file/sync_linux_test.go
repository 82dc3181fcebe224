package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// comm is a file that can be written and not synced: its file system has no fsync. It is the
// name of this process.
const comm = "/proc/self/comm"

// keepName restores the name of this process at the end of a test.
func keepName(t *testing.T) {
	t.Helper()
	before := require.Value(os.ReadFile(comm))(t)
	t.Cleanup(func() { _ = os.WriteFile(comm, bytes.TrimSpace(before), 0) })
}

func TestWhatIsNotSyncedIsNotAcknowledged(t *testing.T) {
	keepName(t)
	link := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.Symlink(comm, link))
	for _, test := range []struct{ name, path, synced string }{
		{"a file", link, link},
		{"the folder of a file", comm, filepath.Dir(comm)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New(Options{Path: test.path})
			defer s.Close()
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			failed, ok := errors.AsType[*fs.PathError](err)
			assert.True(t, ok && failed.Op == "sync" && failed.Path == test.synced && errors.Is(err, syscall.EINVAL), err, "want that", test.synced, "cannot be synced")
		})
	}
}

// The first sync of a large batch comes before all of it is written, so that no crash leaves
// a hole far from the end of the file.
func TestALargeBatchIsSyncedInParts(t *testing.T) {
	keepName(t)
	written := func() (n int) {
		status := require.Value(os.ReadFile("/proc/self/io"))(t)
		for line := range bytes.Lines(status) {
			_, _ = fmt.Sscanf(string(line), "wchar: %d", &n)
		}
		return n
	}
	link := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.Symlink(comm, link))
	s := New(Options{Path: link})
	defer s.Close()
	var events []transform.Event
	for range 4 {
		events = append(events, sinktest.Events(1, 1, maxUnsynced*2/5)...)
	}
	before := written()
	err := s.Send(t.Context(), events)
	require.True(t, err != nil, "no error of a file that cannot be synced")
	// Two of the events are written, and whatever a concurrent test writes.
	n := written() - before
	assert.True(t, n >= maxUnsynced/2 && n <= maxUnsynced+maxUnsynced/8, n, "bytes were written before the first sync")
}
