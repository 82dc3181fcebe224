package lease

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// maxWrite bounds the bytes that are written after one check of the lease. A datagram is smaller.
const maxWrite = 64 << 10

// Conn returns a connection that writes to c only while the lease is valid. A Write without
// a lease fails with ErrExpired, and the connection is reset. It is also reset when the
// lease ends: a Write that is blocked then fails, the peer gets no orderly end, and what
// it has not received of a request is never sent. Reads and writes then fail with ErrExpired, even
// after the lease is renewed. If this process is stopped when the lease ends, the kernel goes on
// sending what it has, and a Write that was blocked may write up to 64 KiB more when the process
// goes on. While the lease is renewed, the peer may take its time.
//
// The connection belongs below TLS. It closes c when it is closed. Reads do not need the
// lease. Concurrent Writes may be mixed.
func (l *Lease) Conn(c net.Conn) net.Conn {
	if l == nil {
		return c
	}
	leased := &conn{Conn: c, lease: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[leased] = struct{}{}
	return leased
}

// DialContext returns dial with its connections under the lease, as Conn returns them.
func (l *Lease) DialContext(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if l == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.Conn(c), nil
	}
}

// conn is a connection under a lease. It hides the ReadFrom of a TCP connection, which
// would write without a check.
type conn struct {
	net.Conn
	lease *Lease
	over  atomic.Bool // it was reset because the lease had ended
	once  sync.Once   // closes Conn
	err   error       // of closing
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := 0, c.lease.Check()
	for err == nil {
		var written int
		written, err = c.Conn.Write(p[n:min(len(p), n+maxWrite)])
		n += written
		if err == nil && n == len(p) {
			return n, nil
		}
		if err == nil {
			err = c.lease.Check()
		}
	}
	if c.lease.Check() != nil {
		c.reset()
	}
	if c.over.Load() {
		err = fmt.Errorf("write to %s: %w", c.RemoteAddr(), ErrExpired)
	}
	return n, err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.over.Load() {
		err = fmt.Errorf("read from %s: %w", c.RemoteAddr(), ErrExpired)
	}
	return n, err
}

// Close implements net.Conn. Without a lease it resets the connection.
func (c *conn) Close() error {
	c.lease.mu.Lock()
	delete(c.lease.conns, c)
	c.lease.mu.Unlock()
	if c.lease.Check() != nil {
		c.reset()
	}
	c.once.Do(func() { c.err = c.Conn.Close() })
	return c.err
}

// reset closes the connection because the lease has ended, and discards unsent data.
func (c *conn) reset() {
	c.once.Do(func() {
		c.over.Store(true)
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it fails only if the connection is closed
		}
		c.err = c.Conn.Close()
	})
}
