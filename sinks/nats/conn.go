package nats

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/internal/natswire"
	"ndrbridge/sinks"
)

// conn is one connection. It is never fixed: whatever breaks it, or leaves a
// message without an answer, ends it, so that nothing that is late can be taken
// for an answer to something newer.
type conn struct {
	*natswire.Conn
	inbox  string         // where acknowledgements come to, with a dot at the end
	acks   chan *nats.Msg // its messages
	next   uint64         // number of the next message
	faults chan error     // what the server complains of
	closed chan struct{}  // closed after the connection
}

// maxUntracked is the space for answers of those who answer to messages that were
// not meant for them. Without space the library drops acknowledgements.
const maxUntracked = 8192

// Bounds of what a server may send. An acknowledgement has about 60 bytes; an answer of
// JetStream's API describes a stream.
const (
	maxAnswer = 256 << 10
	maxAck    = 2 << 10
	ackBytes  = 128 // on average, of those that wait
)

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
		inbox:  nats.NewInbox() + ".",
		acks:   make(chan *nats.Msg, o.MaxPending+maxUntracked),
		faults: make(chan error, 1),
		closed: make(chan struct{}),
	}
	options := []nats.Option{
		nats.Name(o.Name),
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
	wire := natswire.Options{URL: o.URL, TLS: o.TLS, Timeout: timeout, Limits: natswire.Limits{
		Message: maxAnswer, Inbox: c.inbox, InboxMessage: maxAck, InboxBytes: cap(c.acks) * ackBytes,
	}}
	if c.Conn, err = natswire.Connect(ctx, wire, append(options, login...)...); err != nil {
		return nil, err
	}
	if _, err := c.ChanSubscribe(c.inbox+"*", c.acks); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// SignIn returns the options of a connection that hold the credentials. It
// reads the files that o names. The error is a *sinks.Error, and holds no secret.
func (o Options) SignIn() ([]nats.Option, error) {
	var options []nats.Option
	switch {
	case o.CredsFile != "":
		creds, err := readCreds(o.CredsFile)
		if err != nil {
			return nil, sinks.Errorf(sinks.Halted, "creds_file: %w", err)
		}
		options = append(options, creds)
	case o.NkeyFile != "":
		nkey, err := readNkey(o.NkeyFile)
		if err != nil {
			return nil, sinks.Errorf(sinks.Halted, "nkey_file: %w", err)
		}
		options = append(options, nkey)
	case o.Token != "":
		options = append(options, nats.Token(o.Token))
	case o.Username != "":
		options = append(options, nats.UserInfo(o.Username, o.Password))
	}
	return options, nil
}

// reply is the subject that the acknowledgement of a message goes to.
func (c *conn) reply(number uint64) string {
	var space [64]byte
	return string(strconv.AppendUint(append(space[:0], c.inbox...), number, 10))
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
	c.Cut()
	c.Close()
	<-c.closed
}
