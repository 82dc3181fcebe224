package hostile

import (
	"net"
	"sync"
)

// Stage serves one address with one server after another, as if a peer changed its
// behaviour. It is safe for concurrent use.
type Stage struct {
	listener net.Listener

	mu  sync.Mutex
	act *act
}

// NewStage takes ownership of l. Until Next is called, it closes connections at once.
func NewStage(l net.Listener) *Stage {
	s := &Stage{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			now := s.act
			s.mu.Unlock()
			if now == nil || !now.add(c) {
				c.Close()
			}
		}
	}()
	return s
}

// Next closes the previous listener with its connections and returns one for all new
// connections.
func (s *Stage) Next() net.Listener {
	next := &act{address: s.listener.Addr(), arrived: make(chan net.Conn), done: make(chan struct{})}
	s.mu.Lock()
	before := s.act
	s.act = next
	s.mu.Unlock()
	if before != nil {
		before.Close()
	}
	return next
}

// Close closes the stage and all connections.
func (s *Stage) Close() {
	s.listener.Close()
	s.Next().Close()
}

// act is a listener that closes its connections when it is closed.
type act struct {
	address net.Addr
	arrived chan net.Conn
	done    chan struct{}

	mu    sync.Mutex
	over  bool
	conns []net.Conn
}

// add adds a connection. It returns false if a is closed.
func (a *act) add(c net.Conn) bool {
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return false
	}
	a.conns = append(a.conns, c)
	a.mu.Unlock()
	select {
	case a.arrived <- c:
		return true
	case <-a.done:
		return false
	}
}

// Accept implements net.Listener.
func (a *act) Accept() (net.Conn, error) {
	select {
	case c := <-a.arrived:
		return c, nil
	case <-a.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (a *act) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return net.ErrClosed
	}
	a.over = true
	close(a.done)
	for _, c := range a.conns {
		c.Close()
	}
	return nil
}

// Addr implements net.Listener.
func (a *act) Addr() net.Addr { return a.address }
