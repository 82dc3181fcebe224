package intake

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/natswire"
)

// NATSOptions say where commands are published.
type NATSOptions struct {
	Options
	// URL is the address of a server, or of several by comma.
	URL string
	// Connect returns TLS, nil if there is none, and credentials. It is called for each
	// connection, so that files are read again.
	Connect func() (*tls.Config, []nats.Option, error)
	Stream  string // must exist
	Subject string
	// Durable is the consumer's name. It is made where it is missing.
	Durable string
}

// timeout bounds a request to a server.
const timeout = 10 * time.Second

// ackWait is how long the server waits for an acknowledgement before it delivers a
// message again, and so how long the successor of a bridge that crashed waits for
// the message that it had in hand. One that takes longer comes again meanwhile, with
// its key.
const ackWait = 5 * time.Second

// pullExpiry is how long a request for the next message stands. One that the server
// does not answer, as under load it may happen, holds nothing up for longer.
const pullExpiry = 2 * time.Second

// NATS receives commands by a durable JetStream consumer, one at a time: the next
// message comes when the one before it is dealt with, so that none is overtaken by
// another while it has to come again.
type NATS struct {
	connection
	o NATSOptions
}

// NewNATS returns an intake that has not contacted any server.
func NewNATS(o NATSOptions) *NATS { return &NATS{connection: connection{o: o.Options}, o: o} }

// Run receives until ctx ends.
func (n *NATS) Run(ctx context.Context) { n.run(ctx, n.session) }

// session receives over one connection, until it breaks.
func (n *NATS) session(ctx context.Context) error {
	secure, options, err := n.o.Connect()
	if err != nil {
		return err
	}
	wire := natswire.Options{URL: n.o.URL, TLS: secure, Timeout: timeout, Limits: natswire.Limits{Message: maxMessage + maxHeaders, Cut: true}}
	closed := make(chan struct{})
	conn, err := natswire.Connect(ctx, wire, append(options, nats.Name(n.o.Durable), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))...)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	// The library does not know ctx where it waits for the network.
	stop := context.AfterFunc(ctx, conn.Cut)
	defer func() {
		stop()
		conn.Cut() // a server that does not read would keep Close waiting
		conn.Close()
		<-closed
	}()
	consumer, created, err := n.consumer(ctx, conn.Conn)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry))
	if err != nil {
		return fmt.Errorf("receive from the consumer %s: %w", n.o.Durable, err)
	}
	defer messages.Stop()
	n.opened()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			// Why the connection broke says more than that the consumer was closed.
			return fmt.Errorf("receive from the consumer %s: %w", n.o.Durable, cmp.Or(conn.LastError(), err))
		}
		if err := n.receive(ctx, m, created); err != nil {
			return err
		}
	}
}

// consumer makes the consumer, or sets an existing one to what is needed. It returns
// when the stream was created, too.
func (n *NATS) consumer(ctx context.Context, conn *nats.Conn) (consumer jetstream.Consumer, created time.Time, err error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, created, err
	}
	stream, err := js.Stream(ctx, n.o.Stream)
	if err != nil {
		return nil, created, n.streamError(err)
	}
	consumer, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: n.o.Durable, FilterSubject: n.o.Subject,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: 1, // the order depends on it
		MaxDeliver:    -1,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, created, fmt.Errorf("the consumer %s of the stream %s: %w", n.o.Durable, n.o.Stream, err)
	}
	return consumer, stream.CachedInfo().Created, n.streamError(err)
}

// streamError explains an error of a request about the stream; nil stays nil.
func (n *NATS) streamError(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no stream %s: make it with `nats stream add`, or see tickets.nats.stream", n.o.Stream)
	}
	if err != nil {
		return fmt.Errorf("the stream %s: %w", n.o.Stream, err)
	}
	return nil
}

// receive takes a message of the stream that was created then, and acknowledges it once
// it is dealt with. The error is one of the connection.
func (n *NATS) receive(ctx context.Context, m jetstream.Msg, created time.Time) error {
	about, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read what the stream says of a message: %w", err)
	}
	number := strconv.FormatUint(about.Sequence.Stream, 10)
	// Without an id, the position is the key. A stream that was made again counts from 1
	// again: the times tell its messages from those of the first one. No id gives a key
	// of this form, which begins otherwise.
	key := fmt.Sprintf("nats-position/%s/%d/%s/%d", about.Stream, created.UnixNano(), number, about.Timestamp.UnixNano())
	if id := m.Headers().Get(nats.MsgIdHdr); id != "" {
		key = "nats/" + about.Stream + "/" + id
	}
	v, err := n.take(ctx, message{key: key, at: "stream " + about.Stream + ", message " + number, sent: about.Timestamp, data: m.Data()})
	if ctx.Err() != nil {
		return ctx.Err() // it comes again
	}
	if err == nil {
		n.opened()
		waiting, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := m.DoubleAck(waiting); err != nil {
			return fmt.Errorf("acknowledge message %s: %w", number, err)
		}
		n.acknowledged(v)
		return nil
	}
	n.failed(true, fmt.Errorf("store message %s of the stream %s: %w", number, about.Stream, err))
	if err := m.NakWithDelay(n.o.RetryMax); err != nil {
		return fmt.Errorf("ask for message %s again: %w", number, err)
	}
	return nil
}
