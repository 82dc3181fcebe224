// Package natswire bounds the memory that a NATS server, or another server in its place,
// can make the client library allocate. nats.go trusts the sizes that a server announces:
// it allocates a message of 2 GiB before its first byte arrives, a control line of any
// length, and a compressed WebSocket frame of any decompressed size. It also connects to
// the servers that a server advertises and sends them the credentials.
//
// Connect gives nats.go a connection that checks the protocol first. The connection
// passes on data that is well formed and within Limits, and fails on anything else. It
// also performs the TLS handshake, which follows the server's first line, because only
// plain text can be checked.
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

	"ndrbridge/internal/lease"
)

// Options configure a connection.
type Options struct {
	// URL is the address of one or more servers, separated by commas.
	URL string
	// TLS requires TLS; nil: TLS is used only if the server or the URL requires it.
	TLS *tls.Config
	// Timeout bounds the connection attempt to one server.
	Timeout time.Duration
	Limits  Limits
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
}

// Limits bound the messages that a server may send.
type Limits struct {
	// Message bounds the size of a message with its headers, in bytes.
	Message int
	// Cut truncates a larger message to Message+1 bytes, without headers. If it is
	// false, a larger message ends the connection.
	Cut bool
	// Inbox is the prefix of subjects whose messages are queued until the client reads
	// them, which it reports with Taken. They are truncated to InboxMessage+1 bytes, and
	// more than InboxBytes in the queue end the connection. Empty: none.
	Inbox                    string
	InboxMessage, InboxBytes int
}

// Conn is a connection to a server. The context of Connect does not end it.
type Conn struct {
	*nats.Conn
	dialer *dialer
	end    context.CancelFunc // ends the dialer; nil: it is not used again
}

// Connect connects to one of the servers, which it tries in any order. The connection
// never reconnects, and no server that a server advertises is contacted. The options must
// not configure TLS, dialing or reconnecting. If ctx is done before Connect returns, the
// attempt fails.
func Connect(ctx context.Context, o Options, options ...nats.Option) (*Conn, error) {
	servers, d, err := newDialer(ctx, o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, d.cut)
	defer stop()
	c, err := nats.Connect(servers, append(options,
		nats.Timeout(o.Timeout), nats.NoReconnect(), nats.IgnoreDiscoveredServers(),
		nats.SetCustomDialer(d), nats.SkipHostLookup(), // the dialer looks up hosts
	)...)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, dialer: d}, nil
}

// Cut closes the socket, which unblocks all pending calls. No other connection is made.
func (c *Conn) Cut() {
	if c.end != nil {
		c.end()
	}
	c.dialer.cut()
}

// Secure reports whether the connection uses TLS.
func (c *Conn) Secure() bool { return c.dialer.current().secure }

// Taken reports that the client has read a message of Limits.Inbox.
func (c *Conn) Taken(m *nats.Msg) { c.dialer.current().waiting.Add(-int64(m.Size())) }

// dialer is a nats.CustomDialer whose connections check the protocol. It can cut the
// last one.
type dialer struct {
	ctx       context.Context // of Connect
	o         Options
	secure    bool // TLS is required
	websocket bool

	mu   sync.Mutex
	raw  net.Conn
	last *conn
}

// newDialer returns a dialer and the addresses for the library. They contain ws in place
// of wss, because the library would perform the TLS handshake itself.
func newDialer(ctx context.Context, o Options) (string, *dialer, error) {
	d := &dialer{ctx: ctx, o: o, secure: o.TLS != nil}
	var servers []string
	for server := range strings.SplitSeq(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil {
			return "", nil, errors.New("an address is not a valid URL") // its text may hold a password
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

// SkipTLSHandshake reports true: Dial performs the TLS handshake itself. nats.go asks it of
// a nats.CustomDialer.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects and performs the TLS handshake, within the timeout and until the context
// of Connect is done.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	dial := net.Dialer{Timeout: d.o.Timeout}
	raw, err := dial.DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	raw = d.o.Lease.Conn(raw)
	d.mu.Lock()
	d.raw = raw
	if d.ctx.Err() != nil {
		raw.Close() // cut may have run before raw was set
	}
	d.mu.Unlock()
	c, err := d.prepare(raw, address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = c
	return c, nil
}

// prepare reads the server's first line and performs the TLS handshake if required.
func (d *dialer) prepare(raw net.Conn, address string) (*conn, error) {
	if err := raw.SetDeadline(time.Now().Add(d.o.Timeout)); err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, src: raw, limits: d.o.Limits, buf: make([]byte, maxLine)}
	if d.websocket {
		if d.secure {
			if err := d.encrypt(c, address); err != nil {
				return nil, err
			}
		}
		c.socket = &websocket{}
		c.src = c.socket
		c.socket.r = c.Conn
		return c, raw.SetDeadline(time.Time{})
	}
	line, err := c.line()
	if err != nil {
		return nil, fmt.Errorf("wait for the server's first line: %w", err)
	}
	info, err := parseInfo(line)
	if err != nil {
		return nil, err
	}
	c.out = append(c.out, line...)
	if d.secure && !info.TLSRequired && !info.TLSAvailable {
		return nil, nats.ErrSecureConnWanted
	}
	if d.secure || info.TLSRequired {
		if c.buffered() > 0 {
			return nil, fmt.Errorf("%w: the server sent more before the TLS handshake", ErrProtocol)
		}
		if err := d.encrypt(c, address); err != nil {
			return nil, err
		}
	}
	return c, raw.SetDeadline(time.Time{})
}

// encrypt performs the TLS handshake and calls the hooks of the context's trace.
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

// cut closes the socket of the last connection.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.raw != nil {
		d.raw.Close()
	}
}

// current returns the last connection.
func (d *dialer) current() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// info holds the relevant fields of a server's INFO line.
type info struct {
	TLSRequired  bool  `json:"tls_required"`
	TLSAvailable bool  `json:"tls_available"`
	MaxPayload   int64 `json:"max_payload"`
}

// parseInfo parses an INFO line. It refuses a max_payload of 0, with which the library
// would refuse every message as too large.
func parseInfo(line []byte) (i info, err error) {
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
