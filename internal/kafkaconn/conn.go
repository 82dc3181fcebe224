// Package kafkaconn connects kafka-go to Kafka brokers, for the sink and the ticket intake.
// Nothing that a broker sends can be trusted: a port may speak another protocol, and a broken
// or hostile broker may answer anything. What kafka-go gets is bounded in one place, conn.
package kafkaconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/linklocal"
)

const (
	// DialTimeout bounds Dial, so that a caller has time left to try another broker.
	DialTimeout = 5 * time.Second
	// maxAnswer bounds answers: the metadata of 10,000 partitions takes two thirds of it.
	maxAnswer = 768 << 10
	// maxFetch bounds the answer to a fetch. It is more than is requested, because a broker
	// returns at least one record batch, whatever its size.
	maxFetch = 32 << 20
	// signInTimeout bounds the time without a deadline of kafka-go, which sets none while it
	// signs in.
	signInTimeout = 10 * time.Second
)

// Dialer opens connections to brokers. It is safe for concurrent use.
type Dialer struct {
	// Brokers are the configured addresses, as host:port. Any other address was
	// advertised by the cluster, and is refused if it is link-local or names no host.
	Brokers []string
	// TLS is nil for connections without TLS. An empty ServerName means the broker's
	// host.
	TLS *tls.Config
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
	// Login authenticates connections; nil: no authentication.
	Login    *Login
	ClientID string
}

// Shown returns an address for messages: without secrets if the cluster advertised it.
func (d *Dialer) Shown(address string) string {
	if slices.Contains(d.Brokers, address) {
		return address
	}
	return d.Login.Hide(address)
}

// Dial connects within ctx and performs the TLS handshake. The connection is closed when life
// is done. Its errors, like that of Dial, are *failure.Error and contain no secret.
func (d *Dialer) Dial(ctx, life context.Context, address string) (_ net.Conn, err error) {
	defer func() {
		if err != nil {
			err = d.broken(address, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	dialer := &net.Dialer{}
	if !slices.Contains(d.Brokers, address) {
		// An empty host would be this machine.
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
			return nil, failure.Advise(failure.Transient, checkListeners, fmt.Errorf("the cluster advertises %q, which names no host", address))
		}
		dialer.Control = linklocal.Refuse
	}
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	socket = d.Lease.Conn(socket)
	c := &conn{Conn: socket, socket: socket, dialer: d, address: address}
	if d.TLS != nil {
		config := d.TLS
		if config.ServerName == "" {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(address) // it was dialled
		}
		secure := tls.Client(socket, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			socket.Close()
			return nil, err
		}
		c.Conn = secure
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untie = context.AfterFunc(life, func() { c.fail(life.Err()) })
	return c, c.SetDeadline(time.Time{})
}

// conn is a connection to a broker that passes on an answer once it is complete, if its size is
// within bounds and it holds the lists that it announces. After its first error it is closed.
type conn struct {
	net.Conn          // with TLS, if there is any
	socket   net.Conn // below Conn
	dialer   *Dialer
	address  string

	last   request // the last one that was written, or is being written
	left   int     // bytes of it that are to be written
	answer []byte  // bytes that are to be read

	mu      sync.Mutex
	pending []request
	failed  error       // why it is closed
	untie   func() bool // from the context that ends it
}

// request is one without an answer.
type request struct {
	key     protocol.ApiKey
	version int16
	id      int32
}

const (
	sizeSize = 4                    // of the size before a frame
	headSize = sizeSize + 2 + 2 + 4 // with a request's key, version and id
)

// Close closes the connection at once. It sends no TLS close_notify, which a peer that does
// not read would delay and which brokers do not need.
func (c *conn) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// fail closes the connection because of err. It returns the first such error, classified.
func (c *conn) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = c.dialer.broken(c.address, err)
		c.untie()
		c.socket.Close()
	}
	return c.failed
}

// SetDeadline implements net.Conn, except that no deadline means one after signInTimeout.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(bounded(t)) }

// SetReadDeadline is to SetDeadline as in net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(bounded(t)) }

// SetWriteDeadline is to SetDeadline as in net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(bounded(t)) }

func bounded(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now().Add(signInTimeout)
	}
	return t
}

