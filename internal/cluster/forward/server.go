package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/nats-io/nats.go"
)

// errClosed ends the exchanges of a server that closes.
var errClosed = errors.New("the server closed")

// Server calls a handler for the requests to a subject.
type Server struct {
	bus     bus
	handler http.Handler
	log     *slog.Logger
	slots   chan struct{} // receives for each request

	ctx         context.Context
	end         context.CancelCauseFunc
	unsubscribe func()

	mu      sync.Mutex // guards running.Add against running.Wait
	closed  bool
	running sync.WaitGroup
}

// Serve calls h for each request to a subject until Close is called. The caller owns nc,
// and closes it after the server. The ResponseWriter supports Flush, by
// http.ResponseController too. It has no deadlines: a client that reads nothing for a minute
// ends the request. The context of a request is cancelled when the client leaves or goes
// away. log receives panics of h.
func Serve(nc *nats.Conn, subject string, h http.Handler, log *slog.Logger) (*Server, error) {
	return serve(natsBus{nc}, subject, h, log)
}

func serve(b bus, subject string, h http.Handler, log *slog.Logger) (*Server, error) {
	s := &Server{bus: b, handler: h, log: log, slots: make(chan struct{}, maxRequests)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	var err error
	s.unsubscribe, err = b.subscribe(subject, s.accept)
	if err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// Close ends all requests and returns when their handlers have returned. Clients get
// ErrLost.
func (s *Server) Close() {
	s.unsubscribe()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosed)
	s.running.Wait()
}

// accept takes a message to the server's subject. It does not block.
func (s *Server) accept(m message) {
	f, err := parseFrame(m.data)
	if !s.bus.isInbox(m.reply) || err == nil && (f.kind != frameOpen || f.number != 0) {
		return // nobody waits for a response
	}
	refuse := func(r reason, text string) {
		// If it is lost, the client notices by the silence.
		_ = s.bus.publish(m.reply, "", frame{frameAbort, 0, abortPayload(r, text)}.appendTo(nil))
	}
	if err != nil {
		refuse(reasonFailed, err.Error())
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
		refuse(reasonBusy, "")
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.run(m.reply, f.payload)
	})
}

// run carries out one request.
func (s *Server) run(client string, head []byte) {
	x := newExchange(s.ctx, s.bus, false)
	x.peer, x.received = client, 1
	unsubscribe, err := s.bus.subscribe(x.inbox, x.receive)
	if err != nil {
		x.end(err)
		x.abort(err)
		return
	}
	defer unsubscribe()
	defer x.running.Wait()
	x.running.Go(x.keepAlive)
	if err := x.send(frameAccept, nil); err != nil {
		return
	}
	if err := x.wait(x.started, lostAfter, "the client does not start the request"); err != nil {
		return
	}
	x.end(s.handle(x, head))
}

// handle calls the handler. Its result ends the exchange.
func (s *Server) handle(x *exchange, head []byte) error {
	r, err := parseRequest(head, requestBody{x})
	if err != nil {
		return err
	}
	w := &responseWriter{exchange: x, header: make(http.Header), withoutBody: r.Method == http.MethodHead}
	w.body = bufio.NewWriterSize(writerFunc(x.writeBody), x.chunk)
	if !s.call(w, r.WithContext(x.ctx)) {
		return errors.New("the handler aborted the response")
	}
	if err := w.FlushError(); err != nil {
		return err
	}
	if err := x.send(frameEnd, nil); err != nil {
		return err
	}
	return errDone
}

// call calls the handler. It reports whether the handler returned.
func (s *Server) call(w http.ResponseWriter, r *http.Request) (returned bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			s.log.Error("a handler panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	s.handler.ServeHTTP(w, r)
	return true
}

// requestBody is the body of a request.
type requestBody struct{ *exchange }

// Read implements io.Reader.
func (b requestBody) Read(p []byte) (int, error) { return b.readBody(p, stall) }

// Close implements io.Closer. The rest of the body is ignored.
func (requestBody) Close() error { return nil }

type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) {
	if err := f(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

var _ io.Writer = writerFunc(nil)

// responseWriter sends a response. Only the request's handler may use it.
type responseWriter struct {
	exchange    *exchange
	header      http.Header
	wrote       bool // the head
	withoutBody bool
	body        *bufio.Writer
	err         error // of sending the head
}

// Header implements http.ResponseWriter.
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. It ignores informational responses.
func (w *responseWriter) WriteHeader(status int) {
	if w.wrote || status/100 == 1 {
		return
	}
	w.wrote = true
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.withoutBody = true
	}
	head, err := responseHead(status, w.header)
	if err != nil {
		w.err = err
		w.exchange.end(err)
		return
	}
	w.err = w.exchange.send(frameHead, head)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.err != nil:
		return 0, w.err
	case w.withoutBody:
		return len(p), nil
	}
	return w.body.Write(p)
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError sends what was written, for http.ResponseController.
func (w *responseWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return w.err
	}
	return w.body.Flush()
}
