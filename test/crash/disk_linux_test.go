package crash

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestFullDisk fills the disk of a running bridge and frees it again: polling and delivery
// resume automatically, also after a crash on a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	s := newScene(t, buildBridge(t), 1, d.folder, false)
	stopLife := s.live(t, standin.Rates{Appear: 50, Update: 50, AuditEntries: 12, Records: 25})
	b := s.start(t)
	for range 2 {
		s.more(t, b, webhookSink)
		free := d.fill(t, b, s.state)
		for deadline := time.Now().Add(patience); !b.output.has(d.refusal.Error()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the disk was never full\n%s", b.output.end())
			}
		}
		free()
	}
	s.more(t, b, webhookSink)

	free := d.fill(t, b, s.state)
	time.Sleep(300 * time.Millisecond)
	b.kill(t, false)
	free()
	s.commit(t)
	b = s.start(t)
	s.more(t, b, webhookSink)
	stopLife()
	s.calm()
	s.await(t, b)
	b.terminate(t)
	s.judge(t, 1)
}

// disk is a folder for a state whose disk can be filled.
type disk struct {
	folder  string
	refusal error // the error of a write to the full disk
	// fill fills the disk. free undoes that.
	fill func(t *testing.T, b *bridge, state string) (free func())
}

// newDisk mounts a file system if that is permitted. Otherwise a limit of the size of files
// simulates it.
func newDisk(t *testing.T) disk {
	t.Helper()
	folder := t.TempDir()
	const size = 256 << 20
	err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if err != nil {
		t.Logf("no disk can be mounted (%v); a limit stands in for it", err)
		return disk{folder, syscall.EFBIG, func(t *testing.T, b *bridge, state string) func() { return b.limitFiles(t, state, 2) }}
	}
	t.Cleanup(func() {
		assert.NoError(t, syscall.Unmount(folder, 0))
	})
	resize := func(size uint64) error {
		return syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size))
	}
	fill := func(t *testing.T, _ *bridge, _ string) func() {
		for {
			var now syscall.Statfs_t
			require.NoError(t, syscall.Statfs(folder, &now))
			err := resize((now.Blocks - now.Bfree) * uint64(now.Bsize))
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EINVAL) { // more was written meanwhile
				t.Fatal(err)
			}
		}
		return func() {
			assert.NoError(t, resize(size))
		}
	}
	return disk{folder, syscall.ENOSPC, fill}
}
