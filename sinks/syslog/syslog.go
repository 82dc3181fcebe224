// Package syslog is the sink that sends events to a syslog receiver, as messages of RFC
// 5424 over TLS (RFC 5425), TCP (RFC 6587) or UDP (RFC 5426).
//
// Syslog has no acknowledgement. Over TLS and TCP, a batch counts as delivered when the
// receiver's system has acknowledged all of its bytes and the connection still stands. What
// the receiver then had not read is lost if it ends; therefore the sink keeps the last
// messages of a connection for a while, and sends them again, before anything else, on the
// next connection if this one ends unexpectedly. See tail.
package syslog

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// The networks.
const (
	networkTLS = "tls"
	networkTCP = "tcp"
	networkUDP = "udp"
)

// The framings of messages on a connection (RFC 6587).
const (
	octetCounting = "octet_counting" // the message's length in bytes and a space in front of it
	newline       = "newline"        // a line feed behind it
)

// maxDatagram is the size of the largest message that fits into a UDP datagram over IPv4.
const maxDatagram = 65507

// Options configure a Sink. The configuration has checked them.
type Options struct {
	// Address is the host and port of the receiver.
	Address string
	// Network is tls (the default), tcp or udp.
	Network string
	// TLS configures TLS; nil: the defaults. Only the network tls uses it. If it has no
	// ServerName, the certificate must have the host of Address.
	TLS *tls.Config
	// Facility is the name of the facility, such as local0 (the default).
	Facility string
	// AppName is the APP-NAME of the messages. Empty: ndrbridge.
	AppName string
	// Hostname is the HOSTNAME of the messages. Empty: the name of this machine.
	Hostname string
	// Framing is octet_counting (the default) or newline. UDP does not use it.
	Framing string
	// MaxBytes is the size of the largest message, without its framing. A larger event is
	// rejected. 0: maxDatagram.
	MaxBytes int
	// Timeout bounds connecting, the delivery of a batch, and that of each part of a
	// repetition. 0: 30 s.
	Timeout time.Duration
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
	// Log receives repetitions and messages that are given up; nil: nothing is logged.
	Log *slog.Logger
	// Now returns the time; nil: time.Now.
	Now func() time.Time
}

// Sink sends events to a syslog receiver. The first Send connects, and so does the first
// Send after the end of the connection.
type Sink struct {
	o         Options
	message   message
	batch     batch // buffer, reused by each Send
	transport transport
}

// transport sends the messages of a batch.
type transport interface {
	// send returns nil once all messages are as safe as the transport can tell. It sets
	// the error of a single message by batch.reject.
	send(ctx context.Context, b *batch) error
	// check tries the connection, and sends nothing.
	check(ctx context.Context, path *finding.Path) []finding.Finding
	close() error
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink. It contacts no server.
func New(o Options) *Sink {
	o = o.withDefaults()
	s := &Sink{o: o, message: newMessage(o)}
	if o.Network == networkUDP {
		s.transport = &datagrams{o: o, dial: o.Lease.DialContext(new(net.Dialer).DialContext)}
	} else {
		s.transport = &stream{o: o}
	}
	return s
}

// withDefaults returns o with defaults for unset fields.
func (o Options) withDefaults() Options {
	o.Network = cmp.Or(o.Network, networkTLS)
	o.TLS = cmp.Or(o.TLS.Clone(), &tls.Config{})
	if o.TLS.ServerName == "" {
		o.TLS.ServerName, _, _ = net.SplitHostPort(o.Address)
	}
	o.Facility = cmp.Or(o.Facility, "local0")
	if o.Hostname == "" {
		machine, _ := os.Hostname() // without a name, the field has none
		o.Hostname = printable(machine, maxHostname)
	}
	o.AppName = cmp.Or(o.AppName, "ndrbridge")
	o.Framing = cmp.Or(o.Framing, octetCounting)
	o.MaxBytes = cmp.Or(o.MaxBytes, maxDatagram)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Send sends the events as specified by sinks.Sink, with the reservations of the package
// comment. An event that is larger than MaxBytes is rejected individually; any other failure
// concerns all events.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", s.o.Address, err)
	}
	s.batch.reset(len(events))
	for i, e := range events {
		s.batch.add(i, e, &s.message)
	}
	if len(s.batch.ends) > 0 {
		if err := s.transport.send(ctx, &s.batch); err != nil {
			return s.batch.failure(err)
		}
	}
	return s.batch.errs.OrNil()
}

// Close ends the connection. A second call does nothing.
func (s *Sink) Close() error { return s.transport.close() }

// batch is the messages of one Send.
type batch struct {
	framed []byte // one after another
	ends   []int  // by message: the end of its frame in framed
	events []int  // by message: the index of its event
	errs   failure.EventErrors
	one    []byte // buffer for a message without its frame
}

func (b *batch) reset(events int) {
	b.framed, b.ends, b.events = b.framed[:0], b.ends[:0], b.events[:0]
	b.errs = make(failure.EventErrors, events)
}

// add adds the message of the event with index i, or rejects it.
func (b *batch) add(i int, e transform.Event, m *message) {
	b.one = m.append(b.one[:0], e)
	if len(b.one) > m.maxBytes {
		b.errs[i] = failure.Unsendable("event %s: its message of %d bytes is larger than max_bytes, %d", e.ID, len(b.one), m.maxBytes)
		return
	}
	b.framed = m.appendFrame(b.framed, b.one)
	b.ends = append(b.ends, len(b.framed))
	b.events = append(b.events, i)
}

// frame returns the frame of message n.
func (b *batch) frame(n int) []byte {
	begin := 0
	if n > 0 {
		begin = b.ends[n-1]
	}
	return b.framed[begin:b.ends[n]]
}

// reject sets the error of message n.
func (b *batch) reject(n int, err error) { b.errs[b.events[n]] = err }

// failure returns the error of a Send that failed with err for all messages that were not
// rejected.
func (b *batch) failure(err error) error {
	if b.errs.OrNil() == nil {
		return err
	}
	for i := range b.errs {
		if b.errs[i] == nil {
			b.errs[i] = err
		}
	}
	return b.errs
}
