// Package inbox takes ticket commands from brokers: from a JetStream stream and
// from a Kafka topic. A message is acknowledged once its commands are stored, or
// once the journal holds an event that says why they are not.
package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/tickets"
)

// Acceptor is what takes commands in. *tickets.Desk is one.
type Acceptor interface {
	Accept(ctx context.Context, key string, commands []tickets.Command) ([]checkpoint.Acceptance, error)
}

// Refusal is a message that holds no command that can be accepted.
type Refusal struct {
	Message string // where it lies, such as "stream NDR, message 17"
	Reason  string // what is wrong with it, for whoever sent it
	// Sent is when the broker took it, which tells it from one that lay in its place
	// before.
	Sent time.Time
}

// Options are what all intakes have in common.
type Options struct {
	Acceptor Acceptor
	// Refuse makes durable that a message was refused. A message is asked about
	// again after an error.
	Refuse func(context.Context, Refusal) error
	// RetryInitial and RetryMax bound the wait after a failure, which doubles from
	// one to the other.
	RetryInitial, RetryMax time.Duration
	// Hide takes secrets out of a text; nil: there are none.
	Hide func(string) string
	Log  *slog.Logger
}

// Status is how an intake stands.
type Status struct {
	// Open says that messages are received.
	Open bool
	// Error is what failed last, while not everything works; empty: all does.
	Error string
	// Since is when Open or Error last changed.
	Since time.Time
	// Stored and Refused count the messages, each when its acknowledgement was
	// confirmed: one that comes again for want of that is counted once.
	Stored, Refused uint64
}

// intake is what both kinds of intakes are made of.
type connection struct {
	o Options

	mu     sync.Mutex
	status Status
}

// Status tells how the intake stands now.
func (d *connection) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// opened notes that messages are received.
func (d *connection) opened() { d.set(true, "") }

// failed notes what failed, and tells it where it is news.
func (d *connection) failed(open bool, err error) {
	text := err.Error()
	if d.o.Hide != nil {
		text = d.o.Hide(text)
	}
	if d.set(open, text) {
		d.o.Log.Warn("ticket commands cannot be received; it is tried again", "error", text)
	}
}

func (d *connection) set(open bool, text string) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if news = d.status.Open != open || d.status.Error != text; news {
		d.status.Open, d.status.Error, d.status.Since = open, text, time.Now()
	}
	return news
}

// run keeps a session going until ctx ends. A session that ends is followed by
// another, after a while.
func (d *connection) run(ctx context.Context, session func(context.Context) error) {
	wait := d.o.RetryInitial
	for {
		begun := time.Now()
		err := session(ctx)
		if ctx.Err() != nil {
			d.set(false, "")
			return
		}
		if time.Since(begun) > d.o.RetryMax {
			wait = d.o.RetryInitial // it worked for a time
		}
		d.failed(false, err)
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, d.o.RetryMax)
	}
}

// sleep reports whether the time went by before ctx ended.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// message is a message of a broker.
type message struct {
	key  string // names it, also when it is sent again
	at   string // where it lies, for a person
	sent time.Time
	data []byte
}

// Bounds of a message, in bytes: that of a body of POST /api/v1/tickets, and what may
// stand in front of it.
const (
	maxMessage = 1 << 20
	maxHeaders = 64 << 10
)

// parse reads the commands of a message.
func parse(data []byte) ([]tickets.Command, error) {
	if len(data) > maxMessage {
		return nil, fmt.Errorf("%w: the message is larger than %d bytes", tickets.ErrSyntax, maxMessage)
	}
	commands, _, err := tickets.Parse(data)
	return commands, err
}

// verdict is what became of a message.
type verdict int

const (
	stored verdict = iota
	refused
)

// take stores what a message holds, or that it was refused. After an error the
// message is not dealt with, and must come again before any that lies behind it:
// commands of one ticket keep their order.
func (d *connection) take(ctx context.Context, m message) (verdict, error) {
	commands, err := parse(m.data)
	if err == nil {
		_, err = d.o.Acceptor.Accept(ctx, m.key, commands)
	}
	if err == nil {
		return stored, nil
	}
	if _, wrong := errors.AsType[*tickets.FieldError](err); !wrong && !errors.Is(err, tickets.ErrSyntax) {
		return 0, err
	}
	return d.refuse(ctx, Refusal{Message: m.at, Reason: err.Error(), Sent: m.sent})
}

// refuse makes durable that a message was refused.
func (d *connection) refuse(ctx context.Context, r Refusal) (verdict, error) {
	d.o.Log.Warn("a message holds no ticket command that can be accepted", "message", r.Message, "error", r.Reason)
	if err := d.o.Refuse(ctx, r); err != nil {
		return 0, err
	}
	return refused, nil
}

// acknowledged counts a message whose acknowledgement was confirmed.
func (d *connection) acknowledged(v verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v == stored {
		d.status.Stored++
	} else {
		d.status.Refused++
	}
}
