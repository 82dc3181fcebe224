package lease

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxWrite bounds the bytes that one system call writes after a check.
const maxWrite = 64 << 10

// prepare sets TCP_USER_TIMEOUT, and makes c check the lease before each system call
// that writes rather than before each Write: a Write goes on in several calls if the
// peer is slow, and the process may be stopped in the middle.
func (c *conn) prepare(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		// An error concerns later data only, as the kernel would treat it without.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(c.lease.term.Milliseconds()))
	})
	c.write = func(p []byte) (int, error) { return c.writeChecked(raw, p) }
}

// writeChecked writes p to raw. Its errors are like those of net.TCPConn.Write, and
// ErrExpired.
func (c *conn) writeChecked(raw syscall.RawConn, p []byte) (n int, err error) {
	waiting := raw.Write(func(fd uintptr) (done bool) {
		for n < len(p) {
			if err = c.lease.Check(); err != nil {
				return true
			}
			written, failed := unix.Write(int(fd), p[n:min(len(p), n+maxWrite)])
			switch {
			case failed == nil:
				n += written
			case failed == unix.EAGAIN:
				return false // until it is writable
			case failed != unix.EINTR:
				err = c.failed(os.NewSyscallError("write", failed))
				return true
			}
		}
		return true
	})
	if waiting != nil {
		if op, ok := errors.AsType[*net.OpError](waiting); ok { // Op is raw-write
			waiting = op.Err
		}
		return n, c.failed(waiting)
	}
	return n, err
}

// failed returns the error of a write as package net has it.
func (c *conn) failed(err error) error {
	return &net.OpError{Op: "write", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
