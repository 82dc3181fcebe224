package natswire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrProtocol is returned if a server violates the protocol or exceeds the bounds.
var ErrProtocol = errors.New("not what a NATS server may send")

const (
	maxLine    = 64 << 10 // INFO lists the servers of a cluster
	maxMessage = 65 << 20 // truncated ones included; servers allow at most 64 MiB
	// maxIdleLines bounds the lines without a message (PING, INFO, +OK, -ERR) in each
	// idlePeriod.
	maxIdleLines, idlePeriod = 1000, 10 * time.Second
	maxHandshake             = 16 << 10 // of a WebSocket
)

// conn is a connection that checks the server's lines before nats.go reads them. nats.go
// rejects malformed lines itself.
type conn struct {
	net.Conn
	r    *bufio.Reader // plain text without WebSocket frames
	o    Options
	out  []byte // a line that Read returns; valid until r is read
	pass int    // bytes of the message that Read returns after it
	skip int    // bytes of the message to discard after these
	body bool   // the line break after a message follows

	upgrading, framed bool      // WebSocket: the handshake is not complete; Read returns frames
	idle              int       // lines without a message since began
	began             time.Time // of the current idlePeriod
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (n int, err error) {
	if len(c.out) == 0 && c.pass == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.out) > 0 {
		n = copy(p, c.out)
		c.out = c.out[n:]
		return n, nil
	}
	n, err = c.r.Read(p[:min(len(p), c.pass)])
	c.pass -= n
	return n, err
}

// next reads a line into out.
func (c *conn) next() error {
	if c.upgrading {
		return c.upgrade()
	}
	if _, err := c.r.Discard(c.skip); err != nil {
		return err
	}
	line, err := c.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
	case err != nil:
		return err
	case len(line) < 2 || bytes.IndexByte(line, '\r') != len(line)-2: // nats.go reads another one after a CR
		return fmt.Errorf("%w: a line does not end with CR and LF", ErrProtocol)
	case c.body != (len(line) == 2):
		return fmt.Errorf("%w: an empty line, or a message that is not as long as announced", ErrProtocol)
	}
	c.out, c.skip, c.body = line, 0, false
	if len(line) > 2 {
		err = c.check(line)
	}
	if c.framed { // the line and its message are one frame
		head := binary.BigEndian.AppendUint64([]byte{0x82, 127}, uint64(len(c.out)+c.pass))
		c.out = append(head, c.out...)
	}
	return err
}

// check checks a line, and truncates the message that it announces if necessary.
func (c *conn) check(line []byte) error {
	fields := bytes.Fields(line)
	switch verb := strings.ToUpper(string(fields[0])); verb {
	case "PONG":
	case "MSG", "HMSG":
		last := len(fields) - 1
		size, err := strconv.ParseUint(string(fields[last]), 10, 31)
		if err != nil || size > maxMessage || int(size) > c.o.MaxMessage && !c.o.Cut {
			return fmt.Errorf("%w: a message of %.20q bytes; the limit is %d", ErrProtocol, fields[last], c.o.MaxMessage)
		}
		c.pass, c.body = int(size), true
		if c.pass > c.o.MaxMessage {
			c.pass = c.o.MaxMessage + 1
			c.skip = int(size) - c.pass
			fields[0], fields[last] = []byte("MSG"), strconv.AppendInt(nil, int64(c.pass), 10)
			if verb == "HMSG" {
				fields = slices.Delete(fields, last-1, last) // the size of the headers
			}
			c.out = append(bytes.Join(fields, []byte(" ")), "\r\n"...)
		}
	default:
		if now := time.Now(); now.Sub(c.began) > idlePeriod {
			c.began, c.idle = now, 0
		}
		if c.idle++; c.idle > maxIdleLines {
			return fmt.Errorf("%w: more than %d of PING, INFO and -ERR within %v", ErrProtocol, maxIdleLines, idlePeriod)
		}
	}
	return nil
}

// upgrade reads the answer to the WebSocket handshake, which nats.go checks.
func (c *conn) upgrade() error {
	for !bytes.HasSuffix(c.out, []byte("\r\n\r\n")) {
		b, err := c.r.ReadByte()
		if err != nil {
			return err
		}
		if c.out = append(c.out, b); len(c.out) > maxHandshake {
			return fmt.Errorf("%w: an answer to the WebSocket handshake of more than %d bytes", ErrProtocol, maxHandshake)
		}
	}
	c.r, c.upgrading, c.framed = bufio.NewReaderSize(&frames{r: c.r}, maxLine), false, true
	return nil
}

// frames reads the payload of a server's WebSocket frames (RFC 6455). nats.go would hold a
// frame of 64 MiB, and decompress one to any size although it did not offer to.
type frames struct {
	r    *bufio.Reader
	left uint64 // unread bytes of the frame's payload
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (n int, err error) {
	for f.left == 0 {
		var head [2]byte
		if _, err := io.ReadFull(f.r, head[:]); err != nil {
			return 0, err
		}
		long := map[byte]int{126: 2, 127: 8}[head[1]]
		size := make([]byte, 8)
		size[7] = head[1]
		switch control := head[0]&0x08 != 0; {
		case head[0]&0x70 != 0 || head[1]&0x80 != 0 || control && long > 0:
			return 0, fmt.Errorf("%w: a WebSocket frame that is masked, has an extension, or is a long control frame", ErrProtocol)
		case head[0]&0x0f == 0x08: // close
			return 0, io.EOF
		case control: // NATS servers send no ping
			_, err = f.r.Discard(int(head[1]))
		case long > 0:
			_, err = io.ReadFull(f.r, size[8-long:])
			fallthrough
		default:
			f.left = binary.BigEndian.Uint64(size)
		}
		if err != nil {
			return 0, err
		}
	}
	n, err = f.r.Read(p[:min(uint64(len(p)), f.left)])
	f.left -= uint64(n)
	return n, err
}
