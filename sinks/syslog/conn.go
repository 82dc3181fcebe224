package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"ndrbridge/internal/failure"
)

// conn is a connection to a receiver. A goroutine reads from it until it ends, because only
// a read shows that the receiver has closed it or has sent an alert. Its owner calls end.
type conn struct {
	net.Conn              // written to: TLS, or below
	below    net.Conn     // raw under the lease
	raw      *net.TCPConn // of the kernel

	ended   chan struct{} // closed when the reading has ended
	reason  error         // of the end; read it after ended
	endedAt time.Time     // likewise
}

// errClosed is the end of a connection that the receiver has closed in order.
var errClosed = errors.New("the receiver closed the connection")

// errTimeout is the cause of a context that ended because of Options.Timeout.
var errTimeout = errors.New("timeout")

// open connects, and waits for a moment whether the receiver ends the connection at once: a
// receiver of TLS 1.3 refuses the client's certificate only after the handshake, and what
// forwards connections accepts them before it knows whether it can. The error has its class.
func (s *stream) open(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.Timeout, errTimeout)
	defer cancel()
	begun := time.Now()
	c, err := s.dial(ctx, s.o.TLS)
	if err != nil {
		return nil, s.openFailed(ctx, err)
	}
	if err := c.settle(ctx, time.Since(begun)); err != nil {
		c.end(true)
		return nil, s.openFailed(ctx, err)
	}
	return c, nil
}

// keepAlive ends a connection within 20 s of silence of the receiver's host, which may have lost
// its power: within tailAge, so that the messages before it are sent again.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial returns a connection whose end is watched. config is used for Network TLS.
func (s *stream) dial(ctx context.Context, config *tls.Config) (*conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	dialled, err := dialer.DialContext(ctx, "tcp", s.o.Address)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: dialled.(*net.TCPConn), below: s.o.Lease.Conn(dialled), ended: make(chan struct{})}
	c.Conn = c.below
	if s.o.Network == networkTLS {
		secured := tls.Client(c.below, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			c.below.Close()
			return nil, err
		}
		c.Conn = secured
	}
	go c.watch(s.o.Now)
	return c, nil
}

// watch reads until the connection ends. Whatever the server answers ends it, too.
func (c *conn) watch(now func() time.Time) {
	defer close(c.ended)
	var begin [64]byte
	n, err := c.Read(begin[:])
	switch {
	case n > 0:
		c.reason = failure.Errorf(failure.Halted, "the server answers %q, but a syslog receiver never answers (check address)", begin[:n])
	case errors.Is(err, io.EOF):
		c.reason = errClosed
	default:
		c.reason = err
	}
	c.endedAt = now()
}

// settle waits whether the receiver ends a new connection. A refusal takes as long to arrive
// as an answer of the network; opening took two or three of these.
func (c *conn) settle(ctx context.Context, opening time.Duration) error {
	const least, most = 100 * time.Millisecond, 2 * time.Second
	timer := time.NewTimer(min(least+opening, most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ended:
		return c.reason
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end closes the connection, and waits until its goroutine has returned. If abort is set, it
// is reset: the kernel discards its unsent bytes.
func (c *conn) end(abort bool) {
	if abort {
		_ = c.raw.SetLinger(0) // it fails only if the connection is closed
		c.below.Close()
	} else {
		c.Close()
	}
	<-c.ended
}

// interrupt ends reads and writes in progress.
func (c *conn) interrupt() { _ = c.raw.SetDeadline(time.Unix(1, 0)) }

// acknowledged waits until the receiver's system has acknowledged everything that was
// written, and returns an error if the connection does not stand then.
func (c *conn) acknowledged(ctx context.Context) error {
	const shortest, longest = 50 * time.Microsecond, 20 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := shortest; ; wait = min(2*wait, longest) {
		select {
		case <-timer.C:
		case <-c.ended:
			return c.reason
		case <-ctx.Done():
			return ctx.Err()
		}
		done, err := acknowledged(c.raw)
		if err != nil {
			return err
		}
		if done {
			return c.standing()
		}
		timer.Reset(wait)
	}
}

// standing returns the reason if the connection has ended.
func (c *conn) standing() error {
	select {
	case <-c.ended:
		return c.reason
	default:
		return nil
	}
}

// openFailed returns the error of a connection that was not opened, with its class.
func (s *stream) openFailed(ctx context.Context, err error) error {
	if e := failure.Explain(err, failure.Peer{Address: s.o.Address, Key: "address", TLS: s.o.TLS}); e != nil && ctx.Err() == nil {
		return e.Classified("syslog receiver " + s.o.Address)
	}
	return failed(ctx, s.o, err)
}

// failed returns the error of a batch with its class.
func failed(ctx context.Context, o Options, err error) error {
	known, classified := errors.AsType[*failure.Error](err)
	switch {
	case classified:
		return failure.Errorf(known.Class, "%s: %w", o.Address, err)
	case errors.Is(context.Cause(ctx), errTimeout):
		return failure.Unavailable(failure.ScopeTarget, "%s: no answer of the receiver's system within %v", o.Address, o.Timeout)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", o.Address, ctx.Err())
	}
	return failure.Unavailable(failure.ScopeTarget, "%s: %w", o.Address, err)
}
