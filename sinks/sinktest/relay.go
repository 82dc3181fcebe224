package sinktest

import (
	"net"
	"sync"
	"testing"
)

// Relay passes TCP connections on to a server and can break them, so that a
// test shows a sink a network at fault while the server stays well.
type Relay struct {
	listener net.Listener
	server   string
	done     sync.WaitGroup

	mu    sync.Mutex
	state relayState
	conns map[net.Conn]bool
}

type relayState int

const (
	passing relayState = iota
	down
	hanging
)

// NewRelay starts a relay on loopback to the server's address. It ends with the
// test.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: listener, server: server, conns: map[net.Conn]bool{}}
	r.done.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.set(down)
		r.done.Wait()
	})
	return r
}

// Addr is the relay's own address.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Down breaks the connections, and new ones as soon as they are made.
func (r *Relay) Down() { r.set(down) }

// Hang keeps connections and takes new ones, and loses every byte of them.
func (r *Relay) Hang() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = hanging
}

// Restore breaks the connections and passes new ones on.
func (r *Relay) Restore() { r.set(passing) }

func (r *Relay) set(state relayState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	for conn := range r.conns {
		conn.Close()
	}
	clear(r.conns)
}

// admit keeps a connection unless the relay is down.
func (r *Relay) admit(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == down {
		conn.Close()
		return false
	}
	r.conns[conn] = true
	return true
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.admit(client) {
			continue
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			client.Close()
			continue
		}
		if !r.admit(server) {
			client.Close()
			continue
		}
		r.done.Go(func() { r.pass(server, client) })
		r.done.Go(func() { r.pass(client, server) })
	}
}

func (r *Relay) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		// Under the lock, so that nothing passes once Hang has returned.
		r.mu.Lock()
		if r.state != hanging {
			_, err = to.Write(buffer[:n])
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}
