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
	"ndrbridge/sinks"
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
	conns    map[net.Conn]bool // those that are open
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		if err := r.take(conn, text); err != nil {
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

// take parses and stores a message.
func (r *receiver) take(conn int, text []byte) error {
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
		if time.Since(begun) > 9*time.Second {
			r.t.Fatalf("%s did not arrive; %d messages did", what, len(r.messages))
		}
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

// events returns the events, without those that were sent again on another connection: what
// was delivered on one that ended is repeated.
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
