package crash

import (
	"net"
	"sync"
	"time"
)

// listenUnaware listens for a broker that is to learn of a client's death by the
// heartbeats that stay out, as one does whose client's machine is gone. The broker
// of these tests counts the session of a member from the answer to its JoinGroup,
// but, unlike Kafka, not always where it knows by then that the connection is closed:
// such a member has its partitions for good.
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

// unawareConn does not tell for some time that its peer has closed it: for longer
// than a JoinGroup may wait to be answered.
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
		case <-time.After(patience):
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
