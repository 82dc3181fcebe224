package hostile

import (
	"net"
	"slices"
	"sync"
)

// Stage serves one address as one peer after another, as if a peer changed its behaviour. It
// is safe for concurrent use.
type Stage struct {
	mu    sync.Mutex
	serve func(net.Conn) // nil: connections are closed at once
	open  []net.Conn
}

// Next closes the connections of the previous peer and serves new ones with serve.
func (s *Stage) Next(serve func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = serve
	for _, c := range s.open {
		c.Close()
	}
	s.open = nil
}

// Serve serves a connection as the current peer, and closes it.
func (s *Stage) Serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	serve := s.serve
	s.open = append(s.open, c)
	s.mu.Unlock()
	if serve != nil {
		serve(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(open net.Conn) bool { return open == c })
}
