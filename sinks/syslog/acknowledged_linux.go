package syslog

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// acknowledged reports whether the peer's kernel has acknowledged all bytes that were written
// to c. It returns an error if either side has closed the connection: the peer may have ended
// without reading them.
func acknowledged(c *net.TCPConn) (bool, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	pending, state := 0, uint8(0)
	if control := raw.Control(func(fd uintptr) {
		if pending, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err != nil {
			err = os.NewSyscallError("ioctl", err)
			return
		}
		// In this order: if the connection ended before the answer above, it shows here.
		info, failed := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if failed != nil {
			err = os.NewSyscallError("getsockopt", failed)
			return
		}
		state = info.State
	}); control != nil {
		return false, control
	}
	if err == nil && state != unix.BPF_TCP_ESTABLISHED {
		err = errClosed
	}
	return err == nil && pending == 0, err
}
