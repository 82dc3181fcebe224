// Package natswire bounds the memory that a NATS server, or another server in its place,
// can make nats.go allocate. nats.go trusts the sizes that a server announces: it allocates
// a message of 2 GiB before its first byte arrives, and a line of any length.
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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
)

// ErrProtocol is returned if a server violates the protocol or exceeds the bounds.
var ErrProtocol = errors.New("not what a NATS server may send")

const (
	maxLine    = 64 << 10 // INFO lists the servers of a cluster
	maxMessage = 65 << 20 // truncated ones included; servers allow at most 64 MiB
)

// Options configure a connection.
type Options struct {
	TLS        *tls.Config  // nil: TLS is used only if the server or the URL requires it
	Lease      *lease.Lease // must be valid when something is sent; nil: it never ends
	MaxMessage int          // bounds the size of a message with its headers
	// Dial makes each connection; nil: by TCP, to the address in the servers' URL.
	Dial func(context.Context) (net.Conn, error)
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
	d := &dialer{o: o, secure: o.TLS != nil || strings.Contains(servers, "tls://")}
	d.life, d.end = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, d.Cut)
	c, err := nats.Connect(servers, append(options,
		nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(d), nats.SkipHostLookup(), // the dialer looks up hosts
		func(o *nats.Options) error { d.timeout = o.Timeout; return nil })...)
	if !stop() && err == nil {
		c.Close()
		err = context.Cause(ctx)
	}
	if d.Secure() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
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
	o         Options
	secure    bool
	timeout   time.Duration
	life      context.Context
	end       context.CancelFunc
	socket    atomic.Pointer[net.Conn] // the last one
	encrypted atomic.Bool
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

// SkipTLSHandshake reports true to nats.go: only plain text can be guarded, so Dial performs
// the TLS handshake, which follows the server's first line.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer. A failed connection is a *failure.Explained.
func (d *dialer) Dial(network, address string) (_ net.Conn, err error) {
	defer func() {
		if e := failure.Explain(err, failure.Peer{Address: address, Key: "url", TLS: cmp.Or(d.o.TLS, &tls.Config{})}); e != nil {
			err = e
		}
	}()
	dial := d.o.Dial
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
	}
	ctx, cancel := context.WithTimeout(d.life, d.timeout)
	defer cancel()
	socket, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	socket = d.o.Lease.Conn(socket)
	d.socket.Store(&socket)
	d.encrypted.Store(false)
	g := &guarded{Conn: socket, r: bufio.NewReaderSize(socket, maxLine), o: d.o}
	if err = d.life.Err(); err == nil { // otherwise Cut may have missed the socket
		err = errors.Join(socket.SetDeadline(time.Now().Add(d.timeout)), d.secureIfRequired(g, address)) // nats.go sets the next one
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return g, nil
}

// secureIfRequired reads the server's first line and performs the TLS handshake if it is required.
func (d *dialer) secureIfRequired(g *guarded, address string) error {
	if first, err := g.r.Peek(1); err != nil {
		return fmt.Errorf("wait for the server's first line: %w", err)
	} else if first[0] != 'I' { // it may be HTTP or TLS, and not have an end
		return nats.ErrNoInfoReceived
	}
	if err := g.next(); err != nil {
		return err
	}
	var info struct {
		TLSRequired  bool `json:"tls_required"`
		TLSAvailable bool `json:"tls_available"`
	}
	switch err := json.Unmarshal(bytes.TrimPrefix(g.out, []byte("INFO ")), &info); {
	case err != nil:
		return fmt.Errorf("%w: INFO is not JSON", ErrProtocol)
	case d.secure && !info.TLSRequired && !info.TLSAvailable:
		return nats.ErrSecureConnWanted
	case !d.secure && !info.TLSRequired:
		return nil
	case g.r.Buffered() > 0:
		return fmt.Errorf("%w: the server sent more before the TLS handshake", ErrProtocol)
	}
	config := cmp.Or(d.o.TLS, &tls.Config{}).Clone()
	host, _, _ := net.SplitHostPort(address)
	config.ServerName = cmp.Or(config.ServerName, host)
	encrypted := tls.Client(g.Conn, config)
	if err := encrypted.HandshakeContext(d.life); err != nil {
		return fmt.Errorf("%w: %w", nats.ErrTLS, err)
	}
	g.out = bytes.Clone(g.out) // it belongs to g.r
	g.Conn = encrypted
	g.r.Reset(encrypted)
	d.encrypted.Store(true)
	return nil
}

// guarded is a connection that checks the server's lines before nats.go reads them. nats.go
// rejects malformed lines itself.
type guarded struct {
	net.Conn
	r    *bufio.Reader
	o    Options
	out  []byte // a line that Read returns; valid until r is read
	pass int    // bytes of the message that Read returns after it
	skip int    // bytes of the message to discard after these
	body bool   // the line break after a message follows
}

// Read implements net.Conn.
func (g *guarded) Read(p []byte) (n int, err error) {
	if len(g.out) == 0 && g.pass == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.out) > 0 {
		n = copy(p, g.out)
		g.out = g.out[n:]
		return n, nil
	}
	n, err = g.r.Read(p[:min(len(p), g.pass)])
	g.pass -= n
	return n, err
}

// next reads a line into out, and truncates the message that it announces if necessary.
func (g *guarded) next() error {
	if _, err := g.r.Discard(g.skip); err != nil {
		return err
	}
	line, err := g.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
	case err != nil:
		return err
	case len(line) < 2 || bytes.IndexByte(line, '\r') != len(line)-2: // nats.go reads another one after a CR
		return fmt.Errorf("%w: a line does not end with CR and LF", ErrProtocol)
	case g.body != (len(line) == 2):
		return fmt.Errorf("%w: an empty line, or a message that is not as long as announced", ErrProtocol)
	}
	g.out, g.skip, g.body = line, 0, false
	fields := bytes.Fields(line)
	last := len(fields) - 1
	if last < 0 || !bytes.EqualFold(fields[0], []byte("MSG")) && !bytes.EqualFold(fields[0], []byte("HMSG")) {
		return nil
	}
	size, err := strconv.ParseUint(string(fields[last]), 10, 31)
	if err != nil || size > maxMessage || int(size) > g.o.MaxMessage && !g.o.Cut {
		return fmt.Errorf("%w: a message of %.20q bytes; the limit is %d", ErrProtocol, fields[last], g.o.MaxMessage)
	}
	g.pass, g.body = int(size), true
	if g.pass > g.o.MaxMessage {
		g.pass = g.o.MaxMessage + 1
		g.skip = int(size) - g.pass
		fields[last] = strconv.AppendInt(nil, int64(g.pass), 10)
		if len(fields[0]) > len("MSG") {
			fields = slices.Delete(fields, last-1, last) // the size of the headers
			fields[0] = []byte("MSG")
		}
		g.out = append(bytes.Join(fields, []byte(" ")), "\r\n"...)
	}
	return nil
}
