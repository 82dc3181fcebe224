package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// shape is what a message is made of. It exists since decoders take memory for as many
// elements as a list announces once there are as many bytes left: with the least size
// of an element known, a list that the message cannot hold is refused before, and what
// is decoded takes a small multiple of the message.
type shape []field

// field is a part of a message, in versions from since on.
type field struct {
	since int16
	kind  kind
	size  int   // of a fixed field, or of the number in front of the others
	each  shape // of a list: its elements
}

type kind int

const (
	fixed kind = iota
	sized      // bytes, with their number in front; -1: none
	list       // elements, with their number in front; -1: none
)

var (
	i8   = field{kind: fixed, size: 1} // also of a boolean
	i16  = field{kind: fixed, size: 2}
	i32  = field{kind: fixed, size: 4}
	i64  = field{kind: fixed, size: 8}
	text = field{kind: sized, size: 2}
	blob = field{kind: sized, size: 4}
)

func listOf(each ...field) field { return field{kind: list, size: 4, each: each} }

// from returns f as a field that versions before since do not have.
func (f field) from(since int16) field {
	f.since = since
	return f
}

// check reports whether a message has the shape. What lies behind it is not looked at:
// decoders do neither.
func (s shape) check(message []byte, version int16) error {
	_, err := s.skip(message, version)
	return err
}

var errShort = errors.New("it ends too early")

// skip returns what lies behind the shape.
func (s shape) skip(b []byte, version int16) ([]byte, error) {
	for _, f := range s {
		if version < f.since {
			continue
		}
		if len(b) < f.size {
			return nil, errShort
		}
		n := 0
		switch {
		case f.kind == fixed:
		case f.size == 2:
			n = int(int16(binary.BigEndian.Uint16(b)))
		default:
			n = int(int32(binary.BigEndian.Uint32(b)))
		}
		b = b[f.size:]
		if n < -1 {
			return nil, fmt.Errorf("it announces a length of %d", n)
		}
		n = max(n, 0)
		if f.kind == sized {
			if n > len(b) {
				return nil, fmt.Errorf("it announces %d bytes where %d are left", n, len(b))
			}
			b = b[n:]
		}
		if f.kind != list {
			continue
		}
		if least := f.each.least(version); n > len(b)/least {
			return nil, fmt.Errorf("it announces a list of %d where %d bytes are left", n, len(b))
		}
		for range n {
			var err error
			if b, err = f.each.skip(b, version); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// least is how many bytes the shape takes at the least; never 0.
func (s shape) least(version int16) (n int) {
	for _, f := range s {
		if version >= f.since {
			n += f.size
		}
	}
	return max(n, 1)
}
