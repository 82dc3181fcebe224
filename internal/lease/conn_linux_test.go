package lease_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheKernelGivesUpDataThatIsNotAcknowledgedForATerm(t *testing.T) {
	t.Parallel()
	near, _ := pair(t)
	l, _ := newLease()
	l.Conn(near)
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		timeout, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if err != nil || time.Duration(timeout)*time.Millisecond != term {
			t.Errorf("TCP_USER_TIMEOUT is %d ms: %v", timeout, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
