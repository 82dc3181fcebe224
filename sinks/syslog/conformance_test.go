package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

var structured = []transform.Mode{transform.Structured}

// TestConformance leaves out what syslog cannot tell: a receiver that reads nothing of what
// its system has acknowledged (Hang), and one that refuses an event (Reject).
func TestConformance(t *testing.T) {
	const maxBytes = 1 << 20
	target := func(t *testing.T, o Options, r *receiver) sinktest.Target {
		relay := sinktest.NewRelay(t, r.addr())
		delivered := map[string]bool{}
		o.Address, o.MaxBytes = relay.Addr(), maxBytes
		return sinktest.Target{
			Open: func(l *lease.Lease) (sinks.Sink, error) {
				o.Lease = l
				s, err := New(o)
				return &tracked{s, delivered}, err
			},
			Received: func() ([]event.Event, error) {
				r.awaitIDs(delivered)
				return r.events()
			},
			Down: func() {
				r.awaitIDs(delivered) // the relay would lose what it has not forwarded yet
				relay.Down()
			},
			Stall: relay.Stall, Resume: relay.Resume, Restore: relay.Restore,
			MaxBytes: maxBytes,
		}
	}
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		sinktest.Run(t, structured, func(t *testing.T, _ transform.Mode) sinktest.Target {
			return target(t, Options{Network: networkTCP}, newReceiver(t, octetCounting, nil))
		})
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		certificate, pool := sinktest.Certificate(t)
		other, _ := sinktest.Certificate(t)
		sinktest.Run(t, structured, func(t *testing.T, _ transform.Mode) sinktest.Target {
			var mu sync.Mutex
			shown := certificate
			show := func(c tls.Certificate) {
				mu.Lock()
				defer mu.Unlock()
				shown = c
			}
			to := target(t, Options{Network: networkTLS, TLS: &tls.Config{RootCAs: pool}}, newReceiver(t, octetCounting, &tls.Config{
				GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
					mu.Lock()
					defer mu.Unlock()
					return &shown, nil
				},
			}))
			restore := to.Restore
			to.Halt = func() { show(other) }
			to.Restore = func() {
				show(certificate)
				restore()
			}
			return to
		})
	})
	t.Run("udp", func(t *testing.T) {
		t.Parallel()
		sinktest.Run(t, structured, func(t *testing.T, _ transform.Mode) sinktest.Target {
			r := newDatagramReceiver(t)
			return sinktest.Target{
				Open:     func(*lease.Lease) (sinks.Sink, error) { return r.sink(Options{}) },
				Received: r.events,
				Down:     r.close, Restore: r.listen,
				MaxBytes: maxDatagram,
				Local:    true, // nothing ever waits: what happens without a lease has a test of its own
			}
		})
	})
}

// datagramReceiver is a receiver of datagrams.
type datagramReceiver struct {
	receiver
	address string

	socket net.PacketConn // nil: it is closed; guarded by mu
	reads  sync.WaitGroup
}

func newDatagramReceiver(t testing.TB) *datagramReceiver {
	t.Helper()
	r := &datagramReceiver{receiver: receiver{t: t}}
	r.arrived.L = &r.mu
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = c.LocalAddr().String()
	r.use(c)
	t.Cleanup(func() {
		r.close()
		for _, fault := range r.faults {
			t.Error(fault)
		}
	})
	return r
}

func (r *datagramReceiver) use(c net.PacketConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.socket = c
	r.reads.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, _, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			if err := r.take(0, buffer[:n]); err != nil {
				r.mu.Lock()
				r.faults = append(r.faults, err)
				r.mu.Unlock()
			}
		}
	})
}

// listen receives again after close.
func (r *datagramReceiver) listen() {
	c, err := net.ListenPacket("udp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.use(c)
}

// close makes the system refuse datagrams.
func (r *datagramReceiver) close() {
	r.mu.Lock()
	if r.socket != nil {
		r.socket.Close()
		r.socket = nil
	}
	r.mu.Unlock()
	r.reads.Wait()
}

// sink returns a sink that sends a datagram only when the one before has been received: the
// system drops what does not fit into its buffer.
func (r *datagramReceiver) sink(o Options) (*Sink, error) {
	o.Network, o.Address = networkUDP, r.address
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	d := s.transport.(*datagrams)
	dial := d.dial
	d.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &paced{c, r}, err
	}
	return s, nil
}

type paced struct {
	net.Conn
	r *datagramReceiver
}

func (p *paced) Write(b []byte) (int, error) {
	before := len(p.r.all())
	n, err := p.Conn.Write(b)
	p.r.mu.Lock()
	listening := p.r.socket != nil
	p.r.mu.Unlock()
	if err == nil && listening {
		p.r.await("a datagram", func(messages []received) bool { return len(messages) > before })
	}
	return n, err
}

func TestEachMessageIsADatagramOfItsOwn(t *testing.T) {
	r := newDatagramReceiver(t)
	s, err := r.sink(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events := sinktest.Awkward()
	if err := s.Send(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if got := r.all(); len(got) != len(events) {
		t.Errorf("%d messages of %d events", len(got), len(events))
	}
}

// A system whose buffer of datagrams stays full takes no more of them.
func TestADatagramThatCannotBeSentEndsWithItsContext(t *testing.T) {
	near, far := net.Pipe() // which nobody reads
	defer far.Close()
	s, err := New(Options{Network: networkUDP, Address: "siem.example:514"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.transport.(*datagrams).dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Send(ctx, sinktest.Events(1, 1, 200)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestNoDatagramIsSentWithoutALease(t *testing.T) {
	const term = 6 * time.Second
	r := newDatagramReceiver(t)
	l, clock := leasetest.NewLease(term)
	s, err := r.sink(Options{Lease: l})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events := sinktest.Events(3, 1, 200)
	if err := s.Send(t.Context(), events[:1]); err != nil {
		t.Fatal(err)
	}
	clock.Stop(term)
	if err := s.Send(t.Context(), events[1:2]); err == nil {
		t.Error("no error without a lease")
	}
	l.Renew(clock.Now())
	if err := s.Send(t.Context(), events[2:]); err != nil {
		t.Fatal(err)
	}
	if got := r.ids(); len(got) != 2 || got[1] != events[2].ID {
		t.Errorf("received %v", got)
	}
}
