package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/natswire"
	natssink "ndrbridge/sinks/nats"
)

// NATSOptions configure a NATS intake.
type NATSOptions struct {
	Options
	// Connect returns the servers, the TLS configuration and the credentials. It is called for
	// each connection, so that files are read again.
	Connect func() (natssink.Options, error)
	Stream  string // must exist
	Subject string
	// Durable is the name of the consumer, which is created if it does not exist.
	Durable string
}

// timeout limits a request to a server.
const timeout = 10 * time.Second

// ackWait is how long the server waits for an acknowledgement before it delivers a
// message again, and thus how long the successor of a crashed bridge waits for the
// message in flight. A message that takes longer is redelivered meanwhile and
// recognized by its key.
const ackWait = 5 * time.Second

// pullExpiry is how long a request for the next message is valid. A request that the
// server leaves unanswered, as may happen under load, delays messages no longer than
// that.
const pullExpiry = 2 * time.Second

// NATS receives commands through a durable JetStream consumer, one at a time: the next
// message is requested when the previous one is done, so that none overtakes a message
// that must be redelivered.
type NATS struct {
	connection
	o    NATSOptions
	hide func(error) error // returns an error without the credentials, which a server may repeat
}

// NewNATS returns an intake. It does not contact any server.
func NewNATS(o NATSOptions) *NATS { return &NATS{connection: connection{o: o.Options}, o: o} }

// Run receives until ctx is done.
func (n *NATS) Run(ctx context.Context) { n.run(ctx, n.session) }

// session receives over one connection until it breaks.
func (n *NATS) session(ctx context.Context) error {
	o, err := n.o.Connect()
	if err != nil {
		return err
	}
	options, err := o.SignIn()
	if err != nil {
		return err
	}
	n.hide = o.Secrets().HideError
	wire := natswire.Options{TLS: o.TLS, MaxMessage: maxMessage + maxHeaders, Cut: true}
	closed := make(chan struct{})
	conn, err := natswire.Connect(ctx, o.URL, wire, append(options, nats.Name(n.o.Durable),
		nats.Timeout(timeout), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))...)
	if err != nil {
		class := failure.Transient
		if errors.Is(err, nats.ErrAuthorization) {
			class = failure.Halted
		}
		return failure.Errorf(class, "connect to NATS: %w", n.hide(err))
	}
	// The library ignores ctx while it waits for the network.
	stop := context.AfterFunc(ctx, conn.Cut)
	defer func() {
		stop()
		conn.Cut() // otherwise a server that does not read blocks Close
		conn.Close()
		<-closed
	}()
	consumer, created, err := n.consumer(ctx, conn.Conn)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry))
	if err != nil {
		return fmt.Errorf("receive from the consumer %s: %w", n.o.Durable, n.hide(err))
	}
	defer messages.Stop()
	n.opened()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			// The connection's error says more than that the consumer was closed.
			return fmt.Errorf("receive from the consumer %s: %w", n.o.Durable, n.hide(cmp.Or(conn.LastError(), err)))
		}
		if err := n.receive(ctx, m, created); err != nil {
			return err
		}
	}
}

// consumer creates the consumer, or updates an existing one. It also returns the
// creation time of the stream.
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
		MaxAckPending: 1, // required for the order
		MaxDeliver:    -1,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, created, fmt.Errorf("the consumer %s of the stream %s: %w", n.o.Durable, n.o.Stream, n.hide(err))
	}
	return consumer, stream.CachedInfo().Created, n.streamError(err)
}

// streamError explains an error of a request about the stream; nil stays nil.
func (n *NATS) streamError(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return &failure.Error{Class: failure.Halted, Cause: "stream not found",
			Err: fmt.Errorf("there is no stream %s: create it with `nats stream add`, or correct tickets.nats.stream", n.o.Stream)}
	}
	if err != nil {
		return fmt.Errorf("the stream %s: %w", n.o.Stream, n.hide(err))
	}
	return nil
}

// receive stores a message and acknowledges it then. created is the creation
// time of its stream. It returns only errors of the connection.
func (n *NATS) receive(ctx context.Context, m jetstream.Msg, created time.Time) error {
	about, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the metadata of a message: %w", n.hide(err))
	}
	number := strconv.FormatUint(about.Sequence.Stream, 10)
	// A message without an id is identified by its position. The positions of a
	// recreated stream start at 1 again; the times distinguish its messages from
	// earlier ones. Keys made from ids begin with another prefix.
	key := fmt.Sprintf("nats-position/%s/%d/%s/%d", about.Stream, created.UnixNano(), number, about.Timestamp.UnixNano())
	if id := m.Headers().Get(nats.MsgIdHdr); id != "" {
		key = "nats/" + about.Stream + "/" + id
	}
	refused, err := n.store(ctx, key, m.Data(), Refusal{Message: "stream " + about.Stream + ", message " + number, Sent: about.Timestamp})
	if ctx.Err() != nil {
		return ctx.Err() // the message is redelivered
	}
	if err == nil {
		n.opened()
		waiting, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := m.DoubleAck(waiting); err != nil {
			return fmt.Errorf("acknowledge message %s: %w", number, n.hide(err))
		}
		n.acknowledged(refused)
		return nil
	}
	n.failed(true, fmt.Errorf("store message %s of the stream %s: %w", number, about.Stream, err))
	if err := m.NakWithDelay(n.o.RetryMax); err != nil {
		return fmt.Errorf("request redelivery of message %s: %w", number, n.hide(err))
	}
	return nil
}
