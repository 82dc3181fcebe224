//go:build unix

package checkpoint_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
)

// limitFiles lets no file of this process grow beyond a size: such writes fail as on a
// full disk. It returns a function that removes the limit.
func limitFiles(t *testing.T, size uint64) (free func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	set := func(size uint64) {
		var limit syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
		limit.Cur = min(size, limit.Max)
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	}
	set(size)
	t.Cleanup(func() { set(math.MaxUint64); signal.Reset(syscall.SIGXFSZ) })
	return func() { set(math.MaxUint64) }
}

// TestDiskThatFillsUpAndIsFreedAgain runs in a process of its own: the limit concerns
// every file of a process, the log that go test keeps of a test's files included.
func TestDiskThatFillsUpAndIsFreedAgain(t *testing.T) {
	if !process.InChild(t) {
		return
	}
	path := statePath(t)
	s := open(t, path, checkpoint.Options{})
	ctx := t.Context()
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
	free := limitFiles(t, 2<<20)
	position := []byte(nil)
	commit := func(n int) error {
		c := checkpoint.Commit{Source: source, Expect: position, Position: fmt.Append(nil, n)}
		for i := range 50 {
			c.Events = append(c.Events, newEvent(t, fmt.Sprintf("%d-%d", n, i), time.Now(), 2000))
		}
		err := s.Commit(ctx, c)
		if err == nil {
			position = c.Position
		}
		return err
	}
	commits, err := 0, error(nil)
	for ; err == nil && commits < 100; commits++ {
		err = commit(commits)
	}
	commits--
	require.True(t, err != nil && !errors.Is(err, checkpoint.ErrFenced) && strings.Contains(err.Error(), path), err, "want one that names the file")
	check := func() {
		t.Helper()
		records, err := s.Read(ctx, 0, checkpoint.Batch{})
		require.NoError(t, err)
		require.Equal(t, len(records), 50*commits, "events")
		got, err := s.Position(ctx, source)
		require.True(t, err == nil && string(got) == string(position), "position", string(got), err, string(position))
	}
	check()
	for range 3 {
		err := commit(commits)
		require.True(t, err != nil, "written into a full disk")
	}
	check()
	// If the process dies now, the state has everything that was committed.
	assert.NoError(t, s.Close(), "close with a full disk")
	s = open(t, path, checkpoint.Options{})
	check()
	free()
	for range 20 {
		require.NoError(t, commit(commits), "with space again")
		commits++
	}
	check()
	assert.True(t, require.Value(os.Stat(path))(t).Size() > 2<<20, "the file did not grow")
}
