//go:build !linux

package lease

import (
	"net"
	"time"
)

// prepare leaves the connection as it is: the lease is checked before each Write.
func (c *conn) prepare(*net.TCPConn) {}

// stall is not known.
type stall struct{}

func (c *conn) extend(time.Duration) {}
