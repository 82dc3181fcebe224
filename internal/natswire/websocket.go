package natswire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Bits and opcodes of WebSocket frames (RFC 6455).
const (
	frameFinal   = 0x80
	frameRsv     = 0x70
	frameControl = 0x08
	frameBinary  = 0x02
	frameClose   = 0x08

	maxControlFrame = 125
	maxHandshake    = 16 << 10
)

// websocket reads the payload of a server's frames. They may be of any size, because
// they are not buffered. Control frames are collected separately.
type websocket struct {
	r         io.Reader
	upgraded  bool
	control   []byte // complete control frames, for the library
	left      uint64 // unread bytes of the frame's payload
	handshake []byte
	framed    []byte // data for the library
}

// Read returns payload, or nothing after a control frame.
func (w *websocket) Read(p []byte) (int, error) {
	for w.left == 0 {
		var head [10]byte
		if _, err := io.ReadFull(w.r, head[:2]); err != nil {
			return 0, err
		}
		if head[0]&frameRsv != 0 || head[1]&0x80 != 0 {
			return 0, fmt.Errorf("%w: a masked WebSocket frame, or one with an extension", ErrProtocol)
		}
		size := uint64(head[1])
		if head[0]&frameControl != 0 {
			if size > maxControlFrame {
				return 0, fmt.Errorf("%w: a WebSocket control frame of %d bytes", ErrProtocol, size)
			}
			body := make([]byte, size)
			if _, err := io.ReadFull(w.r, body); err != nil {
				return 0, err
			}
			if head[0]&0x0f == frameClose {
				return 0, io.EOF
			}
			w.control = append(append(w.control[:0], head[:2]...), body...)
			return 0, nil
		}
		more := map[uint64]int{126: 2, 127: 8}[size]
		if more > 0 {
			if _, err := io.ReadFull(w.r, head[10-more:]); err != nil {
				return 0, err
			}
			clear(head[2 : 10-more])
			size = binary.BigEndian.Uint64(head[2:])
		}
		w.left = size
	}
	n, err := w.r.Read(p[:min(uint64(len(p)), w.left)])
	w.left -= uint64(n)
	return n, err
}

// readFrames returns the server's answer to the handshake unchanged, and then the checked
// data of the server in new frames.
func (c *conn) readFrames(p []byte) (int, error) {
	w := c.socket
	if !w.upgraded {
		if err := w.readHandshake(); err != nil {
			return 0, err
		}
		w.upgraded, w.framed = true, w.handshake
	}
	for len(w.framed) == 0 {
		const head = 4
		var buffer [32 << 10]byte
		n, err := c.readProtocol(buffer[head:])
		frame := buffer[:0]
		if n > 0 {
			binary.BigEndian.PutUint16(buffer[2:], uint16(n))
			buffer[0], buffer[1] = frameFinal|frameBinary, 126
			frame = buffer[:head+n]
		}
		w.framed = append(append(w.framed, frame...), w.control...)
		w.control = w.control[:0]
		if len(w.framed) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, w.framed)
	if w.framed = w.framed[n:]; len(w.framed) == 0 {
		w.framed = nil
	}
	return n, nil
}

// readHandshake reads the answer to the handshake up to its empty line.
func (w *websocket) readHandshake() error {
	var one [1]byte
	for !bytes.HasSuffix(w.handshake, []byte("\r\n\r\n")) {
		if len(w.handshake) == maxHandshake {
			return fmt.Errorf("%w: an answer to the WebSocket handshake of more than %d bytes", ErrProtocol, maxHandshake)
		}
		if _, err := io.ReadFull(w.r, one[:]); err != nil {
			return err
		}
		w.handshake = append(w.handshake, one[0])
	}
	if !bytes.HasPrefix(w.handshake, []byte("HTTP/1.1 101 ")) {
		line, _, _ := bytes.Cut(w.handshake, []byte("\r\n"))
		return fmt.Errorf("%w: the WebSocket handshake was answered by %.60q", ErrProtocol, line)
	}
	return nil
}
