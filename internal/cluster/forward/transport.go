package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/nats-io/nats.go"
)

// transport sends requests to the server of a subject. It is safe for concurrent use.
type transport struct {
	bus     bus
	subject string
	slots   chan struct{} // receives for each request
}

// NewTransport returns a transport that sends requests to a subject over nc, which the
// caller owns. It starts nothing that outlasts a request: one ends when RoundTrip returns an
// error or the body of its response is closed. Both wait for a Read of the request's body,
// which Close of that body must end.
func NewTransport(nc *nats.Conn, subject string) http.RoundTripper {
	return newTransport(natsBus{nc}, subject)
}

func newTransport(b bus, subject string) *transport {
	return &transport{bus: b, subject: subject, slots: make(chan struct{}, maxRequests)}
}

// RoundTrip implements http.RoundTripper. Its error is ErrNobody, ErrBusy, ErrLost, the
// cause of the request's context, or the error of the request's body. Scheme and user of
// the URL are ignored.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.roundTrip(r)
	if err != nil && hasBody(r) {
		_ = r.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("ask over NATS subject %s: %w", t.subject, err)
	}
	return response, nil
}

func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	head, err := requestHead(r)
	if err != nil {
		return nil, err
	}
	select {
	case t.slots <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	x := newExchange(r.Context(), t.bus, true)
	unsubscribe, err := t.bus.subscribe(x.inbox, x.receive)
	if err != nil {
		x.end(err)
		<-t.slots
		return nil, err
	}
	x.running.Go(func() {
		x.keepAlive()
		unsubscribe()
		if hasBody(r) {
			_ = r.Body.Close() // ends a Read of upload
		}
		<-t.slots
	})
	response, err := t.exchange(x, r, head)
	if err != nil {
		x.end(err)
		x.running.Wait()
		return nil, context.Cause(x.ctx) // the first error
	}
	return response, nil
}

// exchange sends a request and returns its response.
func (t *transport) exchange(x *exchange, r *http.Request, head []byte) (*http.Response, error) {
	if err := x.publish(t.subject, frameOpen, head); err != nil {
		return nil, lost(err.Error())
	}
	if err := x.wait(x.accepted, 0, ""); err != nil {
		return nil, err
	}
	if err := x.send(frameStart, nil); err != nil {
		return nil, err
	}
	if hasBody(r) {
		x.running.Go(func() { x.upload(r.Body) })
	}
	if err := x.wait(x.headed, 0, ""); err != nil {
		return nil, err
	}
	x.mu.Lock()
	head = x.head
	x.mu.Unlock()
	return parseResponse(head, r, responseBody{x})
}

// upload sends the body of a request until its end or that of the exchange.
func (x *exchange) upload(body io.ReadCloser) {
	defer body.Close()
	for b := make([]byte, x.chunk); ; {
		n, err := body.Read(b)
		if x.writeBody(b[:n]) != nil {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = x.send(frameEnd, nil) // a failure ends the exchange
			return
		case err != nil:
			x.end(fmt.Errorf("read the request's body: %w", err))
			return
		}
	}
}

// responseBody is the body of a response.
type responseBody struct{ *exchange }

// Read implements io.Reader.
func (b responseBody) Read(p []byte) (int, error) {
	n, err := b.readBody(p, 0)
	if errors.Is(err, io.EOF) {
		b.end(errDone)
	}
	return n, err
}

// Close ends the exchange and returns when nothing of it runs any more. Unless the response
// is complete, the context of the server's handler is cancelled.
func (b responseBody) Close() error {
	b.end(errLeftEarly)
	b.running.Wait()
	return nil
}

// errLeftEarly ends an exchange whose response the client closes.
var errLeftEarly = errors.New("the response was closed before its end")
