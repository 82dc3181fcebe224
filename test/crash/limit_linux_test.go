package crash

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// limitFiles lets a bridge write no file beyond the half of what its state has
// now, so that of one write some pages pass and others are refused, as by a disk
// that fills up. free takes the limit away; it dies with the bridge.
func (b *bridge) limitFiles(t *testing.T, state string) (free func()) {
	t.Helper()
	info, err := os.Stat(state)
	if err != nil {
		t.Fatal(err)
	}
	limit := syscall.Rlimit{Cur: uint64(info.Size() / 2), Max: ^uint64(0)}
	b.setLimit(t, limit)
	return func() { limit.Cur = limit.Max; b.setLimit(t, limit) }
}

func (b *bridge) setLimit(t *testing.T, limit syscall.Rlimit) {
	t.Helper()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64,
		uintptr(b.command.Process.Pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 && errno != syscall.ESRCH {
		t.Fatalf("limit the files of the bridge: %v", errno)
	}
}
