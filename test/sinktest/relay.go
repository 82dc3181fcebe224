package sinktest

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"ndrbridge/test/require"
)

// Relay forwards TCP connections to a server and can break them, which simulates a
// network failure while the server keeps running.
type Relay struct {
	addr   string
	server string
	done   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // refuses connections while down
	state    relayState
	moved    sync.Cond // state is no longer stalled
	conns    map[net.Conn]bool
}

type relayState int

const (
	forwarding relayState = iota
	down
	hanging
	stalled
)

// NewRelay starts a relay on the loopback interface to the server's address. It stops
// at the end of the test.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Relay{addr: listener.Addr().String(), server: server, listener: listener, conns: map[net.Conn]bool{}}
	r.moved.L = &r.mu
	// While the relay is down, this connection keeps the port from other processes.
	client, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	kept, err := listener.Accept()
	require.NoError(t, err)
	r.done.Go(func() { r.accept(listener) })
	t.Cleanup(func() {
		r.Down()
		r.done.Wait()
		client.Close()
		kept.Close()
	})
	return r
}

// Addr returns the relay's address.
func (r *Relay) Addr() string { return r.addr }

// Down closes the connections, and refuses new ones.
func (r *Relay) Down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener.Close()
	r.set(down)
}

// Hang keeps connections and accepts new ones, but discards all data.
func (r *Relay) Hang() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = hanging
}

// Stall keeps connections and accepts new ones, but forwards nothing until Resume: what is
// sent meanwhile fills the buffers.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = stalled
}

// Resume forwards everything that came since Stall.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = forwarding
	r.moved.Broadcast()
}

// Restore closes the connections and forwards new ones.
func (r *Relay) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == down {
		listener, err := net.Listen("tcp", r.addr)
		if err != nil {
			panic(fmt.Sprintf("the relay's port was taken: %v", err))
		}
		r.listener = listener
		r.done.Go(func() { r.accept(listener) })
	}
	r.set(forwarding)
}

// set closes the connections. It is called with mu held.
func (r *Relay) set(state relayState) {
	r.state = state
	r.moved.Broadcast()
	for conn := range r.conns {
		conn.Close()
	}
	clear(r.conns)
}

// admit registers a connection. If the relay is down, it closes the connection and
// reports false.
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

func (r *Relay) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		// A sender is to notice soon that nothing is read.
		_ = client.(*net.TCPConn).SetReadBuffer(256 << 10)
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
		r.done.Go(func() { r.forward(server, client) })
		r.done.Go(func() { r.forward(client, server) })
	}
}

// forward copies data until either connection fails.
func (r *Relay) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		// Write under the lock, so that no data is forwarded once Hang has returned.
		r.mu.Lock()
		for r.state == stalled {
			r.moved.Wait()
		}
		if r.state != hanging {
			_, err = to.Write(buffer[:n])
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}
