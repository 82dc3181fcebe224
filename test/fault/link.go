package fault

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection through a proxy.
type link struct {
	proxy   *Proxy
	target  string
	fault   faultAt
	state   atomic.Int32 // the Kind injected; 0: none yet
	severed atomic.Bool  // a cut has begun since it exists: nothing passes any more

	mu     sync.Mutex
	broken bool
	client *net.TCPConn
	server *net.TCPConn // nil: not connected yet
}

// run forwards data until both directions have ended.
func (l *link) run() {
	if l.fault.kind == HalfOpen {
		l.inject()
		_, _ = io.Copy(io.Discard, l.client) // until the client gives up
		return
	}
	if l.severed.Load() {
		_, _ = io.Copy(io.Discard, l.client)
		return
	}
	server, err := new(net.Dialer).DialContext(l.proxy.ctx, "tcp", l.target)
	if err != nil || !l.connected(server.(*net.TCPConn)) {
		l.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(l.up)
	both.Go(l.down)
	both.Wait()
}

// connected stores the connection to the server. If the link was reset, it closes the
// connection and returns false.
func (l *link) connected(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// reset resets both connections, which unblocks their readers and writers.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			_ = c.SetLinger(0) // so that Close resets
			_ = c.Close()
		}
	}
}

// close closes both connections. Data already written is still sent.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (l *link) inject() {
	l.state.Store(int32(l.fault.kind))
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.proxy.struck[l.fault.kind]++
}

func (l *link) injected(k Kind) bool { return Kind(l.state.Load()) == k }

// up forwards data from the client to the server and injects the fault.
func (l *link) up() {
	piece := make([]byte, 32<<10)
	for forwarded := 0; ; {
		n, err := l.client.Read(piece)
		before, after := piece[:n], []byte(nil)
		if l.fault.kind != 0 && forwarded < l.fault.after && forwarded+n >= l.fault.after {
			before, after = piece[:l.fault.after-forwarded], piece[l.fault.after-forwarded:n]
		}
		if !l.pass(l.server, before) {
			return
		}
		if forwarded += len(before); after != nil {
			l.inject()
			held, ok := l.apply()
			if !ok || !l.pass(l.server, after) || !l.pass(l.server, held) {
				l.reset()
				return
			}
			forwarded += len(after) + len(held)
		}
		if err != nil {
			l.finish(l.server, err)
			return
		}
	}
}

// apply applies the fault to the client's direction when it is injected. It returns the
// data received meanwhile, and whether to continue.
func (l *link) apply() (held []byte, ok bool) {
	switch l.fault.kind {
	case Reset:
		return nil, false
	case Stall:
		// If the client gives up, the held data is discarded: the client may have sent it
		// again, and more, on another connection.
		_ = l.client.SetReadDeadline(time.Now().Add(l.fault.wait))
		held, err := io.ReadAll(l.client)
		_ = l.client.SetReadDeadline(time.Time{})
		return held, errors.Is(err, os.ErrDeadlineExceeded)
	}
	return nil, true
}

// down forwards data from the server to the client.
func (l *link) down() {
	piece := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(piece)
		switch {
		case l.injected(Mute):
			if err != nil {
				return // the client does not see that the server closed either
			}
			continue
		case l.injected(Lost) && n > 0:
			l.reset()
			return
		case !l.pass(l.client, piece[:n]):
			return
		case err != nil:
			l.finish(l.client, err)
			return
		}
	}
}

// pass writes data and reports whether to continue. If writing fails, it resets the link.
func (l *link) pass(to *net.TCPConn, piece []byte) bool {
	if len(piece) == 0 {
		return true
	}
	if l.injected(Delay) {
		select {
		case <-time.After(l.fault.wait):
		case <-l.proxy.ctx.Done():
			return false
		}
	}
	if l.severed.Load() {
		return true // it is lost
	}
	if _, err := to.Write(piece); err != nil {
		l.reset()
		return false
	}
	return true
}

// finish forwards the end of one direction: a close as a close, any other error as a
// reset. The end of a severed link is not forwarded.
func (l *link) finish(to *net.TCPConn, err error) {
	if l.severed.Load() {
		return
	}
	if errors.Is(err, io.EOF) && to.CloseWrite() == nil {
		return
	}
	l.reset()
}
