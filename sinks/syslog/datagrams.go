package syslog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"ndrbridge/internal/failure"
)

const (
	// resolveEvery is how long a socket is kept: a new one looks the address up again.
	resolveEvery = time.Minute
	// refusalWait is how long the sink waits after a batch for a report that the receiver's
	// port is closed.
	refusalWait = 10 * time.Millisecond
)

// datagrams sends each message in a UDP datagram. Nothing shows whether it arrives; only a
// host on which nothing listens may report that.
type datagrams struct {
	o      Options
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	conn   net.Conn // nil: none
	opened time.Time
}

// send implements transport.
func (d *datagrams) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.o.Timeout, errTimeout)
	defer cancel()
	if d.conn != nil && d.o.Now().Sub(d.opened) > resolveEvery {
		d.close()
	}
	if d.conn == nil {
		conn, err := d.dial(ctx, "udp", d.o.Address)
		if err != nil {
			return failed(ctx, d.o, err)
		}
		d.conn, d.opened = conn, d.o.Now()
	}
	if err := d.write(ctx, b); err != nil {
		d.close()
		return failed(ctx, d.o, err)
	}
	return nil
}

// write writes the messages, and waits shortly for a refusal of them.
func (d *datagrams) write(ctx context.Context, b *batch) error {
	conn := d.conn
	if err := conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	for i := range b.ends {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch _, err := d.conn.Write(b.frame(i)); {
		case errors.Is(err, syscall.EMSGSIZE):
			b.reject(i, failure.Unsendable("its message of %d bytes is larger than the network takes in a datagram; lower max_bytes", len(b.frame(i))))
		case err != nil:
			return err
		}
	}
	if err := d.conn.SetReadDeadline(time.Now().Add(refusalWait)); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := d.conn.Read(answer[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the events were refused, or those before them: %w", err)
	}
	return nil
}

// close implements transport.
func (d *datagrams) close() error {
	if d.conn != nil {
		d.conn.Close()
		d.conn = nil
	}
	return nil
}
