package syslog

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/leodido/go-syslog/v4/rfc5424"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/test/syslogread"
	"ndrbridge/transform"
)

// receiver is a syslog receiver for tests. It reads frames strictly, and parses messages with
// another implementation of RFC 5424.
type receiver struct {
	t        testing.TB
	framing  string
	config   *tls.Config // nil: no TLS
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	arrived  sync.Cond
	messages []received
	faults   []error
	opened   int               // connections so far
	conns    map[net.Conn]bool // the open ones
	paused   bool              // nothing is read
	moved    sync.Cond         // paused has changed
	after    func(received)    // called for each message; may close the connections
}

// received is a message with the number of its connection.
type received struct {
	conn int
	*rfc5424.SyslogMessage
}

// id returns the id in the structured data.
func (r received) id() string { return (*r.StructuredData)[structuredData]["id"] }

// newReceiver starts a receiver. config is nil for a receiver without TLS.
func newReceiver(t testing.TB, framing string, config *tls.Config) *receiver {
	t.Helper()
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &receiver{t: t, framing: framing, config: config, listener: listener, conns: map[net.Conn]bool{}}
	r.arrived.L, r.moved.L = &r.mu, &r.mu
	r.done.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.pause(false)
		r.closeConns(nil)
		r.done.Wait()
		for _, fault := range r.faults {
			t.Error(fault)
		}
	})
	return r
}

func (r *receiver) addr() string { return r.listener.Addr().String() }

func (r *receiver) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.paused {
			_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		r.opened++
		number := r.opened
		r.conns[c] = true
		r.mu.Unlock()
		r.done.Go(func() {
			defer r.closeConns(c)
			var from net.Conn = c
			if r.config != nil {
				from = tls.Server(c, r.config)
			}
			if err := r.read(number, bufio.NewReader(from)); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.faults = append(r.faults, err)
			}
		})
	}
}

// closeConns closes one connection, or all of them for nil.
func (r *receiver) closeConns(one net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		if one == nil || c == one {
			c.Close()
			delete(r.conns, c)
		}
	}
}

// pause makes the receiver read nothing until it is called with false.
func (r *receiver) pause(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = paused
	r.moved.Broadcast()
}

// read reads messages until the connection ends. It returns an error for something that is
// no message.
func (r *receiver) read(conn int, from *bufio.Reader) error {
	for {
		r.mu.Lock()
		for r.paused {
			r.moved.Wait()
		}
		r.mu.Unlock()
		text, err := r.frame(from)
		if errors.Is(err, syslogread.ErrFrame) {
			return err
		} else if err != nil {
			return nil // the connection ended, perhaps within a frame
		}
		if err := r.store(conn, text); err != nil {
			return err
		}
	}
}

func (r *receiver) frame(from *bufio.Reader) ([]byte, error) {
	if r.framing == newline {
		return syslogread.Newline(from)
	}
	return syslogread.OctetCounting(from)
}

// store parses and stores a message.
func (r *receiver) store(conn int, text []byte) error {
	begin := text[:min(len(text), 4096)] // the parser is slow
	parsed, err := syslogread.Parse(begin)
	if err != nil {
		return err
	}
	m := received{conn, parsed}
	if len(text) > len(begin) {
		whole := *m.Message + string(text[len(begin):])
		m.Message = &whole
	}
	r.mu.Lock()
	r.messages = append(r.messages, m)
	after := r.after
	r.arrived.Broadcast()
	r.mu.Unlock()
	if after != nil {
		after(m)
	}
	return nil
}

// all returns the messages so far.
func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

// ids returns the ids of the messages so far.
func (r *receiver) ids() []string {
	var ids []string
	for _, m := range r.all() {
		ids = append(ids, m.id())
	}
	return ids
}

// await waits until the messages fulfil a condition.
func (r *receiver) await(what string, enough func(messages []received) bool) {
	r.t.Helper()
	late := time.AfterFunc(10*time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrived.Broadcast()
	})
	defer late.Stop()
	begun := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !enough(r.messages) {
		require.True(r.t, time.Since(begun) <= 9*time.Second, what, "did not arrive", len(r.messages), "messages did")
		r.arrived.Wait()
	}
}

// awaitIDs waits until a message with each of the ids has arrived.
func (r *receiver) awaitIDs(want map[string]bool) {
	r.t.Helper()
	r.await("every event", func(messages []received) bool {
		missing := make(map[string]bool, len(want))
		for id := range want {
			missing[id] = true
		}
		for _, m := range messages {
			delete(missing, (*m.StructuredData)[structuredData]["source"]+" "+m.id())
		}
		return len(missing) == 0
	})
}

// events returns the events without repetitions on another connection: deliveries on one that
// ended are repeated.
func (r *receiver) events() ([]event.Event, error) {
	first := map[string]int{}
	var events []event.Event
	for _, m := range r.all() {
		if m.Message == nil {
			return nil, errors.New("a message without an event")
		}
		e, err := sinktest.Structured([]byte(*m.Message))
		if err != nil {
			return nil, err
		}
		key := e.Source() + " " + e.ID()
		if before, ok := first[key]; ok && before < m.conn {
			continue
		}
		first[key] = m.conn
		events = append(events, e)
	}
	return events, nil
}

// tracked is a sink with the ids of the events that it has delivered: the receiver may read
// them only later.
type tracked struct {
	sinks.Sink
	delivered map[string]bool
}

func (s *tracked) Send(ctx context.Context, events []transform.Event) error {
	err := s.Sink.Send(ctx, events)
	each, ok := errors.AsType[failure.EventErrors](err)
	for i, e := range events {
		if err == nil || ok && each[i] == nil {
			s.delivered[e.Source+" "+e.ID] = true
		}
	}
	return err
}

func poolOf(c tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return pool
}

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
				return &tracked{New(o), delivered}, nil
			},
			Received: func() ([]event.Event, error) {
				r.awaitIDs(delivered)
				return r.events()
			},
			Down: func() {
				r.awaitIDs(delivered) // the relay would lose the rest
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
	c := require.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
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
			if err := r.store(0, buffer[:n]); err != nil {
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
	require.NoError(r.t, err)
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
	s := New(o)
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
	s := require.Value(r.sink(Options{}))(t)
	defer s.Close()
	events := sinktest.Awkward()
	require.NoError(t, s.Send(t.Context(), events))
	got := r.all()
	assert.Equal(t, len(got), len(events), "messages of", "events")
}

// A system whose buffer of datagrams stays full takes no more of them.
func TestADatagramThatCannotBeSentEndsWithItsContext(t *testing.T) {
	near, far := net.Pipe() // which nobody reads
	defer far.Close()
	s := New(Options{Network: networkUDP, Address: "siem.example:514"})
	defer s.Close()
	s.transport.(*datagrams).dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, s.Send(ctx, sinktest.Events(1, 1, 200)), context.DeadlineExceeded)
}

func TestNoDatagramIsSentWithoutALease(t *testing.T) {
	const term = 6 * time.Second
	r := newDatagramReceiver(t)
	l, clock := leasetest.NewLease(term)
	s := require.Value(r.sink(Options{Lease: l}))(t)
	defer s.Close()
	events := sinktest.Events(3, 1, 200)
	require.NoError(t, s.Send(t.Context(), events[:1]))
	clock.Stop(term)
	assert.Error(t, s.Send(t.Context(), events[1:2]), "no error without a lease")
	l.Renew(clock.Now())
	require.NoError(t, s.Send(t.Context(), events[2:]))
	got := r.ids()
	assert.True(t, len(got) == 2 && got[1] == events[2].ID, "received", got)
}
