//go:build !linux

package lease

import "net"

// prepare leaves the connection as it is: the lease is checked before each Write.
func (c *conn) prepare(*net.TCPConn) {}
