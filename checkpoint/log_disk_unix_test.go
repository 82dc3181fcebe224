//go:build unix

package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
)

// TestACopyThatCannotFollowItsLogFails runs in a process of its own, as
// TestDiskThatFillsUpAndIsFreedAgain does.
func TestACopyThatCannotFollowItsLogFails(t *testing.T) {
	if !process.InChild(t) {
		return
	}
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	free := limitFiles(t, 2<<20)
	position := []byte("p")
	for n := 0; ; n++ {
		require.True(t, n != 1000, "the disk is never full")
		c := checkpoint.Commit{Source: source, Expect: position, Position: fmt.Append(nil, n)}
		for i := range 50 {
			c.Events = append(c.Events, newEvent(t, fmt.Sprintf("%d-%d", n, i), time.Now(), 2000))
		}
		err := s.Commit(t.Context(), c)
		if err == nil {
			position = c.Position
			continue
		}
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "behind its log") || !hasFailed(s) {
			t.Errorf("%v, failed %t", err, hasFailed(s))
		}
		break
	}
	records := len(log.after(0))
	require.NoError(t, s.Close())
	free()
	r := openReplica(t, path)
	assert.Equal(t, r.At().Offset, uint64(records-1), "the offset of the file, of", records)
	log.follow(t, r)
	assert.True(t, bytes.Equal(dumped(t, r), log.made(t)), "the file does not lead to what the log holds")
}
