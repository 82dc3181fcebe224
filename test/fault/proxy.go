package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
)

// Proxy forwards connections to a server and injects the faults of its plan. All its
// methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // is cancelled by Close
	end      context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	plan     Plan
	cut      bool
	accepted uint64
	links    map[*link]struct{}
	struck   map[Kind]int
}

// New returns a proxy on loopback that forwards connections to the address target, without
// faults until Follow is called. The caller must Close it.
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

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Retarget forwards new connections to another address, so that a restarted server need
// not listen on its old port.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Follow injects the faults of a plan into new connections.
func (p *Proxy) Follow(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Calm ends all faults: it resets connections with a past or future fault, and injects none
// into new ones.
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

// Cut loses all data of present and new connections in both directions until Join, as a
// network does that loses every packet: no end sees it.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for l := range p.links {
		l.severed.Store(true)
	}
}

// Join ends a cut. It resets the connections that the cut met, whose data is incomplete.
func (p *Proxy) Join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	for l := range p.links {
		if l.severed.Load() {
			l.reset()
		}
	}
}

// Injected counts the faults injected so far.
func (p *Proxy) Injected() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.struck)
}

// Close resets every connection and waits for the proxy's goroutines.
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
			continue // the client is gone already
		}
		l := p.admit(client.(*net.TCPConn))
		p.running.Go(func() {
			defer p.dismiss(l)
			l.run()
		})
	}
}

// admit creates the link of a connection. It resets a link created after Close has begun,
// which Close may have missed.
func (p *Proxy) admit(client *net.TCPConn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &link{proxy: p, target: p.target, fault: p.plan.fault(p.accepted), client: client}
	l.severed.Store(p.cut)
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
