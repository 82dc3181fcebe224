package natswire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	nats "github.com/nats-io/nats.go"
)

// ErrProtocol is returned if a server violates the protocol or exceeds the limits.
var ErrProtocol = errors.New("not what a NATS server may send")

// ErrHTTP and ErrTLS are returned if the server speaks another protocol than NATS.
var (
	ErrHTTP = errors.New("the server speaks HTTP, not NATS")
	ErrTLS  = errors.New("the server speaks TLS from the first byte, not NATS")
)

const (
	// maxLine bounds a control line. INFO lists the servers of a cluster.
	maxLine = 64 << 10
	// maxMessage bounds the announced size of a message, truncated ones included. It is
	// more than a server can be configured to accept (max_payload is at most 64 MiB).
	maxMessage = 65 << 20
	// maxIdleLines bounds the lines without a message (PING, INFO, +OK, -ERR) in each
	// idlePeriod.
	maxIdleLines, idlePeriod = 1000, 10 * time.Second
)

// conn is a connection whose Read returns only data that is well formed and within the
// limits. It buffers a line, but of a message only what fits into its fixed buffer.
type conn struct {
	net.Conn           // for writing; src is for reading
	src      io.Reader // plain text, after TLS
	secure   bool
	received atomic.Bool // data arrived after the TLS handshake; Read sets it while Write reads it
	limits   Limits
	socket   *websocket   // nil: none
	waiting  atomic.Int64 // bytes of the messages of Limits.Inbox that the client has not taken

	buf        []byte // buf[start:end] was read and is not yet processed
	start, end int
	out        []byte // returned by Read before anything else
	pass, skip int    // bytes of the message to return, and then to discard
	ending     bool   // the line break after the message is still to come
	err        error

	idle  int       // lines without a message since began
	began time.Time // of the current idlePeriod
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.socket != nil {
		return c.readFrames(p)
	}
	return c.readProtocol(p)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.afterHandshake(err)
}

// afterHandshake marks the error of a connection that ends right after the TLS
// handshake as a TLS error, because a server rejects a client's certificate only then.
func (c *conn) afterHandshake(err error) error {
	if c.secure && !c.received.Load() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return fmt.Errorf("%w: connection closed by remote after TLS handshake: %w", nats.ErrTLS, err)
	}
	return err
}

// buffered returns the number of unprocessed bytes.
func (c *conn) buffered() int { return c.end - c.start }

// fill reads once into the buffer.
func (c *conn) fill() error {
	if c.start > 0 {
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	}
	n, err := c.src.Read(c.buf[c.end:])
	c.end += n
	if n > 0 {
		if c.secure && !c.received.Load() {
			c.received.Store(true)
		}
		return nil // the next read returns the error again
	}
	return c.afterHandshake(err)
}

// readProtocol returns the checked data that is available. It blocks only until there
// is some.
func (c *conn) readProtocol(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case len(c.out) > 0:
			moved := copy(p[n:], c.out)
			n, c.out = n+moved, c.out[moved:]
			continue
		case c.err != nil:
			if n > 0 {
				return n, nil
			}
			return 0, c.err
		}
		more, err := c.step(p[n:], n > 0)
		if n += more; err != nil {
			c.err = err
		} else if more == 0 && len(c.out) == 0 && n > 0 {
			return n, nil
		} else if more == 0 && c.socket != nil && len(c.socket.control) > 0 {
			return n, nil
		}
	}
	return n, nil
}

// step processes a line or a part of a message. If noWait is set, it does not block, and
// does nothing if too little is buffered.
func (c *conn) step(p []byte, noWait bool) (n int, err error) {
	inLine := c.pass == 0 && c.skip == 0 && !c.ending
	enough := c.buffered() > 0
	if inLine {
		enough = bytes.IndexByte(c.buf[c.start:c.end], '\n') >= 0
	} else if c.pass == 0 && c.skip == 0 {
		enough = c.buffered() >= 2
	}
	if !enough {
		if noWait {
			return 0, nil
		}
		if inLine {
			if err := c.checkStart(); err != nil {
				return 0, err
			}
			if c.buffered() == len(c.buf) {
				return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
			}
		}
		return 0, c.fill()
	}
	switch {
	case c.pass > 0:
		n = copy(p[:min(len(p), c.pass)], c.buf[c.start:c.end])
		c.start, c.pass = c.start+n, c.pass-n
		return n, nil
	case c.skip > 0:
		skipped := min(c.skip, c.buffered())
		c.start, c.skip = c.start+skipped, c.skip-skipped
		return 0, nil
	case c.ending:
		if c.buf[c.start] != '\r' || c.buf[c.start+1] != '\n' {
			return 0, fmt.Errorf("%w: a message is not as long as announced", ErrProtocol)
		}
		c.start, c.ending = c.start+2, false
		c.out = append(c.out[:0], "\r\n"...)
		return 0, nil
	}
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	return 0, c.handleLine(line)
}