// Write implements net.Conn. kafka-go writes one request after another, each with its head at
// once.
func (c *conn) Write(p []byte) (int, error) {
	if c.left == 0 && len(p) >= headSize {
		c.left = sizeSize + int(binary.BigEndian.Uint32(p))
		c.last = request{protocol.ApiKey(binary.BigEndian.Uint16(p[4:])), int16(binary.BigEndian.Uint16(p[6:])), int32(binary.BigEndian.Uint32(p[8:]))}
		c.mu.Lock()
		c.pending = append(c.pending, c.last)
		c.mu.Unlock()
	}
	if c.left -= len(p); c.left == 0 && c.last.key == protocol.Metadata && c.last.version >= 4 {
		// The last field is whether to create the topic, as kafka.ConsumerGroup asks; from
		// version 8 on, whether to return the user's rights, for which kafka.Transport has no option.
		p = bytes.Clone(p)
		p[len(p)-1] = 0
		if c.last.version >= 8 {
			p[len(p)-1] = 1
		}
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		err = c.fail(err)
	}
	return n, err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.answer) == 0 {
		answer, err := c.receive()
		if err != nil {
			return 0, c.fail(err)
		}
		c.answer = answer
	}
	n := copy(p, c.answer)
	c.answer = c.answer[n:]
	return n, nil
}

// receive reads an answer and checks it.
func (c *conn) receive() ([]byte, error) {
	var prefix [sizeSize]byte
	_, err := io.ReadFull(c.Conn, prefix[:])
	c.mu.Lock()
	r := request{id: -1}
	if len(c.pending) > 0 {
		r, c.pending = c.pending[0], c.pending[1:]
	}
	c.mu.Unlock()
	if errors.Is(err, io.EOF) && r.key == protocol.SaslAuthenticate {
		// Some brokers reject a password by closing the connection.
		return nil, failure.Advise(failure.Halted, checkSASL, fmt.Errorf("%s: the broker closed the connection", c.dialer.Login.tried()))
	}
	if err != nil {
		return nil, err
	}
	limit := maxAnswer
	if r.key == protocol.Fetch {
		limit = maxFetch
	}
	size := int(int32(binary.BigEndian.Uint32(prefix[:])))
	if size < 4 || size > limit {
		return nil, notAFrame(prefix, size, limit)
	}
	frame := make([]byte, sizeSize+size)
	copy(frame, prefix[:])
	if _, err := io.ReadFull(c.Conn, frame[sizeSize:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(frame[sizeSize:])); id != r.id {
		return nil, foreign("it answers request %d instead of %d", id, r.id)
	}
	return frame, r.check(frame[sizeSize+4:])
}

// notAFrame returns the error of a prefix that does not begin an answer of Kafka. Texts
// and TLS records, taken for sizes, are far beyond the limit.
func notAFrame(prefix [sizeSize]byte, size, limit int) error {
	switch {
	case string(prefix[:]) == "HTTP":
		return failure.Advise(failure.Halted, "correct brokers: Kafka listens on another port", errors.New("it answers HTTP"))
	// The type of a TLS record, from change cipher spec to application data, and version 3.x.
	case prefix[0] >= 20 && prefix[0] <= 23 && prefix[1] == 3:
		return failure.Advise(failure.Halted, "set tls, or correct the port", errors.New("it answers with a TLS record: the port expects TLS"))
	case !bytes.ContainsFunc(prefix[:], func(r rune) bool { return r < ' ' || r > '~' }): // ASCII text
		return foreign("it answers %q, which is not Kafka's protocol", prefix)
	}
	return foreign("it announces an answer of %d bytes; the limit is %d", size, limit)
}

// foreign returns the error of an answer that no Kafka broker gives.
func foreign(format string, a ...any) error {
	return failure.Advise(failure.Transient, "is it a Kafka broker, and the right port? Check brokers", fmt.Errorf(format, a...))
}
