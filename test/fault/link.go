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

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	target string
	fault  faultAt
	state  atomic.Int32 // the Kind that has struck; 0: none yet

	mu     sync.Mutex
	broken bool
	client *net.TCPConn
	server *net.TCPConn // nil: there is none yet
}

// run passes bytes until both directions have ended.
func (l *link) run() {
	if l.fault.kind == HalfOpen {
		l.inject()
		_, _ = io.Copy(io.Discard, l.client) // until the client gives up
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

// connected keeps the connection to the server, unless the link was reset.
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

// reset breaks both connections, and frees whoever reads or writes them.
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

// close ends what is left of both connections. What was written still arrives.
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

func (l *link) suffers(k Kind) bool { return Kind(l.state.Load()) == k }

// up passes on what the client sends, and lets the fault strike.
func (l *link) up() {
	piece := make([]byte, 32<<10)
	for elapsed := 0; ; {
		n, err := l.client.Read(piece)
		before, after := piece[:n], []byte(nil)
		if strikes := l.fault.kind != 0 && elapsed < l.fault.after && elapsed+n >= l.fault.after; strikes {
			before, after = piece[:l.fault.after-elapsed], piece[l.fault.after-elapsed:n]
		}
		if !l.pass(l.server, before) {
			return
		}
		if elapsed += len(before); after != nil {
			l.inject()
			held, ok := l.suffer()
			if !ok || !l.pass(l.server, after) || !l.pass(l.server, held) {
				l.reset()
				return
			}
			elapsed += len(after) + len(held)
		}
		if err != nil {
			l.finish(l.server, err)
			return
		}
	}
}

// suffer is what a fault does to the client's direction when it strikes. It
// returns what came in the meantime, and whether to go on.
func (l *link) suffer() (held []byte, ok bool) {
	switch l.fault.kind {
	case Reset:
		return nil, false
	case Stall:
		// A client that has gone takes with it what was held: it may have sent it
		// again, and more, on another connection.
		_ = l.client.SetReadDeadline(time.Now().Add(l.fault.wait))
		held, err := io.ReadAll(l.client)
		_ = l.client.SetReadDeadline(time.Time{})
		return held, errors.Is(err, os.ErrDeadlineExceeded)
	}
	return nil, true
}

// down passes on what the server sends.
func (l *link) down() {
	piece := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(piece)
		switch {
		case l.suffers(Deaf):
			if err != nil {
				return // nor does the client hear that the server hung up
			}
			continue
		case l.suffers(Lost) && n > 0:
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

// pass writes a piece, and reports whether to go on. Where it cannot be written,
// the link is broken.
func (l *link) pass(to *net.TCPConn, piece []byte) bool {
	if len(piece) == 0 {
		return true
	}
	if l.suffers(Delay) {
		select {
		case <-time.After(l.fault.wait):
		case <-l.proxy.ctx.Done():
			return false
		}
	}
	if _, err := to.Write(piece); err != nil {
		l.reset()
		return false
	}
	return true
}

// finish passes the end of one direction on: a close as a close, anything else
// as a reset.
func (l *link) finish(to *net.TCPConn, err error) {
	if errors.Is(err, io.EOF) && to.CloseWrite() == nil {
		return
	}
	l.reset()
}
