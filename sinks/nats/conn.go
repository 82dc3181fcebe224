package nats

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/sinks"
)

// conn is one connection. It is never mended: whatever breaks it, or leaves a
// message without an answer, ends it, so that nothing that is late can be taken
// for an answer to something newer.
type conn struct {
	*nats.Conn
	dialer *dialer
	inbox  string         // where acknowledgements come to, with a dot at the end
	acks   chan *nats.Msg // its messages
	next   uint64         // number of the next message
	faults chan error     // what the server complains of
	closed chan struct{}  // closed after the connection
}

// strangers is the room for answers of those who answer to messages that were
// not meant for them. Without room the library drops acknowledgements.
const strangers = 8192

// connect makes a connection, and closes it again when ctx ends before it
// returns.
func (s *Sink) connect(ctx context.Context) (*conn, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, s.wrap(ctx, err)
	}
	return c, nil
}

// wrap is errorOf for errors that may be *sinks.Error already.
func (s *Sink) wrap(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*sinks.Error](err); ok {
		return e
	}
	return s.errorOf(ctx, err)
}

// dial is connect with the library's own errors, which may hold secrets.
func (s *Sink) dial(ctx context.Context) (*conn, error) {
	o := s.options
	s.secrets = o.Secrets() // files may have changed
	timeout := o.Timeout / time.Duration(1+strings.Count(o.URL, ","))
	c := &conn{
		dialer: &dialer{ctx: ctx, Dialer: net.Dialer{Timeout: timeout}},
		inbox:  nats.NewInbox() + ".",
		acks:   make(chan *nats.Msg, o.MaxPending+strangers),
		faults: make(chan error, 1),
		closed: make(chan struct{}),
	}
	options := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(timeout),
		nats.NoReconnect(),
		nats.SetCustomDialer(c.dialer),
		nats.SkipHostLookup(), // the dialer does it
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case c.faults <- err:
			default: // one is enough
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}
	login, err := o.SignIn()
	if err != nil {
		return nil, err
	}

	stop := context.AfterFunc(ctx, c.dialer.cut)
	defer stop()
	if c.Conn, err = nats.Connect(strings.ReplaceAll(o.URL, " ", ""), append(options, login...)...); err != nil {
		return nil, err
	}
	if _, err := c.ChanSubscribe(c.inbox+"*", c.acks); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// SignIn returns the options of a connection that hold the credentials and TLS. It
// reads the files that o names, but for creds_file, which the library reads for
// each connection. The error is a *sinks.Error, and holds no secret.
func (o Options) SignIn() ([]nats.Option, error) {
	var options []nats.Option
	switch {
	case o.CredsFile != "":
		options = append(options, nats.UserCredentials(o.CredsFile))
	case o.NkeyFile != "":
		nkey, err := nats.NkeyOptionFromSeed(o.NkeyFile)
		if err != nil {
			return nil, errNkeyFile(o.NkeyFile, err)
		}
		options = append(options, nkey)
	case o.Token != "":
		options = append(options, nats.Token(o.Token))
	case o.Username != "":
		options = append(options, nats.UserInfo(o.Username, o.Password))
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS))
	}
	return options, nil
}

// reply is the subject that the acknowledgement of a message goes to.
func (c *conn) reply(number uint64) string {
	var room [64]byte
	return string(strconv.AppendUint(append(room[:0], c.inbox...), number, 10))
}

// number is the message that an acknowledgement belongs to.
func (c *conn) number(ack *nats.Msg) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(ack.Subject, c.inbox), 10, 64)
}

// reason is err, but for a connection that closed by itself why it did.
func (c *conn) reason(err error) error {
	if !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	// The library's callbacks run one after the other: once this is closed, what
	// the server complained of before is there too. It says more than the last
	// error, which may be that the server hung up.
	<-c.closed
	select {
	case fault := <-c.faults:
		return fault
	default:
		return cmp.Or(c.LastError(), err)
	}
}

// end closes the connection without sending what is buffered, and waits until
// its callbacks have returned.
func (c *conn) end() {
	c.dialer.cut()
	c.Close()
	<-c.closed
}

// dialer is a nats.CustomDialer that can cut the connection that it made.
type dialer struct {
	net.Dialer
	ctx context.Context // of the Send that connects

	mu   sync.Mutex
	last net.Conn
}

// Dial connects within the address's share of the time, and while the Send lasts.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	made, err := d.DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = made
	if d.ctx.Err() != nil {
		made.Close() // cut may have come too early to do it
	}
	return made, nil
}

// cut breaks the connection, and frees whoever waits for it.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		d.last.Close()
	}
}
