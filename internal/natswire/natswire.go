// Package natswire bounds what a NATS server, or whatever listens in its place, can
// make the client library hold. nats.go trusts the sizes that a server announces: it
// allocates a message of 2 GiB before the first byte of it arrives, a control line as
// long as it comes, and a compressed WebSocket frame as large as it becomes. It also
// connects to the servers that a server names, and sends them the credentials.
//
// Connect gives nats.go a connection that reads the protocol first. It hands on what is
// well formed and within Limits, and fails on anything else. It also does the TLS
// handshake, which comes behind the server's first line, since only plain text can be
// checked.
package natswire

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	nats "github.com/nats-io/nats.go"
)

// Options say where to connect.
type Options struct {
	// URL is the address of a server, or of several, separated by commas.
	URL string
	// TLS is how the connection is secured; nil: only if the server or the URL asks for
	// it.
	TLS *tls.Config
	// Timeout bounds the connection to one server until it takes the client in.
	Timeout time.Duration
	Limits  Limits
}

// Limits bound what a server may send.
type Limits struct {
	// Message bounds a message, its headers included, in bytes.
	Message int
	// Cut shortens a larger message to Message+1 bytes, without headers. If it is false,
	// a larger message ends the connection.
	Cut bool
	// Inbox is the start of subjects whose messages wait until the client takes them,
	// which it reports by Taken. They are shortened to InboxMessage+1 bytes, and more than
	// InboxBytes of them waiting end the connection. Empty: none.
	Inbox                    string
	InboxMessage, InboxBytes int
}

// Conn is a connection to a server. Its context ends the attempt to connect alone.
type Conn struct {
	*nats.Conn
	dialer *dialer
}

// Connect connects to the first of the servers that works, in any order. It never
// reconnects, and never connects to a server that a server names. The options must not
// set up TLS, dialing or reconnecting. When ctx ends before it returns, the attempt
// fails.
func Connect(ctx context.Context, o Options, options ...nats.Option) (*Conn, error) {
	servers, d, err := dialerOf(ctx, o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, d.cut)
	defer stop()
	made, err := nats.Connect(servers, append(options,
		nats.Timeout(o.Timeout), nats.NoReconnect(), nats.IgnoreDiscoveredServers(),
		nats.SetCustomDialer(d), nats.SkipHostLookup(), // the dialer does it
	)...)
	if err != nil {
		return nil, err
	}
	return &Conn{made, d}, nil
}

// Cut breaks the connection, and frees whoever waits for it.
func (c *Conn) Cut() { c.dialer.cut() }

// Secure reports whether the connection is secured by TLS.
func (c *Conn) Secure() bool { return c.dialer.made().secure }

// Taken says that the client took a message of Limits.Inbox.
func (c *Conn) Taken(m *nats.Msg) { c.dialer.made().waiting.Add(-int64(m.Size())) }

// dialer is a nats.CustomDialer that checks what its connections read, and can cut the
// last one.
type dialer struct {
	ctx       context.Context // of Connect
	o         Options
	secure    bool // TLS is a must
	websocket bool

	mu   sync.Mutex
	raw  net.Conn
	last *conn
}

// dialerOf returns a dialer, and the addresses as the library may know them. It must
// not know that a WebSocket is secured, since it would do that itself.
func dialerOf(ctx context.Context, o Options) (string, *dialer, error) {
	d := &dialer{ctx: ctx, o: o, secure: o.TLS != nil}
	var servers []string
	for server := range strings.SplitSeq(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil {
			return "", nil, errors.New("an address cannot be read") // its text may hold a password
		}
		port := "4222"
		switch u.Scheme {
		case "tls":
			d.secure, u.Scheme = true, "nats"
		case "ws":
			d.websocket, port = true, "80"
		case "wss":
			d.websocket, d.secure, u.Scheme, port = true, true, "ws", "443"
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), port)
		}
		servers = append(servers, u.String())
	}
	return strings.Join(servers, ","), d, nil
}

// SkipTLSHandshake says to the library that Dial does the handshake.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects and secures the connection, within the timeout and while the attempt to
// connect lasts.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	dial := net.Dialer{Timeout: d.o.Timeout}
	raw, err := dial.DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.raw = raw
	if d.ctx.Err() != nil {
		raw.Close() // cut may have come too early to do it
	}
	d.mu.Unlock()
	made, err := d.prepare(raw, address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = made
	return made, nil
}

// prepare reads the server's first line, and secures the connection.
func (d *dialer) prepare(raw net.Conn, address string) (*conn, error) {
	if err := raw.SetDeadline(time.Now().Add(d.o.Timeout)); err != nil {
		return nil, err
	}
	made := &conn{Conn: raw, src: raw, limits: d.o.Limits, buf: make([]byte, maxLine)}
	if d.websocket {
		if d.secure {
			if err := d.encrypt(made, address); err != nil {
				return nil, err
			}
		}
		made.socket = &websocket{}
		made.src = made.socket
		made.socket.r = made.Conn
		return made, raw.SetDeadline(time.Time{})
	}
	line, err := made.line()
	if err != nil {
		return nil, fmt.Errorf("wait for the server's first line: %w", err)
	}
	info, err := readInfo(line)
	if err != nil {
		return nil, err
	}
	made.out = append(made.out, line...)
	if d.secure && !info.TLSRequired && !info.TLSAvailable {
		return nil, nats.ErrSecureConnWanted
	}
	if d.secure || info.TLSRequired {
		if made.buffered() > 0 {
			return nil, fmt.Errorf("%w: the server sent more before the TLS handshake", ErrProtocol)
		}
		if err := d.encrypt(made, address); err != nil {
			return nil, err
		}
	}
	return made, raw.SetDeadline(time.Time{})
}

// encrypt does the TLS handshake.
func (d *dialer) encrypt(c *conn, address string) error {
	config := &tls.Config{}
	if d.o.TLS != nil {
		config = d.o.TLS.Clone()
	}
	host, _, _ := net.SplitHostPort(address)
	config.ServerName = cmp.Or(config.ServerName, host)
	secured := tls.Client(c.Conn, config)
	trace := httptrace.ContextClientTrace(d.ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	err := secured.HandshakeContext(d.ctx)
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(secured.ConnectionState(), err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", nats.ErrTLS, err)
	}
	c.Conn, c.src, c.secure = secured, secured, true
	return nil
}

// cut breaks the connection of now.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.raw != nil {
		d.raw.Close()
	}
}

// made returns the connection that was made last.
func (d *dialer) made() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// info is what matters here of what a server says of itself.
type info struct {
	TLSRequired  bool  `json:"tls_required"`
	TLSAvailable bool  `json:"tls_available"`
	MaxPayload   int64 `json:"max_payload"`
}

// readInfo reads an INFO line. A server that takes no message would have the library
// refuse every one of ours as too large.
func readInfo(line []byte) (i info, err error) {
	verb, rest, _ := strings.Cut(string(line), " ")
	if !strings.EqualFold(verb, "INFO") {
		return i, fmt.Errorf("%w: the first line is not INFO", ErrProtocol)
	}
	if err := json.Unmarshal([]byte(rest), &i); err != nil {
		return i, fmt.Errorf("%w: INFO is not JSON", ErrProtocol)
	}
	if i.MaxPayload <= 0 {
		return i, fmt.Errorf("%w: INFO has a max_payload of %d", ErrProtocol, i.MaxPayload)
	}
	return i, nil
}
