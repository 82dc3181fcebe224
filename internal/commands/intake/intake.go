// Package intake receives ticket commands from brokers: from a JetStream stream and
// from a Kafka topic. A message is acknowledged once its commands are stored, or once
// the journal holds an event that reports why they are not.
package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/failure"
)

// Acceptor accepts commands. *commands.Acceptor implements it.
type Acceptor interface {
	Accept(ctx context.Context, key string, commands []commands.Command) ([]checkpoint.Acceptance, error)
}

// Refusal reports a message that holds no acceptable command.
type Refusal struct {
	Message string // its position, such as "stream NDR, message 17"
	Reason  string // the mistake, for its sender
	// Sent is the broker's timestamp. It distinguishes the message from an earlier one
	// at the same position.
	Sent time.Time
}

// Options are the options that all intakes share.
type Options struct {
	Acceptor Acceptor
	// Refuse durably records that a message was refused. After an error it is called
	// again for the same message.
	Refuse func(context.Context, Refusal) error
	// RetryInitial and RetryMax limit the wait after a failure, which doubles from one
	// to the other.
	RetryInitial, RetryMax time.Duration
	Log                    *slog.Logger
}

// Status is the status of an intake.
type Status struct {
	// Open reports whether messages can be received.
	Open bool
	// Error is the last failure while something fails, and empty otherwise.
	Error string
	// Cause is Error in a few words, as failure.CauseOf returns it.
	Cause string
	// Since is when Open or Error last changed.
	Since time.Time
	// Stored and Refused count messages whose acknowledgement was confirmed, so a
	// message that is redelivered for lack of one is counted once.
	Stored, Refused uint64
}

// connection is the part that all intakes share.
type connection struct {
	o Options

	mu     sync.Mutex
	status Status
}

// Status returns the current status.
func (c *connection) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// opened sets the status to open without an error.
func (c *connection) opened() { c.set(true, nil) }

// failed sets the status to an error, and logs it if it is new.
func (c *connection) failed(open bool, err error) {
	if c.set(open, err) {
		c.o.Log.Warn("ticket commands cannot be received; retrying", "error", err)
	}
}

func (c *connection) set(open bool, err error) (changed bool) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed = c.status.Open != open || c.status.Error != text; changed {
		c.status.Open, c.status.Error, c.status.Cause, c.status.Since = open, text, failure.CauseOf(err), time.Now()
	}
	return changed
}

// run runs one session after another until ctx is done, with a pause between them.
func (c *connection) run(ctx context.Context, session func(context.Context) error) {
	wait := c.o.RetryInitial
	for {
		begun := time.Now()
		err := session(ctx)
		if ctx.Err() != nil {
			c.set(false, nil)
			return
		}
		if time.Since(begun) > c.o.RetryMax {
			wait = c.o.RetryInitial // it worked for a time
		}
		c.failed(false, err)
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, c.o.RetryMax)
	}
}

// sleep reports whether wait passed before ctx was done.
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

// Limits of a message, in bytes: the body limit of POST /api/v1/tickets, and the
// headers.
const (
	maxMessage = 1 << 20
	maxHeaders = 64 << 10
)

// store stores the commands of a message, or that it was refused. key is the same if the
// message is sent again; r holds its position and time. After an error the message must be
// delivered again before any later one, so that commands for one ticket keep their order.
func (c *connection) store(ctx context.Context, key string, data []byte, r Refusal) (refused bool, err error) {
	if len(data) > maxMessage {
		err = fmt.Errorf("%w: the message is larger than %d bytes", commands.ErrSyntax, maxMessage)
	} else {
		var all []commands.Command
		if all, _, err = commands.Parse(data); err == nil {
			_, err = c.o.Acceptor.Accept(ctx, key, all)
		}
	}
	if _, invalid := errors.AsType[*commands.FieldError](err); !invalid && !errors.Is(err, commands.ErrSyntax) {
		return false, err
	}
	r.Reason = err.Error()
	return true, c.refuse(ctx, r)
}

// refuse durably records that a message was refused.
func (c *connection) refuse(ctx context.Context, r Refusal) error {
	c.o.Log.Warn("a message holds no acceptable ticket command", "message", r.Message, "error", r.Reason)
	return c.o.Refuse(ctx, r)
}

// acknowledged counts a message whose acknowledgement was confirmed.
func (c *connection) acknowledged(refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused {
		c.status.Refused++
	} else {
		c.status.Stored++
	}
}
