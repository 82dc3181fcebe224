package crash

import (
	"net"
	"sync"
	"time"
)

// listenUnaware returns a listener whose broker detects a client's death by missing
// heartbeats, as if the client's machine had failed. The broker of these tests measures a
// member's session from the response to its JoinGroup but, unlike Kafka, not always if the
// connection is closed by then: such a member keeps its partitions forever.
func listenUnaware(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return unawareListener{l}, nil
}

type unawareListener struct{ net.Listener }

// Accept implements net.Listener.
func (l unawareListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &unawareConn{Conn: c, closed: make(chan struct{})}, nil
}

// unaware is for how long a connection hides that its peer has closed it: for longer than the
// response to a JoinGroup may take.
const unaware = time.Minute

// unawareConn hides for some time that its peer has closed it.
type unawareConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *unawareConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		select {
		case <-time.After(unaware):
		case <-c.closed:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *unawareConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
