// Package natswire bounds the memory that a NATS server, or another server in its place,
// can make nats.go allocate. nats.go trusts the sizes that a server announces: it allocates
// a message of 2 GiB before its first byte arrives, and a line of any length.
//
// Connect gives nats.go a connection that reads each line first. It also performs the TLS
// handshake, which follows the server's first line, because only plain text can be checked.
package natswire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/internal/lease"
)

// Options configure a connection.
type Options struct {
	TLS        *tls.Config  // nil: TLS is used only if the server or the URL requires it
	Lease      *lease.Lease // must be valid when something is sent; nil: it never ends
	MaxMessage int          // bounds the size of a message with its headers
	// Cut truncates a larger message to MaxMessage+1 bytes, without headers, instead of
	// ending the connection.
	Cut bool
}

// Conn is a connection to a server. The context of Connect does not end it.
type Conn struct {
	*nats.Conn
	*dialer
}

// Connect connects to one of the servers, separated by commas, and to no server that one of
// them advertises. It fails if ctx is done before it returns. options configure neither TLS
// nor dialing.
func Connect(ctx context.Context, servers string, o Options, options ...nats.Option) (*Conn, error) {
	d := &dialer{o: o}
	addresses := strings.Split(servers, ",")
	for i, address := range addresses {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil {
			return nil, errors.New("an address is not a valid URL") // its text may hold a password
		}
		d.secure = d.secure || o.TLS != nil || u.Scheme == "tls" || u.Scheme == "wss"
		d.websocket = d.websocket || u.Scheme == "ws" || u.Scheme == "wss"
		if u.Scheme == "wss" { // nats.go connects only by ws if the dialer performs the TLS handshake
			u.Scheme, u.Host = "ws", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
		}
		addresses[i] = u.String()
	}
	d.life, d.end = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, d.Cut)
	c, err := nats.Connect(strings.Join(addresses, ","), append(options,
		nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(d), nats.SkipHostLookup(), // the dialer looks up hosts
		func(o *nats.Options) error { d.timeout = o.Timeout; return nil })...)
	if !stop() && err == nil {
		c.Close()
		err = context.Cause(ctx)
	}
	if d.encrypted.Load() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		err = fmt.Errorf("%w: connection closed by remote after TLS handshake: %w", nats.ErrTLS, err) // as nats.go does
	}
	if err != nil {
		d.end()
		return nil, err
	}
	return &Conn{c, d}, nil
}

// dialer is a nats.CustomDialer.
type dialer struct {
	o                 Options
	timeout           time.Duration
	secure, websocket bool
	life              context.Context
	end               context.CancelFunc
	socket            atomic.Pointer[net.Conn] // the last one
	encrypted         atomic.Bool
}

// Cut closes the socket, which unblocks all pending calls. No other connection is made.
func (d *dialer) Cut() {
	d.end()
	if socket := d.socket.Load(); socket != nil {
		(*socket).Close()
	}
}

// Secure reports whether the connection uses TLS.
func (d *dialer) Secure() bool { return d.encrypted.Load() }

// SkipTLSHandshake reports true to nats.go: Dial performs the TLS handshake.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	socket, err := (&net.Dialer{Timeout: d.timeout}).DialContext(d.life, network, address)
	if err != nil {
		return nil, err
	}
	socket = d.o.Lease.Conn(socket)
	d.socket.Store(&socket)
	d.encrypted.Store(false)
	c := &conn{Conn: socket, r: bufio.NewReaderSize(socket, maxLine), o: d.o, upgrading: d.websocket}
	if err = d.life.Err(); err == nil { // otherwise Cut may have missed the socket
		err = errors.Join(socket.SetDeadline(time.Now().Add(d.timeout)), d.prepare(c, address)) // nats.go sets the next one
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return c, nil
}

// prepare reads the server's first line and performs the TLS handshake if it is required.
func (d *dialer) prepare(c *conn, address string) error {
	var info struct {
		TLSRequired  bool `json:"tls_required"`
		TLSAvailable bool `json:"tls_available"`
	}
	if !d.websocket {
		if first, err := c.r.Peek(1); err != nil {
			return fmt.Errorf("wait for the server's first line: %w", err)
		} else if first[0] != 'I' { // it may be HTTP or TLS, and not have an end
			return nats.ErrNoInfoReceived
		}
		if err := c.next(); err != nil {
			return err
		}
		c.out = bytes.Clone(c.out)
		if json.Unmarshal(bytes.TrimPrefix(c.out, []byte("INFO ")), &info) != nil {
			return fmt.Errorf("%w: INFO is not JSON", ErrProtocol)
		}
		if d.secure && !info.TLSRequired && !info.TLSAvailable {
			return nats.ErrSecureConnWanted
		}
	}
	if !d.secure && !info.TLSRequired {
		return nil
	}
	if c.r.Buffered() > 0 {
		return fmt.Errorf("%w: the server sent more before the TLS handshake", ErrProtocol)
	}
	config := &tls.Config{}
	if d.o.TLS != nil {
		config = d.o.TLS.Clone()
	}
	host, _, _ := net.SplitHostPort(address)
	config.ServerName = cmp.Or(config.ServerName, host)
	encrypted := tls.Client(c.Conn, config)
	trace := cmp.Or(httptrace.ContextClientTrace(d.life), &httptrace.ClientTrace{})
	if trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	err := encrypted.HandshakeContext(d.life)
	if trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(encrypted.ConnectionState(), err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", nats.ErrTLS, err)
	}
	c.Conn = encrypted
	c.r.Reset(encrypted)
	d.encrypted.Store(true)
	return nil
}
