package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Proxy passes connections on to a server, but for what its plan has for them.
// All its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	end      context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	plan     Plan
	accepted uint64
	links    map[*link]struct{}
	struck   map[Kind]int
}

// New returns a proxy on loopback that passes connections on to the address
// target, in peace until Follow is called. The caller must Close it.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a proxy of %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, links: make(map[*link]struct{}), struck: make(map[Kind]int)}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Retarget passes the connections that are made from now on to another address:
// a server that was started again need not wait for its old port.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Follow gives the connections that are made from now on their results.
func (p *Proxy) Follow(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Calm ends all faults: connections that have one before them or behind them
// are reset, and those that are made from now on are left in peace.
func (p *Proxy) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = Plan{}
	for l := range p.links {
		if l.fault.kind != 0 {
			l.reset()
		}
	}
}

// Struck counts the faults that connections have met so far.
func (p *Proxy) Struck() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := make(map[Kind]int, len(p.struck))
	for kind, n := range p.struck {
		counts[kind] = n
	}
	return counts
}

// Close resets every connection and waits for what the proxy has running.
func (p *Proxy) Close() error {
	p.end()
	err := p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.reset()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // that client has gone already
		}
		l := p.admit(client.(*net.TCPConn))
		p.running.Go(func() {
			defer p.dismiss(l)
			l.run()
		})
	}
}

// admit makes the link of a connection. One that is made after Close began is
// reset here, since Close may have looked before.
func (p *Proxy) admit(client *net.TCPConn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &link{proxy: p, target: p.target, fault: p.plan.fault(p.accepted), client: client}
	p.accepted++
	p.links[l] = struct{}{}
	if p.ctx.Err() != nil {
		l.reset()
	}
	return l
}

func (p *Proxy) dismiss(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.links, l)
}
