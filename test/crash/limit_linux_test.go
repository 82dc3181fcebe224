package crash

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"ndrbridge/test/require"
)

// limitFiles limits the size of the bridge's files to a part of the size of its state, so that a
// write of the state succeeds for some pages and fails for others, as on a disk that fills
// up. free removes the limit, which ends with the bridge.
func (b *bridge) limitFiles(t *testing.T, state string, part int64) (free func()) {
	t.Helper()
	var info os.FileInfo
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var err error
		if info, err = os.Stat(state); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) { // the bridge may still be starting
			t.Fatal(err)
		}
	}
	limit := syscall.Rlimit{Cur: uint64(info.Size() / part), Max: ^uint64(0)}
	b.setLimit(t, limit)
	return func() { limit.Cur = limit.Max; b.setLimit(t, limit) }
}

func (b *bridge) setLimit(t *testing.T, limit syscall.Rlimit) {
	t.Helper()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64,
		uintptr(b.command.Process.Pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	require.True(t, errno == 0 || errno == syscall.ESRCH, "limit the files of the bridge", errno)
}