// checkStart checks the first byte of a line. It does not wait for the end of the line,
// which may never come if the server speaks another protocol.
func (c *conn) checkStart() error {
	if c.buffered() == 0 || bytes.IndexByte([]byte("MmHhPp+-Ii"), c.buf[c.start]) >= 0 {
		return nil
	}
	if first := c.buf[c.start]; first >= 0x14 && first <= 0x17 {
		return ErrTLS
	}
	return fmt.Errorf("%w: a line begins with %q", ErrProtocol, c.buf[c.start])
}

// line reads a line, which is valid until the next read.
func (c *conn) line() ([]byte, error) {
	for {
		if err := c.checkStart(); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(c.buf[c.start:c.end], '\n'); i >= 0 {
			line := c.buf[c.start : c.start+i+1]
			c.start += len(line)
			if bytes.HasPrefix(line, []byte("HTTP/")) {
				return nil, ErrHTTP
			}
			if i == 0 || bytes.IndexByte(line, '\r') != i-1 {
				return nil, fmt.Errorf("%w: a line does not end with CR and LF", ErrProtocol)
			}
			return line, nil
		}
		if c.buffered() == len(c.buf) {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// handleLine checks a line and appends it to out.
func (c *conn) handleLine(line []byte) error {
	var fields [6][]byte
	verb, arguments := split(line[:len(line)-2], fields[:])
	switch string(bytes.ToUpper(verb)) {
	case "MSG":
		return c.handleMessage(line, arguments, false)
	case "HMSG":
		return c.handleMessage(line, arguments, true)
	case "INFO":
		if _, err := parseInfo(line); err != nil {
			return err
		}
		if err := c.countIdle(); err != nil {
			return err
		}
	case "PING", "+OK", "-ERR":
		if err := c.countIdle(); err != nil {
			return err
		}
	case "PONG":
	default:
		return fmt.Errorf("%w: a line begins with %.20q", ErrProtocol, verb)
	}
	c.out = append(c.out[:0], line...)
	return nil
}

// countIdle counts a line without a message and returns an error if there are too many.
func (c *conn) countIdle() error {
	if now := time.Now(); now.Sub(c.began) > idlePeriod {
		c.began, c.idle = now, 0
	}
	if c.idle++; c.idle > maxIdleLines {
		return fmt.Errorf("%w: more than %d of PING, INFO and -ERR within %v", ErrProtocol, maxIdleLines, idlePeriod)
	}
	return nil
}

// handleMessage checks the line before a message and appends it to out. fields are its
// arguments: subject, subscription id, optionally a reply subject, the size of the
// headers if headers is set, and the size.
func (c *conn) handleMessage(line []byte, fields [][]byte, headers bool) error {
	minFields := 3
	if headers {
		minFields = 4
	}
	if len(fields) != minFields && len(fields) != minFields+1 {
		return fmt.Errorf("%w: a message announced with %d arguments", ErrProtocol, len(fields))
	}
	size, err := number(fields[len(fields)-1])
	if err == nil {
		_, err = number(fields[1])
	}
	if headers && err == nil {
		var of int
		if of, err = number(fields[len(fields)-2]); err == nil && of > size {
			err = fmt.Errorf("%w: headers of %d bytes in a message of %d", ErrProtocol, of, size)
		}
	}
	if err != nil {
		return err
	}
	if size > maxMessage {
		return fmt.Errorf("%w: a message of %d bytes", ErrProtocol, size)
	}
	subject := fields[0]
	var reply []byte
	if len(fields) > minFields {
		reply = fields[2]
	}
	limit, cut := c.limits.Message, c.limits.Cut
	inbox := c.limits.Inbox != "" && bytes.HasPrefix(subject, []byte(c.limits.Inbox))
	if inbox {
		limit, cut = c.limits.InboxMessage, true
	}
	c.out = append(c.out[:0], line...)
	c.pass, c.skip, c.ending = size, 0, true
	if size > limit {
		if !cut {
			return fmt.Errorf("%w: a message of %d bytes; the limit is %d", ErrProtocol, size, limit)
		}
		c.pass, c.skip = limit+1, size-limit-1
		c.out = fmt.Appendf(c.out[:0], "MSG %s %s %s%s%d\r\n", subject, fields[1], reply, " "[:min(1, len(reply))], c.pass)
	}
	if inbox && c.waiting.Add(int64(c.pass+len(subject)+len(reply))) > int64(c.limits.InboxBytes) {
		return fmt.Errorf("%w: more than %d bytes of unread acknowledgements", ErrProtocol, c.limits.InboxBytes)
	}
	return nil
}

// split returns the first word of a line and the following ones, up to len(into) in all.
func split(line []byte, into [][]byte) (verb []byte, rest [][]byte) {
	n := 0
	for n < len(into) {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			break
		}
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		into[n], line = line[:end], line[end:]
		n++
	}
	if n == 0 {
		return nil, nil
	}
	return into[0], into[1:n]
}

// number parses a number of at most ten digits.
func number(text []byte) (int, error) {
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, fmt.Errorf("%w: %.20q is not a number", ErrProtocol, text)
		}
	}
	if len(text) == 0 || len(text) > 10 {
		return 0, fmt.Errorf("%w: a number of %d digits", ErrProtocol, len(text))
	}
	return strconv.Atoi(string(text))
}
