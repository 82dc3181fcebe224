package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Send publishes the events. With a stream, it returns nil once the stream has
// acknowledged every event. Nats-Msg-Id combines the sink's name, the event's source and
// its id, so that the stream drops events that this sink stored there within the
// duplicate window, and no events of other sinks. Two events with the same partition key
// are never in flight at once. An event that is too large for the server is rejected
// individually; after any other failure, nothing more is published in this Send.
//
// With core NATS, it returns nil once a server has received all events.
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
	// The library ignores ctx while it waits for the network.
	stop := context.AfterFunc(ctx, s.conn.Cut)
	defer stop()

	b := &publishBatch{sink: s, conn: s.conn, events: events, errs: make(failure.EventErrors, len(events))}
	var err error
	if s.options.Stream == "" {
		err = b.publish(ctx)
	} else {
		err = b.publishToStream(ctx)
	}
	if err != nil {
		b.fail(err)
		s.drop()
	}
	return b.errs.OrNil()
}

// open connects, and creates the stream if the sink may.
func (s *Sink) open(ctx context.Context) error {
	c, err := s.dial(ctx)
	if err != nil {
		return s.errorOf(ctx, err)
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

// drop ends the connection. The next Send opens a new one.
func (s *Sink) drop() {
	s.conn.end()
	s.conn = nil
}

// Close ends the connection and waits for its callbacks. A second call does nothing.
func (s *Sink) Close() error {
	if s.conn != nil {
		s.drop()
	}
	return nil
}

// publishBatch is the state of one Send.
type publishBatch struct {
	sink   *Sink
	conn   *conn
	events []transform.Event
	errs   failure.EventErrors

	published int             // number of leading events that were published or rejected
	answered  int             // number of these events whose result is known
	pending   []bool          // by event: published and not acknowledged
	keys      map[string]bool // partition keys of the pending events
	failed    map[string]bool // partition keys of events that failed; those behind are not published
	ackTimer  *time.Timer     // reset for each wait for an acknowledgement
}

// publish publishes the events to core NATS. A PING follows them: when the server answers
// it, it has read all events, and has reported an error before.
func (b *publishBatch) publish(ctx context.Context) error {
	for b.published < len(b.events) {
		if err := b.publishNext(ctx, ""); err != nil {
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

// publishToStream publishes the events to JetStream, which acknowledges each.
func (b *publishBatch) publishToStream(ctx context.Context) error {
	first := b.conn.next
	b.conn.next += uint64(len(b.events))
	b.ackTimer = time.NewTimer(b.sink.options.AckTimeout)
	b.pending = make([]bool, len(b.events))
	b.failed = make(map[string]bool)
	b.keys = make(map[string]bool, min(len(b.events), b.sink.options.MaxPending))
	for b.answered < len(b.events) {
		if b.published < len(b.events) && b.failed[b.events[b.published].PartitionKey] {
			b.errs[b.published] = failure.ErrNotTried
			b.published++
			b.answered++
			continue
		}
		full := b.published == len(b.events) || len(b.keys) == b.sink.options.MaxPending
		if full || b.keys[b.events[b.published].PartitionKey] {
			if err := b.awaitAck(ctx, first); err != nil {
				return err
			}
			continue
		}
		i := b.published
		if err := b.publishNext(ctx, b.conn.reply(first+uint64(i))); err != nil {
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

// publishNext publishes the next event, or rejects it if it is too large.
func (b *publishBatch) publishNext(ctx context.Context, reply string) error {
	i := b.published
	e := b.events[i]
	b.published++
	msg := b.sink.message.of(e, &b.sink.options)
	msg.Subject, msg.Reply = token(b.sink.subject.Expand(e)), reply
	switch err := b.conn.PublishMsg(msg); {
	case errors.Is(err, nats.ErrMaxPayload) && b.conn.MaxPayload() > 0: // otherwise the server is at fault
		b.errs[i] = failure.Unsendable("event %s: its message of %d bytes is larger than the server's max_payload, %d",
			e.ID, msg.Size(), b.conn.MaxPayload())
	case err != nil:
		b.published--
		return b.sink.errorOf(ctx, b.conn.reason(err))
	}
	return nil
}

// awaitAck waits for an acknowledgement and applies it. An error ends the Send. first is
// the number of the first event's message.
func (b *publishBatch) awaitAck(ctx context.Context, first uint64) error {
	select {
	case ack := <-b.conn.acks: // usually one is waiting, and this is the fastest way to receive it
		return b.applyAck(ctx, ack, first)
	default:
	}
	b.ackTimer.Reset(b.sink.options.AckTimeout)
	select {
	case ack := <-b.conn.acks:
		return b.applyAck(ctx, ack, first)
	case err := <-b.conn.faults:
		return b.sink.errorOf(ctx, err)
	case <-b.conn.closed:
		return b.sink.errorOf(ctx, b.conn.reason(nats.ErrConnectionClosed))
	case <-ctx.Done():
		return b.sink.errorOf(ctx, ctx.Err())
	case <-b.ackTimer.C:
		return failure.Unavailable(failure.ScopeTarget, "stream %s: no acknowledgement within %v (none will come if it is set to no_ack)",
			b.sink.options.Stream, b.sink.options.AckTimeout)
	}
}

// applyAck records the result of the event that ack acknowledges. An error ends the Send.
func (b *publishBatch) applyAck(ctx context.Context, ack *nats.Msg, first uint64) error {
	number, err := b.conn.number(ack)
	i := number - first
	if err != nil || i >= uint64(len(b.events)) || !b.pending[i] {
		return nil // not an answer, or a second one
	}
	err = readAck(b.sink.options.Stream, ack, b.sink.secrets.Hide)
	switch class, _ := failure.ClassOf(err); {
	case errors.Is(err, errNotAnAnswer):
		return nil
	case errors.Is(err, errNoStream):
		// Either the stream does not exist, or JetStream is not available at the moment.
		if err := b.sink.prepareStream(ctx, b.conn); err != nil {
			return err
		}
		return failure.Unavailable(failure.ScopeTarget, "stream %s: %w", b.sink.options.Stream, err)
	case err != nil && class != failure.Rejected:
		if failure.ScopeOf(err) != failure.ScopeEvent {
			return err
		}
		b.failed[b.events[i].PartitionKey] = true
	}
	if report := sinks.Receipts(ctx); report != nil && err == nil {
		var stored struct{ Seq uint64 }
		_ = json.Unmarshal(ack.Data, &stored)
		report(fmt.Sprintf("subject %s, stream %s, sequence %d", token(b.sink.subject.Expand(b.events[i])), b.sink.options.Stream, stored.Seq))
	}
	b.errs[i] = err
	b.pending[i] = false
	delete(b.keys, b.events[i].PartitionKey)
	b.answered++
	return nil
}

// fail sets the errors of the events without a result: err for the published ones, or, if
// there are none, for the first unpublished one, and failure.ErrNotTried for the others.
func (b *publishBatch) fail(err error) {
	reported := false
	for i := range b.events {
		switch unpublished := i >= b.published; {
		case unpublished && reported:
			b.errs[i] = failure.ErrNotTried
		case unpublished, b.errs[i] == nil && (b.pending == nil || b.pending[i]):
			b.errs[i], reported = err, true
		}
	}
}
