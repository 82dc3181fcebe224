package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/nats-io/nats.go"
)

// transport sends requests to the server of a subject. It is safe for concurrent use.
type transport struct {
	bus     bus
	subject string
	http    *http.Transport
}

// NewTransport returns a transport that sends requests to a subject over nc, which the
// caller owns. It starts nothing that outlasts a request by more than a moment: one ends when
// RoundTrip returns an error or the body of its response is closed.
func NewTransport(nc *nats.Conn, subject string) http.RoundTripper {
	return newTransport(natsBus{nc}, subject)
}

func newTransport(b bus, subject string) *transport {
	t := &transport{bus: b, subject: subject}
	t.http = &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
	}
	return t
}

// RoundTrip implements http.RoundTripper. Its error is ErrNobody, ErrBusy, ErrLost, the
// cause of the request's context, or the error of the request's body. The scheme of the URL must
// be http, and its host is ignored.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.http.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("ask over NATS subject %s: %w", t.subject, err)
	}
	return response, nil
}

// dial opens a connection to the server.
func (t *transport) dial(ctx context.Context) (net.Conn, error) {
	c, unsubscribe, err := newConn(t.bus, "")
	if err != nil {
		return nil, lost(err.Error())
	}
	answered, cancel := context.WithTimeoutCause(ctx, lostAfter, lost("nobody answers"))
	defer cancel()
	if err := t.bus.publish(t.subject, c.inbox, []byte{kindOpen, version}); err != nil {
		c.end(lost(err.Error()))
	}
	select {
	case <-c.accepted:
	case <-answered.Done():
		c.end(context.Cause(answered))
	case <-c.ctx.Done():
	}
	go func() {
		c.run()
		unsubscribe()
	}()
	if err := context.Cause(c.ctx); err != nil {
		return nil, err
	}
	return clientConn{c}, nil
}

// errLeft ends a connection that the client closes.
var errLeft = errors.New("the client has left")

// clientConn is a client's connection. Unlike a server's it ends at once when it is closed,
// whatever was written and not sent.
type clientConn struct{ *conn }

// Close implements net.Conn.
func (c clientConn) Close() error {
	c.end(errLeft)
	return c.Conn.Close()
}
