package nats

import (
	"context"
	"errors"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Send publishes the events. With a stream it returns nil once the stream has
// acknowledged every one of them. Each carries the sink's name, its source and its id
// together as Nats-Msg-Id, so that the stream drops what this sink had stored there
// within the duplicate window, and nothing of another sink. Two events with one partition
// key are never in flight at once. An event that the server takes for too large
// is rejected alone; after any other failure nothing more is published in this
// Send.
//
// With core NATS it returns nil once a server has taken all events.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.conn != nil && s.conn.IsClosed() {
		s.drop()
	}
	if s.conn == nil {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	// The library does not know ctx where it waits for the network.
	stop := context.AfterFunc(ctx, s.conn.Cut)
	defer stop()

	b := &publishBatch{sink: s, conn: s.conn, events: events, errs: make(sinks.EventErrors, len(events))}
	var err error
	if s.options.Stream == "" {
		err = b.publish(ctx)
	} else {
		err = b.store(ctx)
	}
	if err != nil {
		b.fail(err)
		s.drop()
	}
	for _, err := range b.errs {
		if err != nil {
			return b.errs
		}
	}
	return nil
}

// open connects.
func (s *Sink) open(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if s.options.CreateStream {
		if err := s.prepareStream(ctx, c); err != nil {
			c.end()
			return err
		}
	}
	s.conn = c
	return nil
}

// drop ends the connection: the next Send makes a new one.
func (s *Sink) drop() {
	s.conn.end()
	s.conn = nil
}

// Close ends the connection and waits for its callbacks. A second call does
// nothing.
func (s *Sink) Close() error {
	if s.conn != nil {
		s.drop()
	}
	return nil
}

// publishBatch is the events of one Send.
type publishBatch struct {
	sink   *Sink
	conn   *conn
	events []transform.Event
	errs   sinks.EventErrors

	published int             // events before this were published or rejected
	answered  int             // of them, those whose result is known
	pending   []bool          // by event: published, and not acknowledged
	keys      map[string]bool // partition keys of those
	patience  *time.Timer     // nil: nothing was waited for yet
}

// publish is core NATS: the server answers a PING behind the events, so that it
// has read them all, or has complained before.
func (b *publishBatch) publish(ctx context.Context) error {
	for b.published < len(b.events) {
		if err := b.put(ctx, ""); err != nil {
			return err
		}
	}
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return b.sink.errorOf(ctx, b.conn.reason(err))
	}
	if err := b.conn.LastError(); err != nil {
		return b.sink.errorOf(ctx, err)
	}
	return nil
}

// store is JetStream: every message is acknowledged for itself.
func (b *publishBatch) store(ctx context.Context) error {
	first := b.conn.next
	b.conn.next += uint64(len(b.events))
	b.pending = make([]bool, len(b.events))
	b.keys = make(map[string]bool, min(len(b.events), b.sink.options.MaxPending))
	for b.answered < len(b.events) {
		full := b.published == len(b.events) || len(b.keys) == b.sink.options.MaxPending
		if full || b.keys[b.events[b.published].PartitionKey] {
			if err := b.await(ctx, first); err != nil {
				return err
			}
			continue
		}
		i := b.published
		if err := b.put(ctx, b.conn.reply(first+uint64(i))); err != nil {
			return err
		}
		if b.errs[i] != nil { // rejected
			b.answered++
			continue
		}
		b.pending[i] = true
		b.keys[b.events[i].PartitionKey] = true
	}
	return nil
}

// put publishes the next event, or rejects it.
func (b *publishBatch) put(ctx context.Context, reply string) error {
	i := b.published
	e := b.events[i]
	b.published++
	msg := b.sink.message.of(e, &b.sink.options)
	msg.Subject, msg.Reply = token(b.sink.subject.Expand(e)), reply
	switch err := b.conn.PublishMsg(msg); {
	case errors.Is(err, nats.ErrMaxPayload):
		b.errs[i] = sinks.Unsendable("event %s: its message of %d bytes is larger than the server's max_payload, %d",
			e.ID, msg.Size(), b.conn.MaxPayload())
	case err != nil:
		b.published--
		return b.sink.errorOf(ctx, b.conn.reason(err))
	}
	return nil
}

// await waits for an acknowledgement. An error ends the Send.
func (b *publishBatch) await(ctx context.Context, first uint64) error {
	select {
	case ack := <-b.conn.acks: // they come many at once, and this is the quickest way to take one
		return b.acknowledged(ctx, ack, first)
	default:
	}
	select {
	case ack := <-b.conn.acks:
		return b.acknowledged(ctx, ack, first)
	case err := <-b.conn.faults:
		return b.sink.errorOf(ctx, err)
	case <-b.conn.closed:
		return b.sink.errorOf(ctx, b.conn.reason(nats.ErrConnectionClosed))
	case <-ctx.Done():
		return b.sink.errorOf(ctx, ctx.Err())
	case <-b.silence():
		return sinks.Errorf(sinks.Transient, "stream %s: no acknowledgement within %v (none will come if it is set to no_ack)",
			b.sink.options.Stream, b.sink.options.AckTimeout)
	}
}

// silence is the timer of a wait for an acknowledgement, from now.
func (b *publishBatch) silence() <-chan time.Time {
	if b.patience == nil {
		b.patience = time.NewTimer(b.sink.options.AckTimeout)
	} else {
		b.patience.Reset(b.sink.options.AckTimeout)
	}
	return b.patience.C
}

func (b *publishBatch) acknowledged(ctx context.Context, ack *nats.Msg, first uint64) error {
	b.conn.Taken(ack)
	number, err := b.conn.number(ack)
	i := number - first
	if err != nil || i >= uint64(len(b.events)) || !b.pending[i] {
		return nil // a second answer
	}
	err = readAck(b.sink.options.Stream, ack, b.sink.secrets.Hide)
	switch class, _ := sinks.ClassOf(err); {
	case errors.Is(err, errNotAnAnswer):
		return nil
	case errors.Is(err, errNoStream):
		// Either there is no such stream, or JetStream is not able to work now.
		if err := b.sink.prepareStream(ctx, b.conn); err != nil {
			return err
		}
		return sinks.Errorf(sinks.Transient, "stream %s: %w", b.sink.options.Stream, err)
	case err != nil && class != sinks.Rejected:
		return err
	}
	b.errs[i] = err
	b.pending[i] = false
	delete(b.keys, b.events[i].PartitionKey)
	b.answered++
	return nil
}

// fail gives an error to the events whose result is not known: err to those that
// were published, or where there is none, to the first that was not.
func (b *publishBatch) fail(err error) {
	told := false
	for i := range b.events {
		switch unpublished := i >= b.published; {
		case unpublished && told:
			b.errs[i] = sinks.ErrNotTried
		case unpublished, b.errs[i] == nil && (b.pending == nil || b.pending[i]):
			b.errs[i], told = err, true
		}
	}
}
