package nats

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/natswire"
)

// conn is a connection. It does not reconnect: any error, and any message without an
// answer, ends it, so that no late answer can be taken for that to a newer message.
type conn struct {
	*natswire.Conn
	js     jetstream.JetStream
	inbox  string         // prefix of the subjects of acknowledgements, with a dot at the end
	acks   chan *nats.Msg // the messages of inbox
	next   uint64         // number of the next message
	faults chan error     // the first asynchronous error of the server
	closed chan struct{}  // closed once the connection is closed
}

// maxUntracked is the capacity for answers of other subscribers of the subject.
const maxUntracked = 8192

// Bounds of the messages from a server, in bytes. An acknowledgement has about 60; an
// answer of JetStream's API describes a stream.
const (
	maxAnswer = 256 << 10
	ackBytes  = 128 // of an unread acknowledgement, on average
)

// dial returns a new connection. If ctx is done before it returns, it fails. Its error
// may be the library's and contain secrets: errorOf removes them.
func (s *Sink) dial(ctx context.Context) (*conn, error) {
	o := s.options
	s.secrets = o.Secrets() // files may have changed
	timeout := o.Timeout / time.Duration(1+strings.Count(o.URL, ","))
	c := &conn{
		inbox:  nats.NewInbox() + ".",
		acks:   make(chan *nats.Msg),
		faults: make(chan error, 1),
		closed: make(chan struct{}),
	}
	options := []nats.Option{
		nats.Name("ndrbridge"), nats.Timeout(timeout), nats.NoReconnect(),
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
	wire := natswire.Options{TLS: o.TLS, Lease: o.Lease, MaxMessage: maxAnswer, Cut: true}
	if c.Conn, err = natswire.Connect(ctx, o.URL, wire, append(options, login...)...); err != nil {
		return nil, err
	}
	c.js, _ = jetstream.New(c.Conn.Conn) // without options, it has no error
	acks, err := c.Subscribe(c.inbox+"*", func(ack *nats.Msg) {
		select {
		case c.acks <- ack:
		case <-c.closed:
		}
	})
	if err == nil { // beyond them, the library drops acknowledgements and reports an error
		unread := o.MaxPending + maxUntracked
		err = acks.SetPendingLimits(unread, unread*ackBytes)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// SignIn returns the connection options with the credentials. It reads the files that o
// names. The error is a *failure.Error and contains no secret.
func (o Options) SignIn() ([]nats.Option, error) {
	var options []nats.Option
	switch {
	case o.CredsFile != "":
		creds, err := readCreds(o.CredsFile)
		if err != nil {
			return nil, failure.Errorf(failure.Halted, "creds_file: %w", err)
		}
		options = append(options, creds)
	case o.NkeyFile != "":
		nkey, err := readNkey(o.NkeyFile)
		if err != nil {
			return nil, failure.Errorf(failure.Halted, "nkey_file: %w", err)
		}
		options = append(options, nkey)
	case o.Token != "":
		options = append(options, nats.Token(o.Token))
	case o.Username != "":
		options = append(options, nats.UserInfo(o.Username, o.Password))
	}
	return options, nil
}

// reply returns the subject for the acknowledgement of a message.
func (c *conn) reply(number uint64) string {
	var buffer [64]byte
	return string(strconv.AppendUint(append(buffer[:0], c.inbox...), number, 10))
}

// number returns the number of the message that ack acknowledges.
func (c *conn) number(ack *nats.Msg) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(ack.Subject, c.inbox), 10, 64)
}

// reason returns err, or, if the connection was closed, the reason for that.
func (c *conn) reason(err error) error {
	if !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	// The library runs its callbacks in order: once this is closed, an earlier error of
	// the server has been received. It is more precise than the last error, which may
	// only be that the server closed the connection.
	<-c.closed
	select {
	case fault := <-c.faults:
		return fault
	default:
		return cmp.Or(c.LastError(), err)
	}
}

// end closes the connection without flushing its buffer and waits until its callbacks
// have returned.
func (c *conn) end() {
	c.Cut()
	c.Close()
	<-c.closed
}
