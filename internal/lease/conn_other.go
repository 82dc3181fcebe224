//go:build !linux

package lease

import (
	"net"
	"time"
)

// prepare leaves the connection as it is: the lease is checked before each Write.
func (c *conn) prepare(*net.TCPConn) {}

// stall is empty: the kernel does not report it.
type stall struct{}

// extend leaves the kernel's timeout as it is.
func (c *conn) extend(time.Duration) {}
