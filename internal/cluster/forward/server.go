package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Server calls a handler for the requests to a subject.
type Server struct {
	bus         bus
	http        http.Server
	slots       chan struct{} // receives for each connection
	conns       chan net.Conn // to be served
	unsubscribe func()

	ctx     context.Context // done when the server closes
	close   context.CancelFunc
	running sync.WaitGroup // connections and handlers

	mu     sync.Mutex // guards running.Add in accept against running.Wait
	closed bool
}

// Serve calls h for each request to a subject until Close is called. The caller owns nc,
// and closes it after the server. A client that reads or sends nothing of a body for a minute
// ends the request. The context of a request is cancelled when the client leaves or goes
// away. log receives panics of h.
func Serve(nc *nats.Conn, subject string, h http.Handler, log *slog.Logger) (*Server, error) {
	return serve(natsBus{nc}, subject, h, log)
}

func serve(b bus, subject string, h http.Handler, log *slog.Logger) (*Server, error) {
	s := &Server{bus: b, slots: make(chan struct{}, maxRequests), conns: make(chan net.Conn)}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: withStall(h), ReadHeaderTimeout: lostAfter, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.running.Add(1)
			case http.StateClosed: // the handler has returned
				s.running.Done()
			}
		},
	}
	var err error
	if s.unsubscribe, err = b.subscribe(subject, s.accept); err != nil {
		s.close()
		return nil, err
	}
	s.running.Go(func() { _ = s.http.Serve(listener{s}) }) // until Close
	return s, nil
}

// Close ends all requests and returns when their handlers have returned. Clients get
// ErrLost.
func (s *Server) Close() {
	s.unsubscribe()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	_ = s.http.Close() // of connections, which never fail to close
	s.running.Wait()
}

// accept takes a message to the server's subject. It does not block.
func (s *Server) accept(m message) {
	if !s.bus.isInbox(m.reply) {
		return
	}
	// If an answer is lost, the client notices by the silence.
	if len(m.data) != 2 || m.data[0] != kindOpen || m.data[1] != version {
		_ = s.bus.publish(m.reply, "", fmt.Appendf(nil, "%cthe server has version %d of the protocol", kindEnd, version))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		_ = s.bus.publish(m.reply, "", []byte{kindBusy})
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.run(m.reply)
	})
}

// run serves the connection to a client.
func (s *Server) run(client string) {
	c, unsubscribe, err := newConn(s.bus, client)
	if err != nil {
		return // the client notices by the silence
	}
	defer unsubscribe()
	defer context.AfterFunc(s.ctx, func() { c.end(lost("the server closed")) })()
	c.publish(kindAccept, nil)
	select {
	case s.conns <- c:
		c.run()
	case <-s.ctx.Done():
	}
}

// listener accepts the connections of a server.
type listener struct{ *Server }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (listener) Addr() net.Addr { return &net.UnixAddr{Name: "NATS"} }

// Close implements net.Listener.
func (l listener) Close() error {
	l.close()
	return nil
}

// withStall limits how long h waits for a part of a request's body, and lets it respond before
// it has read all.
func withStall(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex() // HTTP/1.1 supports it
		if r.Body != http.NoBody {
			_ = c.SetReadDeadline(time.Now().Add(stall)) // for what the server discards of it
			r.Body = stallingBody{r.Body, c}
		}
		h.ServeHTTP(w, r)
	})
}

// stallingBody is the body of a request. Its connection supports deadlines.
type stallingBody struct {
	io.ReadCloser
	c *http.ResponseController
}

// Read implements io.Reader.
func (b stallingBody) Read(p []byte) (int, error) {
	_ = b.c.SetReadDeadline(time.Now().Add(stall))
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF): // from now on the server waits for the client to leave
		_ = b.c.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = lost("nothing of the body arrived for " + stall.String())
	}
	return n, err
}
