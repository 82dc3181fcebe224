package syslog

import (
	"context"
	"errors"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
)

// stream sends messages over TCP or TLS, on a connection that it keeps.
type stream struct {
	o    Options
	conn *conn // nil: none
	tail tail  // of conn; without a connection, the messages to repeat on the next one
}

// send implements transport. If the receiver has ended the connection since the last call,
// it opens a new one.
func (s *stream) send(ctx context.Context, b *batch) error {
	if s.conn != nil {
		if err := s.conn.standing(); err != nil {
			s.drop(err, s.conn.endedAt)
			if _, answered := errors.AsType[*failure.Error](err); answered {
				return failed(ctx, s.o, err)
			}
		}
	}
	if s.conn == nil {
		c, err := s.open(ctx)
		if err != nil {
			return err
		}
		s.conn = c
		for i := range s.tail.chunks {
			// Until all of it is sent again, nothing expires: at is before any of it.
			if err := s.deliver(ctx, s.tail.repeat(i, s.o.Now()), time.Time{}); err != nil {
				return err
			}
		}
	}
	if err := s.deliver(ctx, b.framed, s.o.Now()); err != nil {
		return err
	}
	s.tail.add(b, s.o.Now())
	return nil
}

// deliver writes frames and waits for the acknowledgement. After an error, it has ended the
// connection with drop(err, at).
func (s *stream) deliver(ctx context.Context, frames []byte, at time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.Timeout, errTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, s.conn.interrupt)
	defer stop()
	_, err := s.conn.Write(frames)
	if err == nil {
		err = s.conn.acknowledged(ctx)
	}
	if err != nil {
		s.drop(err, at)
		return failed(ctx, s.o, err)
	}
	return nil
}

// drop ends the connection. The receiver may have stored none of the messages of the last
// tailAge before at.
func (s *stream) drop(reason error, at time.Time) {
	s.conn.end(true)
	s.conn = nil
	s.tail.expire(at)
	if errors.Is(reason, lease.ErrExpired) { // the receiver is not at fault
		s.tail.forgive()
	}
	if n := s.tail.giveUp(); n > 0 {
		s.o.Log.Warn("the receiver keeps ending the connection after these messages; they are not sent again, and it may not have stored them: "+
			"see its log for the reason, such as a message that is larger than it takes (max_bytes)",
			"messages", n, "repetitions", maxRepetitions, "error", reason)
	}
	if n := s.tail.messages(); n > 0 {
		s.o.Log.Info("the connection ended; the last messages, which the receiver may not have stored, are sent again", "messages", n, "error", reason)
	}
}

// close implements transport. It ends the connection in order. What is to be sent again is
// forgotten.
func (s *stream) close() error {
	if s.conn != nil {
		s.conn.end(false)
		s.conn = nil
	}
	return nil
}
