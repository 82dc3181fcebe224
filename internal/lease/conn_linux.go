package lease

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxWrite bounds the bytes that one system call writes after a check.
const maxWrite = 64 << 10

// prepare makes the kernel stop sending when the lease ends, and makes c check the lease before
// each system call that writes rather than before each Write: a Write takes several calls if the
// peer is slow, and the process may be stopped in between.
func (c *conn) prepare(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed
	}
	c.stall = stall{raw: raw, since: c.lease.clock.Now()}
	c.extend(c.lease.term)
	c.write = func(p []byte) (int, error) { return c.writeChecked(raw, p) }
}

// stall records since when the peer may have acknowledged nothing.
type stall struct {
	raw   syscall.RawConn // nil: not a TCP connection
	mu    sync.Mutex
	acked uint64        // bytes that the peer had acknowledged
	since time.Duration // by the lease's clock
}

// maxStall limits how long the kernel tries to send, to about its own limit.
const maxStall = 15 * time.Minute

// extend makes the kernel give up data that is unacknowledged when left has passed, or a little
// later. It has to increase TCP_USER_TIMEOUT, which counts from the peer's last acknowledgement.
func (c *conn) extend(left time.Duration) {
	if c.stall.raw == nil {
		return
	}
	c.stall.mu.Lock()
	defer c.stall.mu.Unlock()
	_ = c.stall.raw.Control(func(fd uintptr) { // it fails only if the connection is closed
		now := c.lease.clock.Now()
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || info.Unacked == 0 && info.Notsent_bytes == 0 || info.Bytes_acked != c.stall.acked {
			c.stall.since = now
		}
		if err == nil {
			c.stall.acked = info.Bytes_acked
		}
		timeout := min(now-c.stall.since, maxStall) + left
		// An error concerns later data only, as the kernel would treat it without.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, max(1, int(timeout.Milliseconds())))
	})
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
